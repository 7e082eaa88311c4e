"""A job: what was asked for, how it stands, and what the processes that run it say."""

import enum
from dataclasses import dataclass, field

from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.phase import Phase, check_transition
from holdfast.model.restart_strategy import Failures
from holdfast.model.versions import FIRST, TRIAL_S, Versions

NO_ATTEMPT = Attempt(0)
NO_FAILURES = Failures()
FIRST_VERSIONS = Versions()
EVENTS_MAX = 20
"""How many changes are kept with the job itself. Each node's event log has them all."""


class Desired(enum.StrEnum):
    RUN = "run"
    STOP = "stop"
    CANCEL = "cancel"
    """Absorbing: nothing follows it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What people want of a job. The version of its znode is the number of their last word."""

    desired: Desired
    force: bool = False
    """The next attempt may start anywhere: a person knows that the last one is dead."""
    version: int = FIRST
    """Of the spec."""
    trial_s: float = TRIAL_S
    """How long a new version may take to its first batch, before the last one comes back."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What was submitted. It never changes; an upgrade adds another version beside it."""

    name: str
    script: str
    """The file's name, for people; its content is the blob."""
    blob: str
    """The content's SHA-256."""
    restart: str = "exponential"
    slots: int = 1
    arguments: tuple[str, ...] = ()
    conf: tuple[tuple[str, str], ...] = ()
    py_files: tuple[tuple[str, str], ...] = ()
    """Names and blobs."""
    by: str = ""
    """Who wanted it so: user and machine, for people."""
    ancestors: tuple[str, ...] = ()
    """The jobs whose checkpoint it goes on from, the newest first. What they wrote it may continue."""


class Ending(enum.StrEnum):
    """How an attempt ended."""

    FINISHED = "finished"
    STOPPED = "stopped"
    """At a batch boundary, as asked."""
    FAILED = "failed"
    """The user's code."""
    KILLED = "killed"
    OUT_OF_MEMORY = "out of memory"
    UNSTARTABLE = "unstartable"
    """The driver could not even be started: a blob is missing, a script is no Python."""
    LOST = "lost"
    """The lease or the node was lost. Nobody's fault but the infrastructure's."""
    DATA_LOSS = "data loss"
    CHECKPOINT_CONFLICT = "checkpoint conflict"
    """The checkpoint belongs to somebody else, or a second driver wrote to it."""
    CHECKPOINT_DAMAGED = "checkpoint damaged"
    """Something in the checkpoint is missing or not what it was: nothing was started from it."""
    OUTPUT_CONFLICT = "output conflict"
    """A sink would not write: the output belongs to somebody else, or is not as this job has left it."""

    @property
    def blames_the_job(self) -> bool:
        return self in (Ending.FAILED, Ending.KILLED, Ending.OUT_OF_MEMORY)

    @property
    def about_the_checkpoint(self) -> bool:
        """Said instead of running. A person may have mended it by the time of the next attempt, which looks for itself."""
        return self in (Ending.CHECKPOINT_CONFLICT, Ending.CHECKPOINT_DAMAGED)

    @property
    def needs_a_person(self) -> bool:
        return self in (Ending.DATA_LOSS, Ending.OUTPUT_CONFLICT) or self.about_the_checkpoint


@dataclass(frozen=True, slots=True)
class Outcome:
    ending: Ending
    reason: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a streaming job has come."""

    batch_id: int | None = None
    rows_per_second: float | None = None
    offsets: tuple[str, ...] = ()
    """One for each source, as Spark writes them: JSON."""
    lag: tuple[str, ...] = ()
    """For each Kafka source how many records it is behind, by topic and partition, in the same way."""


@dataclass(frozen=True, slots=True)
class Lease:
    """While it exists the attempt is alive. Each heartbeat writes it, so it also carries what changes all the time."""

    attempt: Attempt
    node: NodeId
    nonce: str = ""
    runner_pid: int = 0
    driver_pid: int | None = None
    """None until the driver is started."""
    progress: Progress | None = None
    note: str = ""
    """As in the report."""

    @property
    def reason(self) -> str:
        """Why the job is said to run."""
        return f"attempt {self.attempt} runs on {self.node}" + (f"; {self.note}" if self.note else "")


@dataclass(frozen=True, slots=True)
class Report:
    """What the runner of an attempt says, and what its node certifies after it."""

    attempt: Attempt
    node: NodeId
    started: float
    """Wall time."""
    nonce: str = ""
    """Which runner of this attempt it was that took the lease."""
    failsafe: tuple[NodeId, ...] = ()
    """The nodes whose promises can keep the attempt alive without ZooKeeper. Only they know of them."""
    progress: Progress | None = None
    """As it was at the end. Until then what is known for sure: from the attempt before, or the first of this one."""
    note: str = ""
    """What people have to know about how it began: that something was set aside, for example."""
    outcome: Outcome | None = None
    dead: bool = False
    """The certificate: every process of this attempt is gone, for sure."""
    version: int = FIRST
    """Of the spec that it runs."""
    proven: bool = False
    """It has come to its first batch. Only said while a version is on trial."""


@dataclass(frozen=True, slots=True)
class Event:
    """One change of a job."""

    number: int
    """Contiguous from 1: the version of `state` that it brought about."""
    wall: float
    phase: Phase
    reason: str
    attempt: Attempt
    node: NodeId | None
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class State:
    """How a job stands. Written by the client once, and from then on by leaders."""

    phase: Phase
    reason: str
    attempt: Attempt = NO_ATTEMPT
    node: NodeId | None = None
    restarts: int = 0
    """How many attempts followed an earlier one."""
    failures: Failures = NO_FAILURES
    losses: int = 0
    """How many attempts in a row the infrastructure lost soon after their start."""
    heard: int = 0
    """The last word of people (see `Wanted`) that was acted upon."""
    request: str = ""
    """The request that submitted the job."""
    not_before: float = 0.0
    """Wall time of the next attempt, in BACKOFF."""
    versions: Versions = FIRST_VERSIONS
    events: tuple[Event, ...] = field(default=())

    def becoming(
        self,
        phase: Phase,
        reason: str,
        *,
        wall: float,
        epoch: Epoch,
        attempt: Attempt | None = None,
        node: NodeId | None = None,
        restarts: int | None = None,
        failures: Failures | None = None,
        losses: int | None = None,
        heard: int | None = None,
        not_before: float = 0.0,
        versions: Versions | None = None,
    ) -> "State":
        """The next state, with the event that says so. Raises IllegalTransition."""
        check_transition(self.phase, phase)
        attempt = self.attempt if attempt is None else attempt
        number = self.events[-1].number + 1 if self.events else 1
        event = Event(number, wall, phase, reason, attempt, node, epoch)
        return State(
            phase=phase,
            reason=reason,
            attempt=attempt,
            node=node,
            restarts=self.restarts if restarts is None else restarts,
            failures=self.failures if failures is None else failures,
            losses=self.losses if losses is None else losses,
            heard=self.heard if heard is None else heard,
            request=self.request,
            not_before=not_before,
            versions=self.versions if versions is None else versions,
            events=(*self.events, event)[-EVENTS_MAX:],
        )


@dataclass(frozen=True, slots=True)
class Order:
    """Tells a node to run an attempt. Only an index of `state`: one that does not match it starts nothing."""

    job: JobId
    attempt: Attempt
