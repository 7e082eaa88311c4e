"""Stop, resume, restart and cancel jobs: decide what to write, and write it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.client.connection.retry import run_with_retry
from holdfast.client.connection.target import Target
from holdfast.client.jobs.waiting import Condition, last_event_number, until_ended, until_resumed, until_running, until_stopped
from holdfast.client.timestamps import age
from holdfast.errors import Refused
from holdfast.model.checkpoint_trust import FINDINGS_MAX, CheckpointTrust
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, Ending
from holdfast.model.phase import Phase
from holdfast.model.plural import format_count
from holdfast.zk.records.cluster_view import read_cluster
from holdfast.zk.records.job_lookup import find_job
from holdfast.zk.records.job_reader import read_job
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.stored_job import StoredJob
from holdfast.zk.records.submission import set_desired
from holdfast.zk.session.client import Client


@dataclass(frozen=True, slots=True)
class ControlDecision:
    """Desired state to write for a job, and its effect in words."""

    effect: str
    """Predicate of a sentence whose subject is the job: how the job is now, and what happens next."""
    condition: Condition
    """Condition that holds once the decision has taken effect."""
    desired: Desired | None = None
    """None if nothing has to be written."""
    repeat: bool = False
    """Write it even if it is already desired. That restarts a running job and resumes a parked one."""
    force: bool = False
    trust: CheckpointTrust | None = None
    """Damage of the checkpoint that the user accepts."""
    run_now: bool = False
    """Start a run of a scheduled job at once."""


@dataclass(frozen=True, slots=True)
class ControlResult:
    """Result of stop, resume, restart or cancel."""

    job: StoredJob
    """State of the job before the request."""
    effect: str
    """Predicate of a sentence whose subject is the job: how the job was, and what happens next."""
    changed: bool
    """False if the job already was as requested, so that nothing was written."""
    has_leader: bool
    """False if no node leads. The request takes effect as soon as a node does."""
    condition: Condition = field(repr=False)
    """Condition that holds once the request has taken effect, for `Cluster.wait`."""


Decide = Callable[[StoredJob], ControlDecision]


def control_job(target: Target, text: str, decide: Decide) -> ControlResult:
    """Find a job, decide about it and write the decision.

    Raise Refused if the job does not allow it, and OutcomeUnknown if the reply to the write was lost.
    """
    return run_with_retry(target, ControlRequest(target.paths, text, decide).run, repeatable=False)


class ControlRequest:
    """Request about one job, which is decided and written once, even if a lost connection causes several runs.

    Deciding again after the write would judge the request by its own effect: a cancel would find the job cancelled.
    """

    def __init__(self, paths: Paths, text: str, decide: Decide) -> None:
        self._paths = paths
        self._text = text
        self._decide = decide
        self._written: tuple[StoredJob, ControlDecision] | None = None

    async def run(self, client: Client) -> ControlResult:
        """Write the decision unless an earlier run has done so, and return the result."""
        if self._written is None:
            self._written = await self._write(client)
        job, decision = self._written
        if decision.desired is not None:
            await _refuse_if_ended(client, self._paths, job.id, decision.desired)
        has_leader = (await read_cluster(client, self._paths)).leader is not None
        return ControlResult(job, decision.effect, decision.desired is not None, has_leader, decision.condition)

    async def _write(self, client: Client) -> tuple[StoredJob, ControlDecision]:
        job = await find_job(client, self._paths, self._text)
        decision = self._decide(job)
        if decision.desired is not None:
            await set_desired(
                client,
                self._paths,
                job.id,
                decision.desired,
                repeat=decision.repeat,
                force=decision.force,
                trust=decision.trust,
                run_now=decision.run_now,
            )
        return job, decision


async def _refuse_if_ended(client: Client, paths: Paths, id: JobId, desired: Desired) -> None:
    """Raise Refused if the job ended between the read and the write."""
    job = await read_job(client, paths, id)
    is_cancelled = desired is Desired.CANCEL and job is not None and job.phase is Phase.CANCELLED
    if job is not None and job.has_ended and not is_cancelled:
        raise Refused(_ended_message(job))


def decide_stop(job: StoredJob) -> ControlDecision:
    refuse_uncontrollable(job)
    if job.desired_record is not None and job.desired_record.desired is Desired.STOP:
        return ControlDecision(f"has already been asked to stop ({job.phase}: {job.reason})", until_stopped)
    resume = f"'holdfast resume {job.name or job.id}' continues it"
    if job.lease is not None:
        effect = f"is running on {job.lease.node} and stops after its current batch; {resume}"
    else:
        effect = f"is not running ({job.phase}: {job.reason}) and will not be started; {resume}"
    return ControlDecision(effect, until_stopped, Desired.STOP)


def decide_cancel(job: StoredJob) -> ControlDecision:
    _refuse_ended(job)
    if job.desired_record is not None and job.desired_record.desired is Desired.CANCEL:
        return ControlDecision(f"has already been cancelled ({job.phase}: {job.reason})", until_ended)
    if job.lease is not None:
        effect = f"is running on {job.lease.node}; its driver is killed at once, and the job never runs again"
    else:
        effect = f"is not running ({job.phase}: {job.reason}) and never runs again"
    return ControlDecision(effect, until_ended, Desired.CANCEL)


def decide_restart(job: StoredJob, *, force: bool) -> ControlDecision:
    refuse_uncontrollable(job)
    if job.lease is not None:
        running = f"is running on {job.lease.node}; attempt {job.lease.attempt} stops after its current batch"
        effect = f"{running}, then the next attempt starts"
    else:
        effect = _start_effect(job)
    condition = until_running(after_attempt=job.attempt)
    return ControlDecision(effect, condition, Desired.RUN, repeat=True, force=force, run_now=True)


def decide_resume(job: StoredJob) -> ControlDecision:
    """Decide only about a job that does not run: writing RUN again for a running job would restart it."""
    refuse_uncontrollable(job)
    runs = until_resumed(after_event=last_event_number(job))
    if job.desired_record is not None and job.desired_record.desired is Desired.STOP:
        # Without `repeat`: if another client resumes the job at the same time, one write is enough.
        return ControlDecision(_resume_effect(job), runs, Desired.RUN)
    if job.phase is Phase.PARKED:
        return ControlDecision(_resume_effect(job), runs, Desired.RUN, repeat=True)
    effect = f"is not stopped ({job.phase}: {job.reason}); nothing was changed"
    return ControlDecision(effect, until_running(after_attempt=None))


def decide_trusted_resume(job: StoredJob, *, by: str, reason: str, now: float) -> ControlDecision:
    """Decide about a job that is parked because of its checkpoint, which the user trusts. `now` is a wall time."""
    refuse_uncontrollable(job)
    outcome = job.report.outcome if job.report is not None else None
    if job.phase is not Phase.PARKED or outcome is None or outcome.ending is not Ending.CHECKPOINT_DAMAGED:
        raise Refused(
            f"{job.label} is not parked because of a damaged checkpoint ({job.phase}: {job.reason}), so --trust-checkpoint has "
            "no effect on it"
        )
    if not outcome.findings:
        raise Refused(
            f"the findings about the checkpoint of {job.label} are not recorded: there are more than {FINDINGS_MAX:,}, or "
            f"a node of an earlier release has verified it. 'holdfast resume {job.id}' verifies it again; or restore a copy"
        )
    trust = CheckpointTrust(by, " ".join(reason.split()), now, outcome.findings)
    effect = f"is parked because of {format_count(len(outcome.findings), 'finding')}, which you trust, and starts again"
    runs = until_running(after_attempt=None, after_event=last_event_number(job))
    return ControlDecision(effect, runs, Desired.RUN, repeat=True, trust=trust)


def _resume_effect(job: StoredJob) -> str:
    has_open_run = job.runs is not None and job.runs.run is not None
    if job.spec is None or job.spec.schedule is None or job.lease is not None or has_open_run:
        return _start_effect(job)
    return f"is not running ({job.phase}: {job.reason}) and continues its schedule ({job.spec.schedule.due_times_text})"


def _start_effect(job: StoredJob) -> str:
    if job.lease is not None:
        return f"is still running on {job.lease.node} ({job.phase}: {job.reason}) and starts again once it has stopped"
    return f"is not running ({job.phase}: {job.reason}) and starts as soon as a node has free slots"


def refuse_uncontrollable(job: StoredJob) -> None:
    """Raise Refused if the job has ended or is in quarantine."""
    _refuse_ended(job)
    if job.phase is Phase.QUARANTINED:
        raise Refused(
            f"{job.label} is in quarantine ({job.reason}): 'holdfast quarantine release {job.id}' lets it run again once its "
            f"records are readable, 'holdfast cancel {job.id}' ends it"
        )


def _refuse_ended(job: StoredJob) -> None:
    if job.has_ended:
        raise Refused(_ended_message(job))


def _ended_message(job: StoredJob) -> str:
    return f"{job.label} has already ended: {job.phase} {age(job.changed_at, time.time())} ago: {job.reason}"
