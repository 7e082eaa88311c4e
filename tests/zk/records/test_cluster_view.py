"""Leader, epoch and nodes of a cluster, read from its znodes."""

import asyncio

import pytest

from holdfast.errors import Refused
from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import encode
from holdfast.model.epoch_record import EpochRecord
from holdfast.model.identifiers import NodeId
from holdfast.zk.records.cluster_view import ClusterView, read_cluster
from holdfast.zk.records.paths import Paths
from tests.harness.znodes import OWNER, InMemoryZnodes

PATHS = Paths("blue")
CONTENDER = "c-aa-0000000003"
EPOCH = encode(EpochRecord(NodeId("n1"), CONTENDER))
NODE = NodeRecord(slots=4, address="http://127.0.0.1:7070", version="0.1.0", newest_schema=1)


def cluster(epoch: bytes = EPOCH, version: int = 12) -> InMemoryZnodes:
    znodes = InMemoryZnodes()
    for path in PATHS.required_znodes:
        znodes.put(path)
    return znodes.put(PATHS.epoch, epoch, version=version)


def read_view(znodes: InMemoryZnodes) -> ClusterView:
    return asyncio.run(read_cluster(znodes, PATHS))


def test_owner_of_the_epoch_leads_while_its_contender_exists() -> None:
    view = read_view(cluster().put(PATHS.contender(CONTENDER), owner=OWNER))
    assert (view.leader, view.epoch) == ("n1", 12)


def test_cluster_has_no_leader_after_its_contender_is_gone() -> None:
    view = read_view(cluster().put(PATHS.contender("c-bb-0000000004"), owner=OWNER))
    assert (view.leader, view.epoch) == (None, 12)


def test_contender_without_a_session_does_not_lead() -> None:
    assert read_view(cluster().put(PATHS.contender(CONTENDER), owner=0)).leader is None


@pytest.mark.parametrize("data", [b"", b"garbage", b"[" * 100_000], ids=["empty", "malformed", "deeply nested"])
def test_cluster_with_a_malformed_epoch_record_has_an_epoch_and_no_leader(data: bytes) -> None:
    view = read_view(cluster(data).put(PATHS.contender(CONTENDER), owner=OWNER))
    assert (view.leader, view.epoch) == (None, 12)


def test_epoch_record_of_a_newer_schema_is_reported_and_the_nodes_are_listed() -> None:
    view = read_view(cluster(b'{"schema":3}').put(PATHS.node(NodeId("n1")), encode(NODE), owner=OWNER))
    assert (view.leader, view.epoch, view.nodes) == (None, 12, (("n1", NODE),))
    (problem,) = view.problems
    assert problem.startswith("/holdfast/blue/epoch was written by a later Holdfast (schema 3)")


def test_nodes_are_listed_by_name_with_their_records() -> None:
    znodes = cluster()
    for name in ("n2", "n10", "n1"):
        znodes.put(PATHS.node(NodeId(name)), encode(NODE), owner=OWNER)
    view = read_view(znodes)
    assert view.nodes == (("n1", NODE), ("n10", NODE), ("n2", NODE))
    assert view.problems == ()


def test_unreadable_node_is_reported_and_other_nodes_are_listed() -> None:
    znodes = cluster().put(PATHS.node(NodeId("n1")), b"\x00boo").put(PATHS.node(NodeId("n2")), encode(NODE))
    znodes.put(PATHS.node(NodeId("n3")), b'{"schema":9}')
    view = read_view(znodes)
    assert view.nodes == (("n2", NODE),)
    malformed, newer = view.problems
    assert malformed.startswith("/holdfast/blue/nodes/n1 holds 4 bytes that are not a record")
    assert newer.startswith("/holdfast/blue/nodes/n3 was written by a later Holdfast")


class DepartedNode(InMemoryZnodes):
    """Lists node n1, whose znode does not exist."""

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        return [*await super().children(path, watch=watch), "n1"]


def test_node_that_leaves_during_the_read_is_skipped() -> None:
    view = read_view(DepartedNode(cluster().put(PATHS.node(NodeId("n2")), encode(NODE)).znodes))
    assert view.nodes == (("n2", NODE),)
    assert view.problems == ()


def test_missing_cluster_is_refused() -> None:
    with pytest.raises(Refused, match="there is no Holdfast cluster at /holdfast/blue yet: no node has ever joined it"):
        read_view(InMemoryZnodes())
