"""Short ZooKeeper session for one operation."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from holdfast.client.connection.blocking import run_blocking
from holdfast.client.connection.target import Target
from holdfast.errors import Unavailable
from holdfast.zk.session.client import Client, ConnectionState

CONNECT_S = 4.0
"""Time that ZooKeeper has to accept a connection, and time that a read is retried."""
RETRY_S = 0.1
STOPPED_CONNECT_S = 0.5
"""Time that ZooKeeper has if the local cluster appears to be stopped. It may be visible only from another container."""
CLOSE_UNCONNECTED_S = 0.1
"""Time to close a session that was never established."""

Result = TypeVar("Result")


class ClusterStopped(Unavailable):
    """The local cluster is not running. A retry helps only after the user has started it."""


@contextlib.asynccontextmanager
async def open_session(target: Target, within_s: float = CONNECT_S) -> AsyncIterator[Client]:
    """Connect to ZooKeeper and close the session at the end.

    Raise ClusterStopped if the local cluster does not run, and Unavailable if no server accepts the session in `within_s`.
    """
    from holdfast.zk.kazoo_transport import client_factory  # expensive import

    awake = asyncio.Event()
    client = client_factory(target.zookeeper)(awake.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOPPED_CONNECT_S if target.is_stopped else within_s):
                while client.state is ConnectionState.CONNECTING:
                    await awake.wait()
                    awake.clear()
        if client.state is not ConnectionState.CONNECTED:
            raise _connection_error(target, client.connection_problem)
        yield client
    finally:
        await _close(client)


def _connection_error(target: Target, problem: str | None) -> Unavailable:
    if target.is_stopped:
        place = target.directory
        return ClusterStopped(f"the cluster in {place} is not running: start it with 'holdfast up --dir {place}'")
    reason = f" ({problem})" if problem else "; is it running?"
    return Unavailable(f"ZooKeeper at {target.zookeeper.connect_string} does not answer{reason}")


async def _close(client: Client) -> None:
    """Close the session. Wait only briefly for a server that never answered, so that the error reaches the user in time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None if client.session is not None else CLOSE_UNCONNECTED_S):
            await client.close()


def read_over_kazoo(target: Target, query: Callable[[Client], Awaitable[Result]], within_s: float = CONNECT_S) -> Result:
    """Run a read-only query in its own session. Repeat it if the connection is lost; raise Unavailable after `within_s`."""

    async def run() -> Result:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + within_s
        async with open_session(target, within_s) as client:
            while True:
                try:
                    return await query(client)
                except Unavailable:
                    if loop.time() >= give_up_at:
                        raise
                    await asyncio.sleep(RETRY_S)

    return run_blocking(run)
