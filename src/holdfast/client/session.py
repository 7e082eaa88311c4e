"""A short ZooKeeper session for one command."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from holdfast.client.target import Target
from holdfast.errors import Unavailable
from holdfast.zk.kazoo_transport import connect_by
from holdfast.zk.session.client import Client, State

CONNECT_S = 4.0
RETRY_S = 0.1
UNANSWERED_S = 0.1

Answer = TypeVar("Answer")


@contextlib.asynccontextmanager
async def session(target: Target) -> AsyncIterator[Client]:
    awake = asyncio.Event()
    client = connect_by(target.ensemble)(awake.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_S):
                while client.state is State.CONNECTING:
                    await awake.wait()
                    awake.clear()
        if client.state is not State.CONNECTED:
            because = f" ({client.trouble})" if client.trouble else "; is it running?"
            raise Unavailable(f"ZooKeeper at {target.ensemble.connect} does not answer{because}")
        yield client
    finally:
        await _close(client)


async def _close(client: Client) -> None:
    """Nobody waits for a server that never answered: the sentence has to come in time, and the process ends anyway."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None if client.session is not None else UNANSWERED_S):
            await client.close()


def read(target: Target, question: Callable[[Client], Awaitable[Answer]]) -> Answer:
    """Ask, and ask again if the connection was lost meanwhile. Reading twice harms nobody."""

    async def ask() -> Answer:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + CONNECT_S
        async with session(target) as client:
            while True:
                try:
                    return await question(client)
                except Unavailable:
                    if loop.time() >= give_up_at:
                        raise
                    await asyncio.sleep(RETRY_S)

    return asyncio.run(ask())
