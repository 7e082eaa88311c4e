"""Where the znodes of a cluster are, and who stands where in the queue for leadership."""

import asyncio

import pytest

from holdfast.errors import Conflict
from holdfast.model.cluster_records import EpochRecord
from holdfast.model.codec import NewerSchema, encode
from holdfast.model.identifiers import Epoch, NodeId, is_name
from holdfast.zk.leadership.election import Election, read_epoch
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Stat, Znode
from tests.harness.znodes import Znodes

PATHS = Paths("blue")
MINE = "c-aa-0000000005"


def test_a_cluster_lives_under_its_own_name() -> None:
    assert PATHS.root == "/holdfast/blue"
    assert PATHS.node(NodeId("n1")) == "/holdfast/blue/nodes/n1"
    assert PATHS.contender(MINE) == "/holdfast/blue/election/c-aa-0000000005"


def test_a_cluster_under_a_prefix_keeps_everything_there() -> None:
    paths = Paths("blue", prefix="/data/team")
    assert paths.root == "/data/team/holdfast/blue"
    assert all(path.startswith("/data") for path in paths.skeleton)


@pytest.mark.parametrize("prefix", ["", "/a", "/a/b/c"])
def test_the_skeleton_names_every_parent_before_its_children(prefix: str) -> None:
    made: set[str] = {""}
    for path in Paths("blue", prefix=prefix).skeleton:
        assert path.rpartition("/")[0] in made, f"{path} would have no parent"
        assert path not in made
        made.add(path)


def test_the_skeleton_ends_with_the_epoch_so_that_whoever_finds_it_finds_all_the_rest() -> None:
    *before, last = PATHS.skeleton
    assert last == PATHS.epoch
    assert {PATHS.root, PATHS.election, PATHS.nodes, PATHS.beat} <= set(before)


@pytest.mark.parametrize("name", ["n1", "a", "A.b_c-9", "x" * 64, "10.0.0.5"])
def test_names_that_are_safe_everywhere_are_admitted(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "/", "-a", "a-", "a b", "a\n", "\n", "é", "٣", "x" * 65, "a\x00b", "_a"]
)
def test_names_that_would_be_trouble_somewhere_are_not(name: str) -> None:
    assert not is_name(name)


def queue(*names: str, dead: tuple[str, ...] = ()) -> Znodes:
    znodes = Znodes().put(PATHS.election)
    for name in names:
        znodes.put(PATHS.contender(name), owner=0 if name in dead else 9)
    return znodes


def is_first(znodes: Znodes, mine: str = MINE) -> tuple[bool, tuple[str, ...]]:
    election = Election(znodes, PATHS, NodeId("n1"), "aa")
    return asyncio.run(election.first(mine)), election.obstacles


def test_the_lowest_number_is_first_whatever_the_names_before_it() -> None:
    assert is_first(queue(MINE, "c-00-0000000006", "c-zz-0000000007")) == (True, ())
    assert is_first(queue(MINE, "c-zz-0000000004")) == (False, ())


def test_numbers_are_compared_as_numbers() -> None:
    assert is_first(queue("c-aa-0000000010", "c-bb-0000000009"), mine="c-aa-0000000010") == (False, ())
    assert is_first(queue("c-aa-0000000009", "c-bb-0000000010"), mine="c-aa-0000000009") == (True, ())


@pytest.mark.parametrize("name", ["what is this", "c-", "c-bb-1", "x-bb-0000000001", "c-bb-0000000001 ", "0000000001"])
def test_what_no_contender_made_stands_behind_everyone(name: str) -> None:
    assert is_first(queue(MINE, name)) == (True, ())


def test_a_contender_without_a_session_is_passed_over_and_said() -> None:
    first, obstacles = is_first(queue("c-bb-0000000001", MINE, dead=("c-bb-0000000001",)))
    assert first
    assert obstacles == (f"{PATHS.election}/c-bb-0000000001 belongs to no session and is passed over: delete it",)


def test_a_contender_without_a_session_does_not_hide_a_living_one_behind_it() -> None:
    first, _ = is_first(queue("c-bb-0000000001", "c-cc-0000000002", MINE, dead=("c-bb-0000000001",)))
    assert not first


def test_whoever_lost_its_place_is_not_first() -> None:
    with pytest.raises(Conflict, match="this node's place in the election is gone"):
        is_first(queue("c-bb-0000000009"))


def test_standing_twice_takes_one_place() -> None:
    znodes = queue("c-bb-0000000000")

    async def stand_twice() -> tuple[str, str]:
        election = Election(znodes, PATHS, NodeId("n1"), "aa")
        return await election.stand(), await election.stand()

    first, second = asyncio.run(stand_twice())
    assert first == second == "c-aa-0000000001"
    assert len(asyncio.run(znodes.children(PATHS.election))) == 2


def test_a_place_of_ones_own_is_looked_for_after_a_sync_before_another_is_made() -> None:
    znodes = queue()
    asyncio.run(Election(znodes, PATHS, NodeId("n1"), "aa").stand())
    look, sync = f"children {PATHS.election}", f"sync {PATHS.election}"
    assert znodes.calls[:3] == [look, sync, look]


def test_withdrawing_leaves_the_places_of_others() -> None:
    znodes = queue(MINE, "c-ab-0000000006", "c-aab-0000000007")
    asyncio.run(Election(znodes, PATHS, NodeId("n1"), "aa").withdraw())
    assert sorted(asyncio.run(znodes.children(PATHS.election))) == ["c-aab-0000000007", "c-ab-0000000006"]


def epoch(data: bytes, version: int = 3) -> Znode:
    return Znode(data, Stat(version, created_zxid=1, created_ms=1, owner=0))


def test_the_next_epoch_is_the_version_after_the_one_that_was_read() -> None:
    znodes = queue(MINE).put(PATHS.epoch, b"", version=3)
    reign = asyncio.run(Election(znodes, PATHS, NodeId("n1"), "aa").ascend(MINE, znodes.held[PATHS.epoch]))
    assert reign is not None
    assert (reign.epoch, reign.contender) == (Epoch(4), MINE)
    assert read_epoch(PATHS, znodes.held[PATHS.epoch]) == EpochRecord(NodeId("n1"), MINE)


def test_an_epoch_that_somebody_else_took_meanwhile_is_not_ours() -> None:
    znodes = queue(MINE).put(PATHS.epoch, b"", version=4)
    assert asyncio.run(Election(znodes, PATHS, NodeId("n1"), "aa").ascend(MINE, epoch(b"", version=3))) is None


def test_a_contender_that_is_gone_takes_no_epoch() -> None:
    znodes = queue("c-bb-0000000009").put(PATHS.epoch, b"", version=3)
    assert asyncio.run(Election(znodes, PATHS, NodeId("n1"), "aa").ascend(MINE, znodes.held[PATHS.epoch])) is None
    assert znodes.held[PATHS.epoch].stat.version == 3


def test_an_epoch_won_with_a_lost_reply_is_found_to_be_ours_and_not_taken_again() -> None:
    won = epoch(encode(EpochRecord(NodeId("n1"), MINE)), version=4)
    reign = asyncio.run(Election(queue(MINE), PATHS, NodeId("n1"), "aa").ascend(MINE, won))
    assert reign is not None
    assert reign.epoch == 4


@pytest.mark.parametrize("data", [b"", b"garbage", b"{}", b'{"schema":1}'])
def test_an_epoch_that_names_nobody_has_no_leader(data: bytes) -> None:
    assert read_epoch(PATHS, epoch(data)) is None


def test_an_epoch_of_a_later_holdfast_is_not_taken_for_nobodys() -> None:
    with pytest.raises(NewerSchema):
        read_epoch(PATHS, epoch(b'{"schema":2}'))
