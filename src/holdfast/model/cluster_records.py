"""Znode records of nodes and leaders."""

from dataclasses import dataclass

from holdfast.model.identifiers import Epoch, NodeId


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """Winner of an epoch. The epoch number is the version of the znode, which is independent of its bytes."""

    leader: NodeId
    contender: str


@dataclass(frozen=True, slots=True)
class HeartbeatRecord:
    """Heartbeat of the leader. The number of heartbeats is the version of the znode."""

    leader: NodeId
    epoch: Epoch
    wall_s: float


@dataclass(frozen=True, slots=True)
class NodeRecord:
    slots: int
    address: str
    version: str
    newest_schema: int


@dataclass(frozen=True, slots=True)
class QuarantineRecord:
    """Reason for a quarantine, with the bytes that could not be read."""

    reason: str
    part: str
    """Part of the job that could not be read; empty if a part is missing or the job was restored by hand."""
    wall: float
    epoch: Epoch
    original: str
    """Original bytes of that part, in Base64."""
