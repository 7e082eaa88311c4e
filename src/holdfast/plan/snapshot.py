"""What a leader has seen: one immutable picture of the whole cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import Desired, Lease, Report, Spec, State
from holdfast.model.versions import FIRST


@dataclass(frozen=True, slots=True)
class Now:
    wall: float
    """For people, and for back-off, which must survive a change of leaders."""
    boot: float
    """The leader's own clock, for margins."""


@dataclass(frozen=True, slots=True)
class Garbled:
    """Bytes that are no record, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class JobView:
    """Everything about one job. None means that the znode is not there."""

    id: JobId
    spec: Spec | Garbled | None
    """Of the version that the next attempt would run."""
    desired: Desired | Garbled | None
    """What people want."""
    attempt: Attempt
    """The version of the `attempt` znode, which no bytes can change."""
    state: State | Garbled | None
    lease: Lease | Garbled | None = None
    report: Report | Garbled | None = None
    word: int = 0
    """The number of people's last word, which is the version of the `desired` znode."""
    force: bool = False
    """That word allows the next attempt to start anywhere."""
    version: int = FIRST
    """Of the spec, as people want it."""
    whole: bool = True
    """Whether every part is there that a submission makes."""
    owns_its_name: bool = True
    """Whether the name in its spec points back to it."""
    lease_gone_since: float | None = None
    """On the leader's own clock: when it first saw that there is no lease. Begun again by a new leader."""


@dataclass(frozen=True, slots=True)
class NodeView:
    id: NodeId
    slots: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    epoch: Epoch
    jobs: Mapping[JobId, JobView]
    nodes: Mapping[NodeId, NodeView]
    orders: Mapping[NodeId, frozenset[JobId]] = field(default_factory=dict)
    quarantined: frozenset[JobId] = frozenset()
    margin_s: float = 4.0
    """How long after its lease was seen gone an attempt is surely dead."""
    start_s: float = 30.0
    """How long a node may take from an order to the lease."""
