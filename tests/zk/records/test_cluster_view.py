"""The cluster as its znodes tell it."""

import asyncio

import pytest

from holdfast.errors import Refused
from holdfast.model.cluster_records import EpochRecord, NodeRecord
from holdfast.model.codec import NewerSchema, encode
from holdfast.model.identifiers import NodeId
from holdfast.zk.records.cluster_view import ClusterView, observe
from holdfast.zk.records.paths import Paths
from tests.harness.znodes import OWNER, Znodes

PATHS = Paths("blue")
CONTENDER = "c-aa-0000000003"
EPOCH = encode(EpochRecord(NodeId("n1"), CONTENDER))
NODE = NodeRecord(slots=4, address="http://127.0.0.1:7070", version="0.1.0", newest_schema=1)


def cluster(epoch: bytes = EPOCH, version: int = 12) -> Znodes:
    znodes = Znodes()
    for path in PATHS.skeleton:
        znodes.put(path)
    return znodes.put(PATHS.epoch, epoch, version=version)


def look(znodes: Znodes) -> ClusterView:
    return asyncio.run(observe(znodes, PATHS))


def test_the_winner_of_the_newest_epoch_leads_while_its_contender_lives() -> None:
    view = look(cluster().put(PATHS.contender(CONTENDER), owner=OWNER))
    assert (view.leader, view.epoch) == ("n1", 12)


def test_nobody_leads_once_the_winner_is_gone() -> None:
    view = look(cluster().put(PATHS.contender("c-bb-0000000004"), owner=OWNER))
    assert (view.leader, view.epoch) == (None, 12)


def test_a_contender_that_belongs_to_no_session_does_not_lead() -> None:
    assert look(cluster().put(PATHS.contender(CONTENDER), owner=0)).leader is None


@pytest.mark.parametrize("data", [b"", b"garbage", b"[" * 100_000], ids=["nobody yet", "garbage", "deep"])
def test_an_epoch_that_names_nobody_has_no_leader_and_still_a_number(data: bytes) -> None:
    view = look(cluster(data).put(PATHS.contender(CONTENDER), owner=OWNER))
    assert (view.leader, view.epoch) == (None, 12)


def test_an_epoch_of_a_later_holdfast_is_said() -> None:
    with pytest.raises(NewerSchema):
        look(cluster(b'{"schema":2}'))


def test_nodes_are_listed_by_name_with_what_they_offer() -> None:
    znodes = cluster()
    for name in ("n2", "n10", "n1"):
        znodes.put(PATHS.node(NodeId(name)), encode(NODE), owner=OWNER)
    view = look(znodes)
    assert view.nodes == (("n1", NODE), ("n10", NODE), ("n2", NODE))
    assert view.problems == ()


def test_a_node_that_cannot_be_read_is_left_out_and_said_and_hides_no_other() -> None:
    znodes = cluster().put(PATHS.node(NodeId("n1")), b"\x00boo").put(PATHS.node(NodeId("n2")), encode(NODE))
    znodes.put(PATHS.node(NodeId("n3")), b'{"schema":9}')
    view = look(znodes)
    assert view.nodes == (("n2", NODE),)
    garbage, newer = view.problems
    assert garbage.startswith("/holdfast/blue/nodes/n1 holds 4 bytes that are not a record")
    assert newer.startswith("/holdfast/blue/nodes/n3 was written by a later Holdfast")


class OneHasLeft(Znodes):
    """A node was listed, and is gone before it is read."""

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        return [*await super().children(path, watch=watch), "n1"]


def test_a_node_that_leaves_while_we_look_is_no_problem() -> None:
    view = look(OneHasLeft(cluster().put(PATHS.node(NodeId("n2")), encode(NODE)).held))
    assert view.nodes == (("n2", NODE),)
    assert view.problems == ()


def test_a_cluster_that_was_never_founded_is_refused_in_a_sentence() -> None:
    with pytest.raises(Refused, match="there is no Holdfast cluster at /holdfast/blue yet: no node has ever joined it"):
        look(Znodes())
