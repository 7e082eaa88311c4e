"""What every `Client` promises about many reads that are asked for together."""

import asyncio
import random

import pytest

from holdfast.errors import SessionEnded, Unavailable
from holdfast.zk.session.client import (
    ANY_PATH,
    Client,
    Committed,
    Create,
    Delete,
    Found,
    Operation,
    Read,
    SetData,
    State,
    Znode,
)
from tests.contract.backends import Backend, connected, until

MANY = 700
"""More than go into one packet."""
QUIET_S = 0.5
RACES = 60


async def write(client: Client, *operations: Operation) -> None:
    assert isinstance(await client.commit(operations), Committed)


async def family(client: Client, root: str, count: int) -> list[str]:
    """Some znodes below a root, each with its number for data."""
    paths = [f"{root}/{number}" for number in range(count)]
    await write(client, Create(root))
    for first in range(0, count, 100):
        await write(client, *(Create(path, path.rpartition("/")[2].encode()) for path in paths[first : first + 100]))
    return paths


async def told(client: Client, *paths: str) -> set[str]:
    """Whatever has fired, when these have."""
    seen: set[str] = set()

    def all_seen() -> bool:
        seen.update(client.take_fired())
        return seen >= set(paths)

    await until(all_seen, what=f"{paths} fired")
    return seen


async def fired(client: Client, *paths: str) -> None:
    """All of these, and nothing else."""
    assert await told(client, *paths) == set(paths)


async def nothing_fires(backend: Backend, client: Client) -> None:
    await backend.advance(QUIET_S)
    assert client.take_fired() == set()


def data(found: list[Found]) -> list[bytes | None]:
    return [what.data if isinstance(what, Znode) else None for what in found]


def test_data_and_names_are_read_together_and_what_is_missing_is_none(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
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
        found = await client.read(reads)
        alone = await client.get(root)
        assert isinstance(found[1], list)
        found[1].sort()
        assert found == [alone, ["a", "b"], None, None, await client.get(f"{root}/a"), [], alone]
        assert await client.read([]) == []

    backend.run(test())


def test_more_than_one_packet_takes_is_read_all_the_same(backend: Backend) -> None:
    async def test() -> None:
        client = await connected(backend)
        paths = await family(client, backend.random_root(), MANY)
        found = await client.read([Read(path) for path in paths])
        assert data(found) == [b"%d" % number for number in range(MANY)]

    backend.run(test())


def test_large_and_small_data_are_read_together(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        paths = await family(client, root, 100)
        for path in paths[50:60]:
            await write(client, SetData(path, path[-1:].encode() * 900_000, 0))
        for _ in range(3):
            found = await client.read([Read(path, watch=True) for path in paths])
            sizes = [len(what) for what in data(found) if what is not None]
            assert [size for size in sizes if size > 2] == [900_000] * 10
            assert len(sizes) == 100

    backend.run(test())


def test_a_client_reads_its_own_writes_together(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        await write(client, Create(root))
        for version in range(20):
            writing = asyncio.ensure_future(client.commit([SetData(root, b"%d" % version, version)]))
            await asyncio.sleep(0)
            assert data(await client.read([Read(root)])) == [b"%d" % version]
            await writing

    backend.run(test())


def test_each_watch_fires_once_for_what_it_watches(backend: Backend) -> None:
    async def test() -> None:
        watcher, writer = await connected(backend), await connected(backend)
        root = backend.random_root()
        set_, gone, plain = await family(writer, root, 3)
        await watcher.sync(root)
        watcher.take_fired()
        await watcher.read(
            [
                Read(set_, watch=True),
                Read(gone, watch=True),
                Read(gone, children=True, watch=True),
                Read(plain),
                Read(root, children=True, watch=True),
            ]
        )
        await nothing_fires(backend, watcher)
        await write(writer, SetData(set_, b"1", 0), SetData(plain, b"1", 0))
        await fired(watcher, set_)
        await write(writer, SetData(set_, b"2", 1))
        await nothing_fires(backend, watcher)
        await write(writer, Delete(gone, 0))
        await fired(watcher, gone, root)
        await write(writer, Create(gone))
        await nothing_fires(backend, watcher)

    backend.run(test())


def test_what_is_not_there_is_not_watched(backend: Backend) -> None:
    async def test() -> None:
        watcher, writer = await connected(backend), await connected(backend)
        root = backend.random_root()
        await watcher.sync("/")
        watcher.take_fired()
        assert await watcher.read([Read(root, watch=True), Read(root, children=True, watch=True)]) == [None, None]
        await write(writer, Create(root), Create(f"{root}/child"))
        await nothing_fires(backend, watcher)

    backend.run(test())


def test_watches_set_alone_and_together_do_not_disturb_each_other(backend: Backend) -> None:
    async def test() -> None:
        watcher, writer = await connected(backend), await connected(backend)
        paths = await family(writer, backend.random_root(), 2)
        for version, alone_first in enumerate((True, False)):
            await watcher.sync("/")
            watcher.take_fired()
            for step in (alone_first, not alone_first):
                if step:
                    await watcher.get(paths[0], watch=True)
                else:
                    await watcher.read([Read(path, watch=True) for path in paths])
            await write(writer, *(SetData(path, b"", version) for path in paths))
            await fired(watcher, *paths)
        await nothing_fires(backend, watcher)

    backend.run(test())


def test_no_change_falls_between_reading_and_watching(backend: Backend) -> None:
    """Whenever it comes: it was read, or it is told."""
    chance = random.Random(7)

    async def test() -> None:
        watcher, writer = await connected(backend), await connected(backend)
        root = backend.random_root()
        paths = await family(writer, root, 40)
        versions = [0] * len(paths)
        reads = [Read(path, watch=True) for path in paths] + [Read(root, children=True, watch=True)]

        async def change(number: int, child: str) -> None:
            await backend.advance(chance.random() * 0.006)
            await write(writer, SetData(paths[number], child.encode(), versions[number]), Create(f"{root}/{child}"))
            versions[number] += 1

        late = 0
        for race in range(RACES):
            await watcher.sync(root)
            watcher.take_fired()
            number, child = chance.randrange(len(paths)), f"child-{race}"
            found, _ = await asyncio.gather(watcher.read(reads), change(number, child))
            names = found[-1]
            assert isinstance(names, list)
            missed = [paths[number]] if data(found)[number] != child.encode() else []
            missed += [root] if child not in names else []
            late += bool(missed)
            await told(watcher, *missed)
        assert late, "every change came before the read"

    backend.run(test())


def test_without_a_connection_nothing_is_read_and_afterwards_it_is_again(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        await write(client, Create(root))
        await backend.stop_service()
        await until(lambda: client.state is State.SUSPENDED, what="suspended")
        with pytest.raises(Unavailable):
            await client.read([Read(root)])
        await backend.start_service()
        await until(lambda: client.state is State.CONNECTED, what="connected again")
        assert data(await client.read([Read(root)])) == [b""]

    backend.run(test())


def test_a_connection_lost_meanwhile_is_told_and_whatever_was_watched_may_have_changed(backend: Backend) -> None:
    chance = random.Random(11)

    async def test() -> None:
        client = await connected(backend)
        reads = [Read(path, watch=True) for path in await family(client, backend.random_root(), 300)]
        lost = 0
        for _ in range(12):
            await until(lambda: client.state is State.CONNECTED, what="connected")
            await client.sync("/")
            client.take_fired()
            reading = asyncio.ensure_future(client.read(reads))
            await backend.advance(chance.random() * 0.02)
            await backend.drop_connections()
            try:
                assert len(await reading) == len(reads)
            except Unavailable:
                lost += 1
            await told(client, ANY_PATH)
        assert lost, "every read was done before the connection was lost"

    backend.run(test())


def test_a_reply_that_does_not_come_is_not_waited_for_longer_than_any_other(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend, patience_s=0.5), backend.random_root()
        await write(client, Create(root))
        await backend.lose_replies()
        with pytest.raises(Unavailable):
            await client.read([Read(root, watch=True)])
        await backend.restore_replies()
        await until(lambda: client.state is State.CONNECTED, what="connected again")
        assert data(await client.read([Read(root, watch=True)])) == [b""]

    backend.run(test())


def test_after_the_end_of_the_session_nothing_is_read(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        await write(client, Create(root))
        await backend.expire(client)
        await until(lambda: client.state is State.ENDED, what="ended")
        with pytest.raises(SessionEnded):
            await client.read([Read(root)])

    backend.run(test())
