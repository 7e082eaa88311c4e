"""Snapshot of the whole cluster, the immutable input of the planner."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.model.codec import UnreadableRecord
from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import Desired, JobState, Lease, Report, Spec
from holdfast.model.versions import FIRST_VERSION


@dataclass(frozen=True, slots=True)
class Now:
    """Current time, in seconds, on both clocks."""

    wall: float
    """Wall clock, for events and for back-off, which must survive a change of leader."""
    boot: float
    """The leader's boot-time clock, for margins."""


@dataclass(frozen=True, slots=True)
class JobView:
    """Records of one job. None means that the znode does not exist."""

    id: JobId
    spec: Spec | UnreadableRecord | None
    """Spec of the version that the next attempt would run."""
    desired: Desired | UnreadableRecord | None
    attempt: Attempt
    """Last assigned attempt number: the version of the `attempt` znode, which is independent of its bytes."""
    state: JobState | UnreadableRecord | None
    lease: Lease | UnreadableRecord | None = None
    report: Report | UnreadableRecord | None = None
    desired_version: int = 0
    """Version of the `desired` znode: the number of the user's last request."""
    force: bool = False
    """The user's last request allows the next attempt to start on any node."""
    spec_version: int = FIRST_VERSION
    """Version of the spec that the user requested."""
    complete: bool = True
    """True if every znode exists that a submission creates."""
    owns_name: bool = True
    """True if the name in its spec belongs to this job."""
    lease_gone_since: float | None = None
    """Boot time at which this leader first saw that the lease is missing. A new leader starts again."""


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
    """Seconds after the lease was first seen missing until the attempt is certainly dead."""
    start_s: float = 30.0
    """Seconds a node may take from an order to the lease."""
