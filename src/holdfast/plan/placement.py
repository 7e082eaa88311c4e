"""Where there is room. A running job keeps its slots; nothing here ever takes them away."""

from collections.abc import Collection, Mapping

from holdfast.model.identifiers import NodeId
from holdfast.plan.snapshot import NodeView


class Room:
    """The free slots, while a plan is being made."""

    def __init__(self, nodes: Mapping[NodeId, NodeView]) -> None:
        self._free = {id: node.slots for id, node in nodes.items()}
        self._largest = max((node.slots for node in nodes.values()), default=0)

    def occupy(self, node: NodeId, slots: int) -> None:
        """May go below zero: a node that came back with fewer slots does not end what runs there."""
        if node in self._free:
            self._free[node] -= slots

    def place(self, slots: int, *, among: Collection[NodeId] | None = None) -> NodeId | None:
        """The node with the most free slots, the first by name among equals; None if there is no room."""
        fitting = [(-free, id) for id, free in self._free.items() if free >= slots and (among is None or id in among)]
        return min(fitting)[1] if fitting else None

    def shortage(self, slots: int) -> str:
        """Why there is no room, for people."""
        if not self._free:
            return "no node is there"
        if slots > self._largest:
            return f"it wants {slots} slots, and the largest node has {self._largest}"
        # Not how many are free: that changes with every other job, and each change would be an event.
        return f"it wants {slots} slots, and no node has as many free"
