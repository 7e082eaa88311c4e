"""Network partitions: which packets a fault drops, and whom it separates. Pure."""

from collections.abc import Sequence

ZOOKEEPER = "zookeeper"
"""Name of the host of all ZooKeeper servers."""
CUTS = ("cut", "cut-in", "cut-out", "cut-for-good")
"""Actions. `cut-in`: packets leave the node, but none arrives there. `cut-out`: packets arrive, but none leaves."""
PERMANENT_ACTIONS = frozenset({"cut-for-good", "lose"})
"""Actions that last until the jobs of the node run elsewhere. `lose` also kills all processes of the node."""
NODE_TARGETS = ("node-zk", "node-peers", "node-all")
"""Links of one node: to ZooKeeper, to the other nodes, or all."""
CLUSTER_TARGETS = ("others-zk", "all-zk", "all-peers")
"""Links between all nodes but one and ZooKeeper, between all nodes and ZooKeeper, and between all nodes."""
PARTITION_TARGETS = frozenset({*NODE_TARGETS, *CLUSTER_TARGETS})

Direction = tuple[str, str]
"""Sender and receiver of packets."""


def blocked_directions(action: str, target: str, *, node: str, nodes: Sequence[str]) -> frozenset[Direction]:
    """Return the directions in which a fault drops all packets. `node` is the victim of a fault that hits one node."""
    outgoing = {
        (sender, receiver)
        for sender in _select_nodes(target, node, nodes)
        for receiver in (*nodes, ZOOKEEPER)
        if sender != receiver and _is_cut(target, receiver)
    }
    incoming = {(receiver, sender) for sender, receiver in outgoing}
    if action == "cut-in":
        return frozenset(incoming)
    return frozenset(outgoing) if action == "cut-out" else frozenset(outgoing | incoming)


def _select_nodes(target: str, node: str, nodes: Sequence[str]) -> Sequence[str]:
    if target in NODE_TARGETS:
        return [node]
    return [each for each in nodes if each != node] if target.startswith("others") else nodes


def _is_cut(target: str, receiver: str) -> bool:
    return target == "node-all" or target.endswith("-zk") == (receiver == ZOOKEEPER)
