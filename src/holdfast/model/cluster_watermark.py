"""How far a cluster had come when it was last seen.

A ZooKeeper that lost its data, or was restored from an old copy, looks healthy. What a node remembers of it is the only
witness, so a node compares and does not take part until a person has accepted the step back.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sighting:
    cluster_id: str
    """Made from the creation of the `epoch` znode, which is never deleted: another id is another data set."""
    epoch: int
    beat: int

    def objection_to(self, now: "Sighting | None") -> str | None:
        """Why `now` cannot be the same ZooKeeper later on; None if it can."""
        if now is None:
            return f"ZooKeeper came back empty: this node has seen epoch {self.epoch} of this cluster"
        if now.cluster_id != self.cluster_id:
            return f"ZooKeeper came back with another cluster ({now.cluster_id}, not {self.cluster_id})"
        # Each by itself: on an old copy others may have gone on, and taken later epochs with fewer beats.
        if now.epoch < self.epoch or now.beat < self.beat:
            return (
                f"ZooKeeper came back older: epoch {now.epoch} beat {now.beat}, "
                f"but this node has seen epoch {self.epoch} beat {self.beat}"
            )
        return None
