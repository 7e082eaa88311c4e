"""What every `Client` promises about being woken. A wake says that something changed, never what."""

import pytest

from holdfast.zk.session.client import Client, Committed, Create, Delete, NoNode, Operation, SetData, State
from tests.contract.backends import Backend, Bell, connected, until

QUIET_S = 0.5


async def write(client: Client, *operations: Operation) -> None:
    assert isinstance(await client.commit(operations), Committed)


async def rings(bell: Bell, before: int) -> None:
    await until(lambda: bell.rings > before, what="woken")


async def stays_quiet(backend: Backend, bell: Bell) -> None:
    before = bell.rings
    await backend.advance(QUIET_S)
    assert bell.rings == before


def test_a_data_watch_fires_when_the_data_changes_and_only_once(backend: Backend) -> None:
    async def test() -> None:
        bell, root = Bell(), backend.random_root()
        watcher, writer = await connected(backend, bell), await connected(backend)
        await write(writer, Create(root))
        await watcher.sync(root)
        await watcher.get(root, watch=True)
        await stays_quiet(backend, bell)
        before = bell.rings
        await write(writer, SetData(root, b"1", 0))
        await rings(bell, before)
        await stays_quiet(backend, bell)
        before = bell.rings
        await write(writer, SetData(root, b"2", 1))
        await stays_quiet(backend, bell)
        assert bell.rings == before

    backend.run(test())


def test_a_data_watch_fires_when_the_znode_is_deleted(backend: Backend) -> None:
    async def test() -> None:
        bell, root = Bell(), backend.random_root()
        watcher, writer = await connected(backend, bell), await connected(backend)
        await write(writer, Create(root))
        await watcher.sync(root)
        await watcher.get(root, watch=True)
        before = bell.rings
        await write(writer, Delete(root, 0))
        await rings(bell, before)
        with pytest.raises(NoNode):
            await watcher.get(root)

    backend.run(test())


def test_an_exists_watch_fires_when_the_znode_appears(backend: Backend) -> None:
    async def test() -> None:
        bell, root = Bell(), backend.random_root()
        watcher, writer = await connected(backend, bell), await connected(backend)
        assert await watcher.exists(root, watch=True) is None
        before = bell.rings
        await write(writer, Create(root))
        await rings(bell, before)
        assert await watcher.exists(root, watch=True) is not None
        before = bell.rings
        await write(writer, SetData(root, b"1", 0))
        await rings(bell, before)

    backend.run(test())


def test_a_children_watch_fires_for_a_child_that_comes_or_goes_but_not_for_its_data(backend: Backend) -> None:
    async def test() -> None:
        bell, root = Bell(), backend.random_root()
        watcher, writer = await connected(backend, bell), await connected(backend)
        await write(writer, Create(root))
        await watcher.sync(root)
        assert await watcher.children(root, watch=True) == []
        before = bell.rings
        await write(writer, Create(f"{root}/child"))
        await rings(bell, before)
        assert await watcher.children(root, watch=True) == ["child"]
        await write(writer, SetData(f"{root}/child", b"1", 0))
        await stays_quiet(backend, bell)
        before = bell.rings
        await write(writer, Delete(f"{root}/child", 1))
        await rings(bell, before)
        assert await watcher.children(root) == []

    backend.run(test())


def test_a_children_watch_fires_when_the_parent_itself_is_deleted(backend: Backend) -> None:
    async def test() -> None:
        bell, root = Bell(), backend.random_root()
        watcher, writer = await connected(backend, bell), await connected(backend)
        await write(writer, Create(root))
        await watcher.sync(root)
        await watcher.children(root, watch=True)
        before = bell.rings
        await write(writer, Delete(root, 0))
        await rings(bell, before)

    backend.run(test())


def test_a_read_that_finds_nothing_leaves_no_watch_unless_it_asked_for_existence(backend: Backend) -> None:
    async def test() -> None:
        bell, root = Bell(), backend.random_root()
        watcher, writer = await connected(backend, bell), await connected(backend)
        with pytest.raises(NoNode):
            await watcher.get(root, watch=True)
        with pytest.raises(NoNode):
            await watcher.children(root, watch=True)
        await write(writer, Create(root), Create(f"{root}/child"))
        await stays_quiet(backend, bell)

    backend.run(test())


def test_a_read_without_watch_wakes_nobody_and_ones_own_writes_wake_oneself(backend: Backend) -> None:
    async def test() -> None:
        bell, root = Bell(), backend.random_root()
        client = await connected(backend, bell)
        await write(client, Create(root))
        await client.get(root)
        await client.children(root)
        await client.exists(root)
        await write(client, SetData(root, b"1", 0), Create(f"{root}/child"))
        await stays_quiet(backend, bell)
        await client.get(root, watch=True)
        before = bell.rings
        await write(client, SetData(root, b"2", 1))
        await rings(bell, before)

    backend.run(test())


def test_the_end_of_another_session_fires_watches_on_its_ephemerals(backend: Backend) -> None:
    async def test() -> None:
        bell, root = Bell(), backend.random_root()
        watcher, owner = await connected(backend, bell), await connected(backend)
        await write(owner, Create(root, ephemeral=True))
        await watcher.sync(root)
        assert await watcher.exists(root, watch=True) is not None
        before = bell.rings
        await owner.close()
        await rings(bell, before)
        assert await watcher.exists(root) is None

    backend.run(test())


def test_a_lost_connection_wakes_and_takes_all_watches_with_it(backend: Backend) -> None:
    async def test() -> None:
        bell, root = Bell(), backend.random_root()
        watcher, writer = await connected(backend, bell), await connected(backend)
        await watcher.exists(root, watch=True)
        before = bell.rings
        await backend.stop_service()
        await until(lambda: watcher.state is State.SUSPENDED, what="suspended")
        await rings(bell, before)
        before = bell.rings
        await backend.start_service()
        await until(lambda: watcher.state is State.CONNECTED, what="connected again")
        await rings(bell, before)
        await until(lambda: writer.state is State.CONNECTED, what="connected again")
        await write(writer, Create(root))
        await stays_quiet(backend, bell)

    backend.run(test())
