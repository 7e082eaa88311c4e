"""Snapshot of the whole cluster, the immutable input of the planner."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.model.checkpoint_trust import CheckpointTrust
from holdfast.model.codec import NewerRecord, UnreadableRecord
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
    """The user's last request asserts that the previous attempt is dead: the next one may start on any node."""
    trust: CheckpointTrust | None = None
    """Damage of the checkpoint that a user has accepted."""
    run_now: bool = False
    """The user's last request asks for a run of a scheduled job at once."""
    spec_version: int = FIRST_VERSION
    """Version of the spec that the user requested."""
    complete: bool = True
    """True if every znode exists that a submission creates."""
    owns_name: bool = True
    """True if the name in its spec belongs to this job."""
    newer_name: NewerRecord | None = None
    """Set if a later version of Holdfast wrote the znode of its name."""
    lease_gone_since: float | None = None
    """Boot time at which this leader first saw that the lease is missing. A new leader starts again."""

    @property
    def newer_record(self) -> NewerRecord | None:
        """First record that a later version of Holdfast wrote. A job with such a record is set aside: it gets no command."""
        records = (self.state, self.spec, self.desired, self.lease, self.report, self.newer_name)
        return next((record for record in records if isinstance(record, NewerRecord)), None)


@dataclass(frozen=True, slots=True)
class NodeView:
    id: NodeId
    slots: int
    health: str = ""
    """Reason why the node cannot start attempts; empty if it can."""
    ends_attempts: bool = False
    """True if the node ends an attempt and certifies its death on request."""
    certifies_expiry: bool = False
    """True if the node ends an attempt of another node by letting its failsafe promise run out."""
    has_readable_record: bool = True
    """False for a node whose record this leader cannot read. The node is registered, but gets no new attempts."""


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
    nodes_gone_since: Mapping[NodeId, float] = field(default_factory=dict)
    """Boot time at which this leader first saw that a node was no longer registered."""
    undisturbed_since: float = float("-inf")
    """Boot time since which the contact of this leader's agent with ZooKeeper has had no gap longer than the margin."""
    session_timeout_s: float = 0.0
    """Seconds that nodes and runners get to return after a disturbance of that contact."""
