"""Phase of another job, read from ZooKeeper in a separate session. Blocks; call it from a worker thread."""

import asyncio
import contextlib
from collections.abc import Callable

from holdfast.errors import HoldfastError, Unavailable
from holdfast.model.codec import MalformedRecord, NewerSchema, decode
from holdfast.model.identifiers import JobId, is_valid_name
from holdfast.model.job import JobState
from holdfast.model.phase import Phase
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.synced_read import read_after_sync
from holdfast.zk.session.client import Client, ClientFactory, ConnectionState
from holdfast.zk.session.missing_znode import none_if_missing

ReadPhase = Callable[[str], Phase | None]
"""Function that returns the phase of a job, or None if the cluster has no readable record of it. Raises Unavailable."""
CONNECT_TIMEOUT_S = 10.0


def phase_reader(connect: ClientFactory, paths: Paths) -> ReadPhase:
    """Return a function that opens a session for each call. Calls are rare: only a claim of another job leads to one."""
    return lambda job: asyncio.run(_read_phase(connect, paths, job))


async def _read_phase(connect: ClientFactory, paths: Paths, job: str) -> Phase | None:
    if not is_valid_name(job):
        return None
    awake = asyncio.Event()
    client = connect(awake.set)
    try:
        await _wait_for_connection(client, awake)
        path = paths.job(JobId(job), "state")
        znode = await read_after_sync(client, path, lambda: none_if_missing(client.get(path)))
        return decode(JobState, znode.data, where=path).phase if znode is not None else None
    except (MalformedRecord, NewerSchema):
        return None
    except HoldfastError as error:
        raise Unavailable(f"the state of the job {job} cannot be read: {error}") from error
    finally:
        await client.close()


async def _wait_for_connection(client: Client, awake: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            while client.state is ConnectionState.CONNECTING:
                await awake.wait()
                awake.clear()
    if client.state is not ConnectionState.CONNECTED:
        raise Unavailable("ZooKeeper does not answer")
