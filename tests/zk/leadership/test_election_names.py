"""Paths of a cluster, and the order of contenders in the election."""

import asyncio

import pytest

from holdfast.errors import Conflict
from holdfast.model.codec import encode
from holdfast.model.epoch_record import EpochRecord
from holdfast.model.identifiers import Epoch, NodeId, is_valid_name
from holdfast.zk.leadership.election import Election
from holdfast.zk.records.epoch import decode_epoch
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Stat, Znode
from tests.harness.znodes import InMemoryZnodes

PATHS = Paths("blue")
MINE = "c-aa-0000000005"


def test_paths_are_under_the_cluster_name() -> None:
    assert PATHS.root == "/holdfast/blue"
    assert PATHS.node(NodeId("n1")) == "/holdfast/blue/nodes/n1"
    assert PATHS.contender(MINE) == "/holdfast/blue/election/c-aa-0000000005"


def test_all_paths_are_under_the_prefix() -> None:
    paths = Paths("blue", prefix="/data/team")
    assert paths.root == "/data/team/holdfast/blue"
    assert all(path.startswith("/data") for path in paths.required_znodes)


@pytest.mark.parametrize("prefix", ["", "/a", "/a/b/c"])
def test_required_znodes_list_parents_before_children(prefix: str) -> None:
    created: set[str] = {""}
    for path in Paths("blue", prefix=prefix).required_znodes:
        assert path.rpartition("/")[0] in created, f"the parent of {path} is missing"
        assert path not in created
        created.add(path)


def test_required_znodes_end_with_the_epoch() -> None:
    *before, last = PATHS.required_znodes
    assert last == PATHS.epoch
    assert {PATHS.root, PATHS.election, PATHS.nodes, PATHS.beat} <= set(before)


@pytest.mark.parametrize("name", ["n1", "a", "A.b_c-9", "x" * 64, "10.0.0.5"])
def test_safe_names_are_valid(name: str) -> None:
    assert is_valid_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "/", "-a", "a-", "a b", "a\n", "\n", "é", "٣", "x" * 65, "a\x00b", "_a"]
)
def test_unsafe_names_are_invalid(name: str) -> None:
    assert not is_valid_name(name)


def queue(*names: str, persistent: tuple[str, ...] = ()) -> InMemoryZnodes:
    """Return an election queue. The `persistent` contenders belong to no session."""
    znodes = InMemoryZnodes().put(PATHS.election)
    for name in names:
        znodes.put(PATHS.contender(name), owner=0 if name in persistent else 9)
    return znodes


def is_first(znodes: InMemoryZnodes, mine: str = MINE) -> tuple[bool, tuple[str, ...]]:
    election = Election(znodes, PATHS, NodeId("n1"), "aa")
    return asyncio.run(election.is_first(mine)), election.queue_problems


def test_contender_with_the_lowest_sequence_number_is_first() -> None:
    assert is_first(queue(MINE, "c-00-0000000006", "c-zz-0000000007")) == (True, ())
    assert is_first(queue(MINE, "c-zz-0000000004")) == (False, ())


def test_sequence_numbers_are_compared_as_numbers() -> None:
    assert is_first(queue("c-aa-0000000010", "c-bb-0000000009"), mine="c-aa-0000000010") == (False, ())
    assert is_first(queue("c-aa-0000000009", "c-bb-0000000010"), mine="c-aa-0000000009") == (True, ())


@pytest.mark.parametrize("name", ["what is this", "c-", "c-bb-1", "x-bb-0000000001", "c-bb-0000000001 ", "0000000001"])
def test_znode_not_created_by_a_contender_is_last_in_the_queue(name: str) -> None:
    assert is_first(queue(MINE, name)) == (True, ())


def test_contender_without_a_session_is_ignored_and_reported() -> None:
    first, problems = is_first(queue("c-bb-0000000001", MINE, persistent=("c-bb-0000000001",)))
    assert first
    assert problems == (f"{PATHS.election}/c-bb-0000000001 belongs to no session and is ignored: delete it",)


def test_live_contender_behind_one_without_a_session_is_found() -> None:
    first, _ = is_first(queue("c-bb-0000000001", "c-cc-0000000002", MINE, persistent=("c-bb-0000000001",)))
    assert not first


def test_deleted_contender_raises_conflict() -> None:
    with pytest.raises(Conflict, match="this node's znode in the election queue was deleted"):
        is_first(queue("c-bb-0000000009"))


def test_joining_twice_creates_one_contender() -> None:
    znodes = queue("c-bb-0000000000")

    async def join_twice() -> tuple[str, str]:
        election = Election(znodes, PATHS, NodeId("n1"), "aa")
        return await election.join(), await election.join()

    first, second = asyncio.run(join_twice())
    assert first == second == "c-aa-0000000001"
    assert len(asyncio.run(znodes.children(PATHS.election))) == 2


def test_join_syncs_and_searches_its_contender_before_creating_one() -> None:
    znodes = queue()
    asyncio.run(Election(znodes, PATHS, NodeId("n1"), "aa").join())
    read, sync = f"children {PATHS.election}", f"sync {PATHS.election}"
    assert znodes.calls[:3] == [read, sync, read]


def test_leaving_keeps_other_contenders() -> None:
    znodes = queue(MINE, "c-ab-0000000006", "c-aab-0000000007")
    asyncio.run(Election(znodes, PATHS, NodeId("n1"), "aa").leave(znodes))
    assert sorted(asyncio.run(znodes.children(PATHS.election))) == ["c-aab-0000000007", "c-ab-0000000006"]


def epoch(data: bytes, version: int = 3) -> Znode:
    return Znode(data, Stat(version, created_zxid=1, created_ms=1, ephemeral_owner=0))


def test_next_epoch_is_the_version_after_the_read_one() -> None:
    znodes = queue(MINE).put(PATHS.epoch, b"", version=3)
    leadership = asyncio.run(Election(znodes, PATHS, NodeId("n1"), "aa").take_epoch(MINE, znodes.znodes[PATHS.epoch]))
    assert leadership is not None
    assert (leadership.epoch, leadership.contender) == (Epoch(4), MINE)
    assert decode_epoch(PATHS, znodes.znodes[PATHS.epoch]) == EpochRecord(NodeId("n1"), MINE)


def test_epoch_taken_by_another_contender_gives_no_leadership() -> None:
    znodes = queue(MINE).put(PATHS.epoch, b"", version=4)
    assert asyncio.run(Election(znodes, PATHS, NodeId("n1"), "aa").take_epoch(MINE, epoch(b"", version=3))) is None


def test_deleted_contender_cannot_take_the_epoch() -> None:
    znodes = queue("c-bb-0000000009").put(PATHS.epoch, b"", version=3)
    assert asyncio.run(Election(znodes, PATHS, NodeId("n1"), "aa").take_epoch(MINE, znodes.znodes[PATHS.epoch])) is None
    assert znodes.znodes[PATHS.epoch].stat.version == 3


def test_epoch_taken_with_a_lost_reply_is_recognized_and_not_taken_again() -> None:
    won = epoch(encode(EpochRecord(NodeId("n1"), MINE)), version=4)
    leadership = asyncio.run(Election(queue(MINE), PATHS, NodeId("n1"), "aa").take_epoch(MINE, won))
    assert leadership is not None
    assert leadership.epoch == 4


@pytest.mark.parametrize("data", [b"", b"garbage", b"{}", b'{"schema":1}', b'{"schema":2}'])
def test_unreadable_epoch_record_has_no_leader_and_the_next_epoch_can_be_taken(data: bytes) -> None:
    znodes = queue(MINE).put(PATHS.epoch, data, version=3)
    assert decode_epoch(PATHS, znodes.znodes[PATHS.epoch]) is None
    leadership = asyncio.run(Election(znodes, PATHS, NodeId("n1"), "aa").take_epoch(MINE, znodes.znodes[PATHS.epoch]))
    assert leadership is not None
    assert leadership.epoch == 4
