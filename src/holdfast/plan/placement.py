"""Placement of attempts on nodes. A running job always keeps its slots."""

from collections.abc import Collection, Mapping

from holdfast.model.identifiers import NodeId
from holdfast.model.plural import format_count
from holdfast.plan.snapshot import NodeView


class FreeSlots:
    """Free slots per node while a plan is being made."""

    def __init__(self, nodes: Mapping[NodeId, NodeView]) -> None:
        self._free = {id: node.slots for id, node in nodes.items()}
        self._largest = max((node.slots for node in nodes.values()), default=0)

    def reserve(self, node: NodeId, slots: int) -> None:
        """Reserve slots on a node. Free slots become negative if a node returned with fewer slots than its jobs use."""
        if node in self._free:
            self._free[node] -= slots

    def choose_node(self, slots: int, *, allowed: Collection[NodeId] | None = None) -> NodeId | None:
        """Return the node with the most free slots, the first by name among equals, or None if no node has enough."""
        candidates = [(-free, id) for id, free in self._free.items() if free >= slots and (allowed is None or id in allowed)]
        return min(candidates)[1] if candidates else None

    def describe_shortage(self, slots: int) -> str:
        """Explain to a user why no node has enough free slots."""
        if not self._free:
            return "no node is registered"
        if slots > self._largest:
            return f"the job needs {format_count(slots, 'slot')}, but the largest node has {self._largest}"
        # The number of free slots is left out: it changes with every other job, and each change would become an event.
        return f"the job needs {format_count(slots, 'slot')}, and no node has that many free"
