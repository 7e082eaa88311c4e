"""Network partitions of the chaos suite: the packets that each fault drops."""

from tests.chaos.partitions import ZOOKEEPER, blocked_directions

NODES = ("n1", "n2", "n3")


def blocked_pairs(kind: str) -> set[tuple[str, str]]:
    action, target = kind.split(":")
    return set(blocked_directions(action, target, node="n1", nodes=NODES))


def test_cut_of_one_link_drops_its_packets_in_both_directions_and_no_others() -> None:
    assert blocked_pairs("cut:node-zk") == blocked_pairs("cut-for-good:node-zk") == {("n1", ZOOKEEPER), (ZOOKEEPER, "n1")}
    assert blocked_pairs("cut:node-peers") == {("n1", "n2"), ("n1", "n3"), ("n2", "n1"), ("n3", "n1")}


def test_node_that_is_cut_off_from_everything_loses_zookeeper_and_its_peers() -> None:
    assert blocked_pairs("cut:node-all") == blocked_pairs("cut:node-zk") | blocked_pairs("cut:node-peers")


def test_one_way_cuts_drop_what_arrives_or_what_leaves_and_together_everything() -> None:
    for target in ("node-zk", "node-peers", "node-all", "all-zk"):
        arriving, leaving = blocked_pairs(f"cut-in:{target}"), blocked_pairs(f"cut-out:{target}")
        assert arriving.isdisjoint(leaving)
        assert arriving | leaving == blocked_pairs(f"cut:{target}")
    assert blocked_pairs("cut-in:node-all") == {("n2", "n1"), ("n3", "n1"), (ZOOKEEPER, "n1")}
    assert blocked_pairs("cut-out:all-zk") == {(node, ZOOKEEPER) for node in NODES}


def test_cut_between_all_nodes_but_one_and_zookeeper_leaves_that_node_and_the_peers_alone() -> None:
    others = {(node, ZOOKEEPER) for node in ("n2", "n3")}
    assert blocked_pairs("cut:others-zk") == others | {(ZOOKEEPER, node) for node, _ in others}


def test_cut_between_all_nodes_leaves_zookeeper_reachable() -> None:
    assert blocked_pairs("cut:all-peers") == {
        (sender, receiver) for sender in NODES for receiver in NODES if sender != receiver
    }
