"""Watermark of a cluster: the highest epoch and heartbeat that a node has seen.

A ZooKeeper ensemble that lost its data, or was restored from an old backup, looks healthy. A node can notice this only by
comparing with its own watermark. It then takes no part in the cluster until an operator accepts the older state.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterWatermark:
    cluster_id: str
    """Derived from the creation of the `epoch` znode, which is never deleted. A different id means different data."""
    epoch: int
    beat: int

    def mismatch_with(self, current: "ClusterWatermark | None") -> str | None:
        """Return why `current` is not a later state of the same cluster, or None if it is."""
        if current is None:
            return f"ZooKeeper came back empty: this node has seen epoch {self.epoch} of this cluster"
        if current.cluster_id != self.cluster_id:
            return f"ZooKeeper came back with another cluster ({current.cluster_id}, not {self.cluster_id})"
        # Compared separately: nodes that continue on an old backup reach later epochs with fewer heartbeats.
        if current.epoch < self.epoch or current.beat < self.beat:
            return (
                f"ZooKeeper came back older: epoch {current.epoch} beat {current.beat}, "
                f"but this node has seen epoch {self.epoch} beat {self.beat}"
            )
        return None
