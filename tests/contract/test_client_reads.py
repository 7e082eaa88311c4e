"""Contract of `Client.read_many`: batched reads and their watches."""

import asyncio
import random

import pytest

from holdfast.errors import SessionEnded, Unavailable
from holdfast.zk.session.client import (
    ANY_PATH,
    Client,
    Committed,
    ConnectionState,
    Create,
    Delete,
    Operation,
    Read,
    ReadResult,
    SetData,
    Znode,
)
from tests.contract.backends import Backend, open_session, wait_for

MANY = 700
"""More reads than fit into one packet."""
NO_EVENT_S = 0.5
RACES = 60


async def write(client: Client, *operations: Operation) -> None:
    assert isinstance(await client.commit(operations), Committed)


async def create_children(client: Client, root: str, count: int) -> list[str]:
    """Create `count` znodes below a new root, each with its number as data, and return their paths."""
    paths = [f"{root}/{number}" for number in range(count)]
    await write(client, Create(root))
    for first in range(0, count, 100):
        await write(client, *(Create(path, path.rpartition("/")[2].encode()) for path in paths[first : first + 100]))
    return paths


async def wait_until_fired(client: Client, *paths: str) -> set[str]:
    """Wait until these paths have fired, and return all fired paths."""
    fired: set[str] = set()

    def all_fired() -> bool:
        fired.update(client.take_fired_paths())
        return fired >= set(paths)

    await wait_for(all_fired, what=f"{paths} fired")
    return fired


async def expect_fired(client: Client, *paths: str) -> None:
    """Wait until these paths have fired, and fail if another one has."""
    assert await wait_until_fired(client, *paths) == set(paths)


async def expect_nothing_fired(backend: Backend, client: Client) -> None:
    await backend.advance(NO_EVENT_S)
    assert client.take_fired_paths() == set()


def data_of(found: list[ReadResult]) -> list[bytes | None]:
    return [what.data if isinstance(what, Znode) else None for what in found]


def test_batched_read_returns_data_names_and_none_for_missing_znodes(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        await write(client, Create(root, b"old"), Create(f"{root}/a"), Create(f"{root}/b", b"1"), SetData(root, b"new", 0))
        reads = [
            Read(root),
            Read(root, children=True),
            Read(f"{root}/none"),
            Read(f"{root}/none", children=True),
            Read(f"{root}/a"),
            Read(f"{root}/a", children=True),
            Read(root),
        ]
        found = await client.read_many(reads)
        alone = await client.get(root)
        assert isinstance(found[1], list)
        found[1].sort()
        assert found == [alone, ["a", "b"], None, None, await client.get(f"{root}/a"), [], alone]
        assert await client.read_many([]) == []

    backend.run(test())


def test_batched_read_larger_than_one_packet_is_complete(backend: Backend) -> None:
    async def test() -> None:
        client = await open_session(backend)
        paths = await create_children(client, backend.random_root(), MANY)
        found = await client.read_many([Read(path) for path in paths])
        assert data_of(found) == [b"%d" % number for number in range(MANY)]

    backend.run(test())


def test_batched_read_of_large_and_small_znodes_is_complete(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        paths = await create_children(client, root, 100)
        for path in paths[50:60]:
            await write(client, SetData(path, path[-1:].encode() * 900_000, 0))
        for _ in range(3):
            found = await client.read_many([Read(path, watch=True) for path in paths])
            sizes = [len(what) for what in data_of(found) if what is not None]
            assert [size for size in sizes if size > 2] == [900_000] * 10
            assert len(sizes) == 100

    backend.run(test())


def test_batched_read_includes_earlier_writes_of_the_same_client(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        await write(client, Create(root))
        for version in range(20):
            writing = asyncio.ensure_future(client.commit([SetData(root, b"%d" % version, version)]))
            await asyncio.sleep(0)
            assert data_of(await client.read_many([Read(root)])) == [b"%d" % version]
            await writing

    backend.run(test())


def test_watch_of_a_batched_read_fires_once_for_its_znode(backend: Backend) -> None:
    async def test() -> None:
        watcher, writer = await open_session(backend), await open_session(backend)
        root = backend.random_root()
        changed, deleted, unwatched = await create_children(writer, root, 3)
        await watcher.sync(root)
        watcher.take_fired_paths()
        await watcher.read_many(
            [
                Read(changed, watch=True),
                Read(deleted, watch=True),
                Read(deleted, children=True, watch=True),
                Read(unwatched),
                Read(root, children=True, watch=True),
            ]
        )
        await expect_nothing_fired(backend, watcher)
        await write(writer, SetData(changed, b"1", 0), SetData(unwatched, b"1", 0))
        await expect_fired(watcher, changed)
        await write(writer, SetData(changed, b"2", 1))
        await expect_nothing_fired(backend, watcher)
        await write(writer, Delete(deleted, 0))
        await expect_fired(watcher, deleted, root)
        await write(writer, Create(deleted))
        await expect_nothing_fired(backend, watcher)

    backend.run(test())


def test_batched_read_does_not_watch_missing_znodes(backend: Backend) -> None:
    async def test() -> None:
        watcher, writer = await open_session(backend), await open_session(backend)
        root = backend.random_root()
        await watcher.sync("/")
        watcher.take_fired_paths()
        assert await watcher.read_many([Read(root, watch=True), Read(root, children=True, watch=True)]) == [None, None]
        await write(writer, Create(root), Create(f"{root}/child"))
        await expect_nothing_fired(backend, watcher)

    backend.run(test())


def test_watches_of_single_and_batched_reads_are_independent(backend: Backend) -> None:
    async def test() -> None:
        watcher, writer = await open_session(backend), await open_session(backend)
        paths = await create_children(writer, backend.random_root(), 2)
        for version, alone_first in enumerate((True, False)):
            await watcher.sync("/")
            watcher.take_fired_paths()
            for step in (alone_first, not alone_first):
                if step:
                    await watcher.get(paths[0], watch=True)
                else:
                    await watcher.read_many([Read(path, watch=True) for path in paths])
            await write(writer, *(SetData(path, b"", version) for path in paths))
            await expect_fired(watcher, *paths)
        await expect_nothing_fired(backend, watcher)

    backend.run(test())


def test_no_change_between_a_batched_read_and_its_watches_is_missed(backend: Backend) -> None:
    """Each change is either included in the read or fires its watch."""
    rng = random.Random(7)

    async def test() -> None:
        watcher, writer = await open_session(backend), await open_session(backend)
        root = backend.random_root()
        paths = await create_children(writer, root, 40)
        versions = [0] * len(paths)
        reads = [Read(path, watch=True) for path in paths] + [Read(root, children=True, watch=True)]

        async def change(number: int, child: str) -> None:
            await backend.advance(rng.random() * 0.006)
            await write(writer, SetData(paths[number], child.encode(), versions[number]), Create(f"{root}/{child}"))
            versions[number] += 1

        changes_after_read = 0
        for race in range(RACES):
            await watcher.sync(root)
            watcher.take_fired_paths()
            number, child = rng.randrange(len(paths)), f"child-{race}"
            found, _ = await asyncio.gather(watcher.read_many(reads), change(number, child))
            names = found[-1]
            assert isinstance(names, list)
            missed = [paths[number]] if data_of(found)[number] != child.encode() else []
            missed += [root] if child not in names else []
            changes_after_read += bool(missed)
            await wait_until_fired(watcher, *missed)
        assert changes_after_read, "every change came before the read"

    backend.run(test())


def test_batched_read_fails_without_a_connection_and_works_after_reconnecting(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        await write(client, Create(root))
        await backend.stop_service()
        await wait_for(lambda: client.state is ConnectionState.SUSPENDED, what="suspended")
        with pytest.raises(Unavailable):
            await client.read_many([Read(root)])
        await backend.start_service()
        await wait_for(lambda: client.state is ConnectionState.CONNECTED, what="connected again")
        assert data_of(await client.read_many([Read(root)])) == [b""]

    backend.run(test())


def test_connection_lost_during_a_batched_read_fires_all_watches(backend: Backend) -> None:
    rng = random.Random(11)

    async def test() -> None:
        client = await open_session(backend)
        reads = [Read(path, watch=True) for path in await create_children(client, backend.random_root(), 300)]
        lost = 0
        for _ in range(12):
            await wait_for(lambda: client.state is ConnectionState.CONNECTED, what="connected")
            await client.sync("/")
            client.take_fired_paths()
            reading = asyncio.ensure_future(client.read_many(reads))
            await backend.advance(rng.random() * 0.02)
            await backend.drop_connections()
            try:
                assert len(await reading) == len(reads)
            except Unavailable:
                lost += 1
            await wait_until_fired(client, ANY_PATH)
        assert lost, "every read ended before the connection was lost"

    backend.run(test())


def test_batched_read_with_a_lost_reply_fails_after_the_reply_timeout(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend, reply_timeout_s=0.5), backend.random_root()
        await write(client, Create(root))
        await backend.lose_replies()
        with pytest.raises(Unavailable):
            await client.read_many([Read(root, watch=True)])
        await backend.restore_replies()
        await wait_for(lambda: client.state is ConnectionState.CONNECTED, what="connected again")
        assert data_of(await client.read_many([Read(root, watch=True)])) == [b""]

    backend.run(test())


def test_batched_read_after_the_end_of_the_session_raises_session_ended(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        await write(client, Create(root))
        await backend.expire(client)
        await wait_for(lambda: client.state is ConnectionState.ENDED, what="ended")
        with pytest.raises(SessionEnded):
            await client.read_many([Read(root)])

    backend.run(test())
