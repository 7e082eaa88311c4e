"""What every `Client` does with znodes: reading, transactions, versions, names."""

import asyncio

import pytest

from holdfast.errors import Refused
from holdfast.zk.session.client import (
    BadVersion,
    Check,
    Client,
    Committed,
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Rejected,
    SetData,
    Stat,
    State,
)
from tests.contract.backends import Backend, connected

PIPELINED = 1000


async def committed(client: Client, *operations: Operation) -> Committed:
    result = await client.commit(operations)
    assert isinstance(result, Committed), result
    return result


async def rejected(client: Client, *operations: Operation) -> Rejected:
    result = await client.commit(operations)
    assert isinstance(result, Rejected), result
    return result


def test_a_created_znode_is_read_back(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        assert await committed(client, Create(root, b"hello")) == Committed((root,))
        znode = await client.get(root)
        assert znode.data == b"hello"
        assert (znode.stat.version, znode.stat.owner) == (0, 0)
        assert znode.stat.created_zxid > 0
        assert znode.stat.created_ms > 1_000_000_000_000
        assert await client.exists(root) == znode.stat

    backend.run(test())


def test_what_is_not_there_is_said_so(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        assert await client.exists(root) is None
        with pytest.raises(NoNode):
            await client.get(root)
        with pytest.raises(NoNode):
            await client.children(root)

    backend.run(test())


def test_setting_data_counts_the_version_up_and_returns_the_new_stat(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        await committed(client, Create(root, b"0"))
        for version in range(3):
            result = await committed(client, SetData(root, b"%d" % (version + 1), version))
            znode = await client.get(root)
            assert result.results == (znode.stat,)
            assert (znode.data, znode.stat.version) == (b"%d" % (version + 1), version + 1)

    backend.run(test())


def test_a_wrong_version_changes_nothing(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        await committed(client, Create(root, b"old"))
        for operation in (SetData(root, b"new", 1), Delete(root, 7), Check(root, 1)):
            result = await rejected(client, operation)
            assert (result.index, type(result.error)) == (0, BadVersion)
        assert await client.get(root) == await client.get(root)
        assert (await client.get(root)).data == b"old"

    backend.run(test())


def test_creating_needs_a_free_name_and_a_parent(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        await committed(client, Create(root))
        assert isinstance((await rejected(client, Create(root))).error, NodeExists)
        assert isinstance((await rejected(client, Create(f"{root}/missing/child"))).error, NoNode)

    backend.run(test())


def test_deleting_needs_an_empty_znode_that_exists(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        assert isinstance((await rejected(client, Delete(root, 0))).error, NoNode)
        await committed(client, Create(root), Create(f"{root}/child"))
        assert isinstance((await rejected(client, Delete(root, 0))).error, NotEmpty)
        assert await committed(client, Delete(f"{root}/child", 0), Delete(root, 0)) == Committed((None, None))
        assert await client.exists(root) is None

    backend.run(test())


def test_a_check_holds_or_not_and_changes_nothing(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        assert isinstance((await rejected(client, Check(root, 0))).error, NoNode)
        await committed(client, Create(root))
        before = await client.get(root)
        assert await committed(client, Check(root, 0)) == Committed((None,))
        assert await client.get(root) == before

    backend.run(test())


@pytest.mark.parametrize("position", [0, 1, 2, 3])
def test_a_transaction_that_fails_anywhere_leaves_no_trace_and_names_the_culprit(backend: Backend, position: int) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        await committed(client, Create(root), Create(f"{root}/a", b"old"), Create(f"{root}/b"))
        operations: list[Operation] = [Create(f"{root}/c"), SetData(f"{root}/a", b"new", 0), Delete(f"{root}/b", 0)]
        operations.insert(position, Check(f"{root}/a", 9))
        # A second culprit behind the first is not the one that is named.
        operations.append(Create(f"{root}/no/parent"))
        result = await rejected(client, *operations)
        assert (result.index, type(result.error)) == (position, BadVersion)
        assert sorted(await client.children(root)) == ["a", "b"]
        assert (await client.get(f"{root}/a")).data == b"old"
        assert (await client.get(f"{root}/a")).stat.version == 0

    backend.run(test())


def test_later_operations_of_a_transaction_see_the_earlier_ones(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        result = await committed(
            client,
            Create(root),
            Create(f"{root}/child", b"1"),
            SetData(f"{root}/child", b"2", 0),
            Check(f"{root}/child", 1),
            Delete(f"{root}/child", 1),
            Create(f"{root}/child", b"3"),
        )
        assert result.results[0] == root
        assert isinstance(result.results[2], Stat)
        assert result.results[2].version == 1
        assert result.results[3:5] == (None, None)
        znode = await client.get(f"{root}/child")
        assert (znode.data, znode.stat.version) == (b"3", 0)

    backend.run(test())


def test_sequence_names_have_ten_digits_and_count_every_child_ever_created(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        await committed(client, Create(root))
        sequential = Create(f"{root}/c-", sequential=True)
        assert (await committed(client, sequential)).results == (f"{root}/c-0000000000",)
        await committed(client, Create(f"{root}/plain"))
        await committed(client, Delete(f"{root}/plain", 0))
        assert (await committed(client, sequential)).results == (f"{root}/c-0000000002",)
        assert (await committed(client, sequential, sequential)).results == (
            f"{root}/c-0000000003",
            f"{root}/c-0000000004",
        )
        await rejected(client, sequential, Check(root, 9))
        assert (await committed(client, sequential)).results == (f"{root}/c-0000000005",)

    backend.run(test())


def test_a_znode_that_was_deleted_and_created_again_starts_at_version_0_but_is_another(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        await committed(client, Create(root))
        first = (await client.get(root)).stat
        await committed(client, SetData(root, b"", 0))
        await committed(client, Delete(root, 1))
        await committed(client, Create(root))
        second = (await client.get(root)).stat
        assert second.version == first.version == 0
        assert second.created_zxid > first.created_zxid

    backend.run(test())


def test_an_ephemeral_znode_names_its_session_and_has_no_children(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        await committed(client, Create(root, ephemeral=True))
        stat = await client.exists(root)
        assert stat is not None
        assert client.session is not None
        assert stat.owner == client.session.id
        assert isinstance((await rejected(client, Create(f"{root}/child"))).error, Refused)

    backend.run(test())


def test_children_are_names_of_one_level(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        await committed(client, Create(root), Create(f"{root}/b"), Create(f"{root}/a"), Create(f"{root}/a/deep"))
        assert sorted(await client.children(root)) == ["a", "b"]
        assert await client.children(f"{root}/b") == []
        assert root[1:] in await client.children("/")

    backend.run(test())


def test_many_pipelined_reads_each_get_their_own_answer(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        await committed(client, Create(root))
        await committed(client, *(Create(f"{root}/{n}", b"%d" % n) for n in range(10)))
        znodes = await asyncio.gather(*(client.get(f"{root}/{n % 10}") for n in range(PIPELINED)))
        assert [znode.data for znode in znodes] == [b"%d" % (n % 10) for n in range(PIPELINED)]

    backend.run(test())


def test_pipelined_calls_take_effect_in_the_order_of_calling(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        calls = [client.commit([Create(root, b"1")]), client.get(root), client.commit([SetData(root, b"2", 0)])]
        created, first, changed, second = await asyncio.gather(*calls, client.get(root))
        assert isinstance(created, Committed)
        assert isinstance(changed, Committed)
        assert (first.data, second.data) == (b"1", b"2")  # type: ignore[union-attr]

    backend.run(test())


def test_a_transaction_larger_than_zookeeper_takes_is_refused_without_harm(backend: Backend) -> None:
    async def test() -> None:
        client, root = await connected(backend), backend.random_root()
        with pytest.raises(Refused):
            await client.commit([Create(root, b"x" * 600_000), Create(f"{root}/child", b"x" * 600_000)])
        assert client.state is State.CONNECTED
        assert await client.exists(root) is None

    backend.run(test())


def test_sync_shows_what_others_have_committed(backend: Backend) -> None:
    async def test() -> None:
        root = backend.random_root()
        writer = await connected(backend)
        readers = [await connected(backend) for _ in range(5)]
        await committed(writer, Create(root, b"0"))
        for version in range(10):
            await committed(writer, SetData(root, b"", version))
            for reader in readers:
                await reader.sync(root)
                assert (await reader.get(root)).stat.version == version + 1

    backend.run(test())
