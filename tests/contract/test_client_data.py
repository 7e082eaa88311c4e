"""Contract of `Client`: reads, transactions, versions and sequence names."""

import asyncio

import pytest

from holdfast.errors import Refused
from holdfast.zk.session.client import (
    BadVersion,
    Check,
    Client,
    Committed,
    ConnectionState,
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Rejected,
    SetData,
    Stat,
)
from tests.contract.backends import Backend, open_session

PIPELINED = 1000


async def commit(client: Client, *operations: Operation) -> Committed:
    result = await client.commit(operations)
    assert isinstance(result, Committed), result
    return result


async def expect_rejection(client: Client, *operations: Operation) -> Rejected:
    result = await client.commit(operations)
    assert isinstance(result, Rejected), result
    return result


def test_created_znode_is_read_back(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        assert await commit(client, Create(root, b"hello")) == Committed((root,))
        znode = await client.get(root)
        assert znode.data == b"hello"
        assert (znode.stat.version, znode.stat.ephemeral_owner) == (0, 0)
        assert znode.stat.created_zxid > 0
        assert znode.stat.created_ms > 1_000_000_000_000
        assert await client.exists(root) == znode.stat

    backend.run(test())


def test_reading_a_missing_znode_raises_no_node(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        assert await client.exists(root) is None
        with pytest.raises(NoNode):
            await client.get(root)
        with pytest.raises(NoNode):
            await client.children(root)

    backend.run(test())


def test_set_data_increments_the_version_and_returns_the_new_stat(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        await commit(client, Create(root, b"0"))
        for version in range(3):
            result = await commit(client, SetData(root, b"%d" % (version + 1), version))
            znode = await client.get(root)
            assert result.results == (znode.stat,)
            assert (znode.data, znode.stat.version) == (b"%d" % (version + 1), version + 1)

    backend.run(test())


def test_operation_with_a_wrong_version_is_rejected_without_effect(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        await commit(client, Create(root, b"old"))
        for operation in (SetData(root, b"new", 1), Delete(root, 7), Check(root, 1)):
            result = await expect_rejection(client, operation)
            assert (result.index, type(result.error)) == (0, BadVersion)
        assert await client.get(root) == await client.get(root)
        assert (await client.get(root)).data == b"old"

    backend.run(test())


def test_create_needs_an_unused_path_and_an_existing_parent(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        await commit(client, Create(root))
        assert isinstance((await expect_rejection(client, Create(root))).error, NodeExists)
        assert isinstance((await expect_rejection(client, Create(f"{root}/missing/child"))).error, NoNode)

    backend.run(test())


def test_delete_needs_an_existing_znode_without_children(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        assert isinstance((await expect_rejection(client, Delete(root, 0))).error, NoNode)
        await commit(client, Create(root), Create(f"{root}/child"))
        assert isinstance((await expect_rejection(client, Delete(root, 0))).error, NotEmpty)
        assert await commit(client, Delete(f"{root}/child", 0), Delete(root, 0)) == Committed((None, None))
        assert await client.exists(root) is None

    backend.run(test())


def test_check_compares_the_version_without_effect(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        assert isinstance((await expect_rejection(client, Check(root, 0))).error, NoNode)
        await commit(client, Create(root))
        before = await client.get(root)
        assert await commit(client, Check(root, 0)) == Committed((None,))
        assert await client.get(root) == before

    backend.run(test())


@pytest.mark.parametrize("position", [0, 1, 2, 3])
def test_failed_transaction_has_no_effect_and_reports_the_failing_operation(backend: Backend, position: int) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        await commit(client, Create(root), Create(f"{root}/a", b"old"), Create(f"{root}/b"))
        operations: list[Operation] = [Create(f"{root}/c"), SetData(f"{root}/a", b"new", 0), Delete(f"{root}/b", 0)]
        operations.insert(position, Check(f"{root}/a", 9))
        # A second failing operation must not be the reported one.
        operations.append(Create(f"{root}/no/parent"))
        result = await expect_rejection(client, *operations)
        assert (result.index, type(result.error)) == (position, BadVersion)
        assert sorted(await client.children(root)) == ["a", "b"]
        assert (await client.get(f"{root}/a")).data == b"old"
        assert (await client.get(f"{root}/a")).stat.version == 0

    backend.run(test())


def test_later_operations_of_a_transaction_use_the_results_of_earlier_ones(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        result = await commit(
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


def test_sequence_numbers_have_ten_digits_and_count_every_created_child(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        await commit(client, Create(root))
        sequential = Create(f"{root}/c-", sequential=True)
        assert (await commit(client, sequential)).results == (f"{root}/c-0000000000",)
        await commit(client, Create(f"{root}/plain"))
        await commit(client, Delete(f"{root}/plain", 0))
        assert (await commit(client, sequential)).results == (f"{root}/c-0000000002",)
        assert (await commit(client, sequential, sequential)).results == (
            f"{root}/c-0000000003",
            f"{root}/c-0000000004",
        )
        await expect_rejection(client, sequential, Check(root, 9))
        assert (await commit(client, sequential)).results == (f"{root}/c-0000000005",)

    backend.run(test())


def test_recreated_znode_has_version_0_and_a_new_creation_zxid(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        await commit(client, Create(root))
        first = (await client.get(root)).stat
        await commit(client, SetData(root, b"", 0))
        await commit(client, Delete(root, 1))
        await commit(client, Create(root))
        second = (await client.get(root)).stat
        assert second.version == first.version == 0
        assert second.created_zxid > first.created_zxid

    backend.run(test())


def test_ephemeral_znode_has_its_session_as_owner_and_cannot_have_children(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        await commit(client, Create(root, ephemeral=True))
        stat = await client.exists(root)
        assert stat is not None
        assert client.session is not None
        assert stat.ephemeral_owner == client.session.id
        assert isinstance((await expect_rejection(client, Create(f"{root}/child"))).error, Refused)

    backend.run(test())


def test_children_are_the_names_of_direct_children(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        await commit(client, Create(root), Create(f"{root}/b"), Create(f"{root}/a"), Create(f"{root}/a/deep"))
        assert sorted(await client.children(root)) == ["a", "b"]
        assert await client.children(f"{root}/b") == []
        assert root[1:] in await client.children("/")

    backend.run(test())


def test_pipelined_reads_each_get_their_own_answer(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        await commit(client, Create(root))
        await commit(client, *(Create(f"{root}/{n}", b"%d" % n) for n in range(10)))
        znodes = await asyncio.gather(*(client.get(f"{root}/{n % 10}") for n in range(PIPELINED)))
        assert [znode.data for znode in znodes] == [b"%d" % (n % 10) for n in range(PIPELINED)]

    backend.run(test())


def test_pipelined_calls_take_effect_in_call_order(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        calls = [client.commit([Create(root, b"1")]), client.get(root), client.commit([SetData(root, b"2", 0)])]
        created, first, changed, second = await asyncio.gather(*calls, client.get(root))
        assert isinstance(created, Committed)
        assert isinstance(changed, Committed)
        assert (first.data, second.data) == (b"1", b"2")  # type: ignore[union-attr]  # both are reads

    backend.run(test())


def test_oversized_transaction_is_refused_and_the_connection_stays_open(backend: Backend) -> None:
    async def test() -> None:
        client, root = await open_session(backend), backend.random_root()
        with pytest.raises(Refused):
            await client.commit([Create(root, b"x" * 600_000), Create(f"{root}/child", b"x" * 600_000)])
        assert client.state is ConnectionState.CONNECTED
        assert await client.exists(root) is None

    backend.run(test())


def test_read_after_sync_includes_writes_of_other_clients(backend: Backend) -> None:
    async def test() -> None:
        root = backend.random_root()
        writer = await open_session(backend)
        readers = [await open_session(backend) for _ in range(5)]
        await commit(writer, Create(root, b"0"))
        for version in range(10):
            await commit(writer, SetData(root, b"", version))
            for reader in readers:
                await reader.sync(root)
                assert (await reader.get(root)).stat.version == version + 1

    backend.run(test())
