"""Znode records of nodes, heartbeats, deleted jobs and quarantines."""

from dataclasses import dataclass

from holdfast.model.identifiers import Epoch, NodeId


@dataclass(frozen=True, slots=True)
class HeartbeatRecord:
    """Heartbeat of the leader. The number of heartbeats is the version of the znode."""

    leader: NodeId
    epoch: Epoch
    wall_s: float


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """Node that is a member of the cluster."""

    slots: int
    address: str
    version: str
    newest_schema: int
    health: str = ""
    """Reason why the node cannot start attempts, as a sentence without its subject; empty if it can."""
    ends_attempts: bool = False
    """True if the node ends an attempt and certifies its death when the leader orders it. Earlier releases do not."""
    certifies_expiry: bool = False
    """True if the node ends an attempt of another node by letting its failsafe promise run out. Earlier releases do not."""
    isolation: str = ""
    """Isolation level of new attempts on the node (`namespace`, `cgroup` or `scan`); empty for nodes of earlier releases."""
    isolation_problem: str = ""
    """Reason why the level is `scan`."""


@dataclass(frozen=True, slots=True)
class TombstoneRecord:
    """Deletion of the record of an ended job. It proves that the job belonged to this cluster and cannot start again."""

    wall_s: float
    """Time of the deletion by the leader's clock."""


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
