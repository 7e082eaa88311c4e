"""Contract of `Client`: watches and the wake callback, which does not say what has changed."""

import pytest

from holdfast.zk.session.client import (
    ANY_PATH,
    Client,
    Committed,
    ConnectionState,
    Create,
    Delete,
    NoNode,
    Operation,
    Read,
    SetData,
)
from tests.contract.backends import Backend, WakeCounter, open_session, wait_for

NO_EVENT_S = 0.5
WATCHES = 200


async def write(client: Client, *operations: Operation) -> None:
    assert isinstance(await client.commit(operations), Committed)


async def wait_for_wake(counter: WakeCounter, before: int) -> None:
    await wait_for(lambda: counter.wakes > before, what="a wake")


async def expect_no_wake(backend: Backend, counter: WakeCounter) -> None:
    before = counter.wakes
    await backend.advance(NO_EVENT_S)
    assert counter.wakes == before


def test_data_watch_fires_once_when_the_data_changes(backend: Backend) -> None:
    async def test() -> None:
        counter, root = WakeCounter(), backend.random_root()
        watcher, writer = await open_session(backend, counter), await open_session(backend)
        await write(writer, Create(root))
        await watcher.sync(root)
        await watcher.get(root, watch=True)
        await expect_no_wake(backend, counter)
        before = counter.wakes
        await write(writer, SetData(root, b"1", 0))
        await wait_for_wake(counter, before)
        await expect_no_wake(backend, counter)
        before = counter.wakes
        await write(writer, SetData(root, b"2", 1))
        await expect_no_wake(backend, counter)
        assert counter.wakes == before

    backend.run(test())


def test_data_watch_fires_when_the_znode_is_deleted(backend: Backend) -> None:
    async def test() -> None:
        counter, root = WakeCounter(), backend.random_root()
        watcher, writer = await open_session(backend, counter), await open_session(backend)
        await write(writer, Create(root))
        await watcher.sync(root)
        await watcher.get(root, watch=True)
        before = counter.wakes
        await write(writer, Delete(root, 0))
        await wait_for_wake(counter, before)
        with pytest.raises(NoNode):
            await watcher.get(root)

    backend.run(test())


def test_exists_watch_fires_when_the_znode_is_created(backend: Backend) -> None:
    async def test() -> None:
        counter, root = WakeCounter(), backend.random_root()
        watcher, writer = await open_session(backend, counter), await open_session(backend)
        assert await watcher.exists(root, watch=True) is None
        before = counter.wakes
        await write(writer, Create(root))
        await wait_for_wake(counter, before)
        assert await watcher.exists(root, watch=True) is not None
        before = counter.wakes
        await write(writer, SetData(root, b"1", 0))
        await wait_for_wake(counter, before)

    backend.run(test())


def test_children_watch_fires_for_created_and_deleted_children_but_not_for_their_data(backend: Backend) -> None:
    async def test() -> None:
        counter, root = WakeCounter(), backend.random_root()
        watcher, writer = await open_session(backend, counter), await open_session(backend)
        await write(writer, Create(root))
        await watcher.sync(root)
        assert await watcher.children(root, watch=True) == []
        before = counter.wakes
        await write(writer, Create(f"{root}/child"))
        await wait_for_wake(counter, before)
        assert await watcher.children(root, watch=True) == ["child"]
        await write(writer, SetData(f"{root}/child", b"1", 0))
        await expect_no_wake(backend, counter)
        before = counter.wakes
        await write(writer, Delete(f"{root}/child", 1))
        await wait_for_wake(counter, before)
        assert await watcher.children(root) == []

    backend.run(test())


def test_children_watch_fires_when_the_parent_is_deleted(backend: Backend) -> None:
    async def test() -> None:
        counter, root = WakeCounter(), backend.random_root()
        watcher, writer = await open_session(backend, counter), await open_session(backend)
        await write(writer, Create(root))
        await watcher.sync(root)
        await watcher.children(root, watch=True)
        before = counter.wakes
        await write(writer, Delete(root, 0))
        await wait_for_wake(counter, before)

    backend.run(test())


def test_get_and_children_of_a_missing_znode_set_no_watch(backend: Backend) -> None:
    async def test() -> None:
        counter, root = WakeCounter(), backend.random_root()
        watcher, writer = await open_session(backend, counter), await open_session(backend)
        with pytest.raises(NoNode):
            await watcher.get(root, watch=True)
        with pytest.raises(NoNode):
            await watcher.children(root, watch=True)
        await write(writer, Create(root), Create(f"{root}/child"))
        await expect_no_wake(backend, counter)

    backend.run(test())


def test_read_without_watch_causes_no_wake_and_own_writes_fire_own_watches(backend: Backend) -> None:
    async def test() -> None:
        counter, root = WakeCounter(), backend.random_root()
        client = await open_session(backend, counter)
        await write(client, Create(root))
        await client.get(root)
        await client.children(root)
        await client.exists(root)
        await write(client, SetData(root, b"1", 0), Create(f"{root}/child"))
        await expect_no_wake(backend, counter)
        await client.get(root, watch=True)
        before = counter.wakes
        await write(client, SetData(root, b"2", 1))
        await wait_for_wake(counter, before)

    backend.run(test())


def test_end_of_another_session_fires_watches_on_its_ephemeral_znodes(backend: Backend) -> None:
    async def test() -> None:
        counter, root = WakeCounter(), backend.random_root()
        watcher, owner = await open_session(backend, counter), await open_session(backend)
        await write(owner, Create(root, ephemeral=True))
        await watcher.sync(root)
        assert await watcher.exists(root, watch=True) is not None
        before = counter.wakes
        await owner.close()
        await wait_for_wake(counter, before)
        assert await watcher.exists(root) is None

    backend.run(test())


def test_lost_connection_wakes_the_owner_and_removes_all_watches(backend: Backend) -> None:
    async def test() -> None:
        counter, root = WakeCounter(), backend.random_root()
        watcher, writer = await open_session(backend, counter), await open_session(backend)
        await watcher.exists(root, watch=True)
        before = counter.wakes
        await backend.stop_service()
        await wait_for(lambda: watcher.state is ConnectionState.SUSPENDED, what="suspended")
        await wait_for_wake(counter, before)
        before = counter.wakes
        await backend.start_service()
        await wait_for(lambda: watcher.state is ConnectionState.CONNECTED, what="connected again")
        await wait_for_wake(counter, before)
        await wait_for(lambda: writer.state is ConnectionState.CONNECTED, what="connected again")
        await write(writer, Create(root))
        await expect_no_wake(backend, counter)

    backend.run(test())


def test_number_of_wakes_after_a_lost_connection_does_not_depend_on_the_number_of_watches(backend: Backend) -> None:
    async def test() -> None:
        counter, root = WakeCounter(), backend.random_root()
        watcher = await open_session(backend, counter)
        paths = [f"{root}/{number}" for number in range(WATCHES)]
        await write(watcher, Create(root), *map(Create, paths))
        await watcher.read_many([Read(path, watch=True, children=children) for path in paths for children in (False, True)])
        await expect_no_wake(backend, counter)
        before = counter.wakes
        await backend.stop_service()
        await wait_for(lambda: watcher.state is ConnectionState.SUSPENDED, what="suspended")
        await wait_for_wake(counter, before)
        await expect_no_wake(backend, counter)
        assert counter.wakes < before + WATCHES / 10
        assert watcher.take_fired_paths() == {ANY_PATH}
        await backend.start_service()

    backend.run(test())
