"""Placement of attempts on nodes. A running job always keeps its slots."""

from collections.abc import Collection, Mapping

from holdfast.model.identifiers import NodeId
from holdfast.model.plural import format_count
from holdfast.plan.snapshot import NodeView

UNHEALTHY_NODES_NAMED = 3


class FreeSlots:
    """Free slots per node while a plan is being made."""

    def __init__(self, nodes: Mapping[NodeId, NodeView]) -> None:
        self._free = {id: node.slots for id, node in nodes.items() if node.has_readable_record}
        self._problems = {id: node.health for id, node in nodes.items() if node.health}
        self._largest = max(self._free.values(), default=0)
        self._unreadable = sorted(nodes.keys() - self._free.keys())

    def reserve(self, node: NodeId, slots: int) -> None:
        """Reserve slots on a node. Free slots become negative if a node returned with fewer slots than its jobs use."""
        if node in self._free:
            self._free[node] -= slots

    def choose_node(
        self, slots: int, *, allowed: Collection[NodeId] | None = None, avoided: Collection[NodeId] = ()
    ) -> NodeId | None:
        """Return a healthy node with enough free slots, or None.

        Nodes in `avoided` come last. Then the node with the most free slots comes first, and the first by name among equals.
        """
        candidates = [id for id in self._with_free_slots(slots, allowed) if id not in self._problems]
        return min(candidates, key=lambda id: (id in avoided, -self._free[id], id), default=None)

    def _with_free_slots(self, slots: int, allowed: Collection[NodeId] | None) -> list[NodeId]:
        return [id for id, free in self._free.items() if free >= slots and (allowed is None or id in allowed)]

    def describe_wait(self, slots: int, *, allowed: Collection[NodeId] | None = None) -> str:
        """Explain to a user why `choose_node` has returned None: each node with enough free slots is unhealthy."""
        # The number of free slots is left out: it changes with every other job, and each change would become an event.
        if unhealthy := sorted(self._with_free_slots(slots, allowed)):
            named = [f"{id}: {self._problems[id]}" for id in unhealthy[:UNHEALTHY_NODES_NAMED]]
            more = f"; and {len(unhealthy) - len(named)} more" if len(unhealthy) > len(named) else ""
            return f"waiting for a healthy node: {'; '.join(named)}{more}"
        return f"waiting for free slots: {self._describe_shortage(slots)}"

    def _describe_shortage(self, slots: int) -> str:
        if not self._free:
            unreadable = ", ".join(self._unreadable)
            return f"the leader cannot read the record of {unreadable}" if unreadable else "no node is registered"
        if slots > self._largest:
            return f"the job needs {format_count(slots, 'slot')}, but the largest node has {self._largest}"
        return f"the job needs {format_count(slots, 'slot')}, and no node has that many free"
