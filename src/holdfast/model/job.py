"""Records of a job: spec, desired state, current state, lease and report."""

import enum
from dataclasses import dataclass, field

from holdfast.model.checkpoint_trust import CheckpointTrust
from holdfast.model.codec import OLDEST_SCHEMA
from holdfast.model.failure_history import FailureHistory, LastFailure
from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.phase import Phase, check_transition
from holdfast.model.schedule.due_times import SCHEDULE_SCHEMA, Schedule
from holdfast.model.schedule.runs import RunHistory
from holdfast.model.versions import FIRST_VERSION, TRIAL_S, Versions

NO_ATTEMPT = Attempt(0)
NO_FAILURES = FailureHistory()
INITIAL_VERSIONS = Versions()
EVENTS_MAX = 20
"""Events kept in the job's state. The event logs of the nodes keep all of them."""


class Desired(enum.StrEnum):
    RUN = "run"
    STOP = "stop"
    CANCEL = "cancel"
    """Absorbing: a cancelled job can neither be run nor stopped."""


@dataclass(frozen=True, slots=True)
class DesiredRecord:
    """Last request of the users for a job. The version of its znode is the number of the request."""

    desired: Desired
    force: bool = False
    """The next attempt may start on any node: the user has confirmed that the previous one is dead."""
    version: int = FIRST_VERSION
    """Requested version of the spec."""
    trial_s: float = TRIAL_S
    """Seconds a new version may take to its first batch before the job returns to the previous version."""
    trust: CheckpointTrust | None = None
    """Damage of the checkpoint that a user has accepted. It remains when the desired state changes."""
    run_now: bool = False
    """The request asks for a run of a scheduled job at once, without waiting until the next one is due."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Submitted program and its options. A spec never changes; an upgrade adds another version."""

    name: str
    script: str
    """File name, for display. The content is stored as a blob."""
    blob: str
    """SHA-256 of the script, the name of its blob."""
    restart: str = "exponential"
    slots: int = 1
    arguments: tuple[str, ...] = ()
    conf: tuple[tuple[str, str], ...] = ()
    py_files: tuple[tuple[str, str], ...] = ()
    """Pairs of file name and blob."""
    restart_is_default: bool = False
    """True if the submitter chose no restart strategy: the job fails if its script keeps failing before any progress."""
    by: str = ""
    """User and machine that submitted this version, for display."""
    ancestors: tuple[str, ...] = ()
    """Jobs whose checkpoint this job continues, newest first. The job may also continue their output."""
    schedule: Schedule | None = None
    """Times of the runs; None for a job that runs all the time, or once."""

    @property
    def schema_required(self) -> int:
        return OLDEST_SCHEMA if self.schedule is None else SCHEDULE_SCHEMA


class Ending(enum.StrEnum):
    """Cause of the end of an attempt."""

    FINISHED = "finished"
    STOPPED = "stopped"
    """Stopped at a batch boundary, as requested."""
    FAILED = "failed"
    """The user's code failed."""
    KILLED = "killed"
    OUT_OF_MEMORY = "out of memory"
    UNSTARTABLE = "unstartable"
    """The driver could not be started, for example because a blob is missing or the script is not valid Python."""
    LOST = "lost"
    """The lease or the node was lost: a failure of the infrastructure, not of the job."""
    DATA_LOSS = "data loss"
    CHECKPOINT_CONFLICT = "checkpoint conflict"
    """The checkpoint belongs to another job, or a second driver wrote to it."""
    CHECKPOINT_DAMAGED = "checkpoint damaged"
    """A part of the checkpoint is missing or has changed, so no driver was started."""
    OUTPUT_CONFLICT = "output conflict"
    """A sink refused to write: the output belongs to another job, or was changed since this job wrote it."""

    @property
    def is_job_failure(self) -> bool:
        return self in (Ending.FAILED, Ending.KILLED, Ending.OUT_OF_MEMORY)

    @property
    def is_program_failure(self) -> bool:
        """True for a failure that says something about the version of the program alone."""
        return self.is_job_failure or self is Ending.UNSTARTABLE

    @property
    def concerns_checkpoint(self) -> bool:
        """True if the checkpoint prevented the start. The next attempt checks again: the checkpoint may be repaired by then."""
        return self in (Ending.CHECKPOINT_CONFLICT, Ending.CHECKPOINT_DAMAGED)

    @property
    def requires_operator(self) -> bool:
        return self in (Ending.DATA_LOSS, Ending.OUTPUT_CONFLICT) or self.concerns_checkpoint


@dataclass(frozen=True, slots=True)
class Outcome:
    """End of an attempt."""

    ending: Ending
    reason: str
    findings: tuple[str, ...] = ()
    """Ids of the checkpoint's findings, which a user can accept (`checkpoint_trust`)."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a streaming job."""

    batch_id: int | None = None
    rows_per_second: float | None = None
    offsets: tuple[str, ...] = ()
    """JSON of the offsets of each source, as Spark reports them."""
    lag: tuple[str, ...] = ()
    """JSON of the number of unread records by topic and partition, for each Kafka source."""
    offset_queries: tuple[str, ...] = ()
    """Label of the query of each entry in `offsets`. Empty if the runner's version does not report it."""


@dataclass(frozen=True, slots=True)
class SparkApplication:
    """Application of a driver on a Spark cluster, YARN or Kubernetes, with its executors."""

    id: str
    state: str = ""
    """State according to YARN; empty for other cluster managers."""
    executors: int = 0
    """Executors that are alive."""
    lost: int = 0
    """Executors of this attempt that ended without a request of the driver or of an administrator."""
    decommissioned: int = 0
    last_loss: str = ""
    """Spark's reason for the newest loss."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Proof that an attempt is alive, in an ephemeral znode. Each heartbeat writes it, so it also carries the progress."""

    attempt: Attempt
    node: NodeId
    nonce: str = ""
    runner_pid: int = 0
    driver_pid: int | None = None
    """Process id of the driver, or None before its start."""
    progress: Progress | None = None
    note: str = ""
    """Note for the user, as in the report."""
    isolation: str = ""
    """Isolation level of the driver (`namespace`, `cgroup` or `scan`); empty before its start and from earlier releases."""
    starting: bool = False
    """True until the driver has Spark or its first query. A runner of an earlier release never sets it."""
    application: SparkApplication | None = None
    """None for a local master, before the application is known, and from earlier releases."""

    @property
    def reason(self) -> str:
        """Reason of the phase RUNNING, or of STARTING while the attempt starts."""
        verb = "starts" if self.starting else "runs"
        return f"attempt {self.attempt} {verb} on {self.node}" + (f"; {self.note}" if self.note else "")


@dataclass(frozen=True, slots=True)
class Report:
    """Report of the runner about its attempt, with the death certificate that its node adds."""

    attempt: Attempt
    node: NodeId
    started: float
    """Wall time of the start."""
    nonce: str = ""
    """Identifies the runner that took the lease for this attempt."""
    failsafe: tuple[NodeId, ...] = ()
    """Nodes whose failsafe promises can keep the attempt alive without ZooKeeper. Only they know their promises."""
    progress: Progress | None = None
    """Final progress. Before the end: the last progress of the previous attempt, or the first of this one."""
    note: str = ""
    """Note for the user about the start, for example that a damaged file was set aside."""
    outcome: Outcome | None = None
    dead: bool = False
    """Death certificate: every process of this attempt is gone."""
    expired_on: NodeId | None = None
    """Node that certified the death because its failsafe promise had run out. Without it, the attempt's node has killed the
    processes or seen them end."""
    version: int = FIRST_VERSION
    """Version of the spec that the attempt runs."""
    proven: bool = False
    """True after the attempt's first batch. A runner of an earlier release sets it only for a version on trial."""
    starting: bool = False
    """Copy of the lease's field. The leader watches the report, so its change wakes the leader."""
    first_unreported: Attempt = NO_ATTEMPT
    """First attempt whose outcome ZooKeeper may lack; this attempt if none. 0 in a report of an earlier release."""
    checkpoint: str = ""
    """Root of the checkpoints that the newest attempt with a reported claim has claimed, as Spark spells it. Empty before the
    first claim, and in a report of an earlier release."""


@dataclass(frozen=True, slots=True)
class Event:
    """Change of a job's state."""

    number: int
    """Event number, contiguous from 1: the version of the `state` znode after the change."""
    wall: float
    phase: Phase
    reason: str
    attempt: Attempt
    node: NodeId | None
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class JobState:
    """Current state of a job. A client writes it once, at submission; from then on only leaders do."""

    phase: Phase
    reason: str
    attempt: Attempt = NO_ATTEMPT
    node: NodeId | None = None
    restarts: int = 0
    """Number of attempts after the first one."""
    failures: FailureHistory = NO_FAILURES
    last_failure: LastFailure | None = None
    """Failure or loss that the current attempt follows; None for the first attempt and after a user's stop."""
    progressed: bool = False
    """True once an attempt has completed a batch or has run for a healthy time."""
    losses: int = 0
    """Consecutive attempts that the infrastructure lost soon after their start."""
    lost_on: tuple[NodeId, ...] = ()
    """Nodes of these attempts, the newest last. The next attempt prefers other nodes."""
    heard: int = 0
    """Number of the last request (see `DesiredRecord`) that was carried out."""
    request: str = ""
    """Id of the request that submitted the job."""
    not_before: float = 0.0
    """Earliest wall time of the next attempt, in BACKOFF and SCHEDULED."""
    versions: Versions = INITIAL_VERSIONS
    events: tuple[Event, ...] = field(default=())
    runs: RunHistory | None = None
    """Runs of a scheduled job; None before its first decision, and for a job without a schedule."""

    @property
    def schema_required(self) -> int:
        return OLDEST_SCHEMA if self.runs is None else SCHEDULE_SCHEMA

    def transition_to(
        self,
        phase: Phase,
        reason: str,
        *,
        wall: float,
        epoch: Epoch,
        attempt: Attempt | None = None,
        node: NodeId | None = None,
        restarts: int | None = None,
        failures: FailureHistory | None = None,
        losses: int | None = None,
        heard: int | None = None,
        not_before: float = 0.0,
        versions: Versions | None = None,
        runs: RunHistory | None = None,
    ) -> "JobState":
        """Return the next state, with the event that records the change. Raise IllegalTransition if it is not allowed."""
        check_transition(self.phase, phase)
        attempt = self.attempt if attempt is None else attempt
        number = self.events[-1].number + 1 if self.events else 1
        event = Event(number, wall, phase, reason, attempt, node, epoch)
        return JobState(
            phase=phase,
            reason=reason,
            attempt=attempt,
            node=node,
            restarts=self.restarts if restarts is None else restarts,
            failures=self.failures if failures is None else failures,
            last_failure=None if phase is Phase.PARKED else self.last_failure,
            progressed=self.progressed,
            losses=self.losses if losses is None else losses,
            lost_on=() if losses == 0 else self.lost_on,
            heard=self.heard if heard is None else heard,
            request=self.request,
            not_before=not_before,
            versions=self.versions if versions is None else versions,
            events=(*self.events, event)[-EVENTS_MAX:],
            runs=self.runs if runs is None else runs,
        )


@dataclass(frozen=True, slots=True)
class Order:
    """Order to a node to run an attempt, or to end it. An order that does not match the job's state has no effect."""

    job: JobId
    attempt: Attempt
    end: bool = False
    """End the attempt and certify its death. A node of an earlier release ignores this order, because the attempt has run."""
    event: int = 0
    """Number of the event in which the leader ordered the end. The order has no effect after a later event of the job."""
    report: int | None = None
    """Version of the report that the leader decided from, for an order to end an attempt."""
