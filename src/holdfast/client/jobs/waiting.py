"""Wait until a job reaches a condition."""

import asyncio
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from holdfast.client.callbacks import Callbacks
from holdfast.client.connection.blocking import run_blocking
from holdfast.client.connection.retry import RetryingSession
from holdfast.client.connection.target import Target
from holdfast.errors import Refused, Unavailable
from holdfast.model.identifiers import JobId
from holdfast.model.phase import Phase
from holdfast.model.schedule.runs import RunOutcome
from holdfast.zk.records.job_reader import read_job
from holdfast.zk.records.stored_job import StoredJob

POLL_S = 0.3
EXPLAIN_S = 2.0
"""Time after which the waiter says what it waits for although the job runs."""
REMIND_S = 15.0
"""Interval of reminders while the job does not change."""

Until = Literal["running", "first_batch", "stopped", "ended"]


class WaitResult(enum.Enum):
    REACHED = "the job reached the condition"
    MISSED = "the job can no longer reach the condition by itself"


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition that a job may reach."""

    goal: str
    """Noun phrase for messages, for example `the first batch`."""
    judge: Callable[[StoredJob], WaitResult | None]
    """Judges the current state of a job; None means that the job may still reach the condition."""


class WaitFailed(Refused):
    """The job can no longer reach the condition without an operator, for example because it failed or is parked."""

    def __init__(self, job: StoredJob, message: str | None = None) -> None:
        super().__init__(message or f"{job.label} is {job.phase or '?'}: {job.reason}")
        self.job = job


class WaitTimeout(Unavailable, TimeoutError):
    """The job did not reach the condition in time. The job itself continues unchanged."""

    def __init__(self, job: StoredJob, timeout_s: float) -> None:
        super().__init__(f"{job.label} is {job.phase or '?'} after {timeout_s:g} s: {job.reason}")
        self.job = job


def wait_for_job(
    target: Target, job: StoredJob, condition: Condition, callbacks: Callbacks, *, timeout_s: float | None = None
) -> StoredJob:
    """Wait until the condition holds, and return the current job. Raise WaitFailed or WaitTimeout.

    An interruption ends the waiting only; the job continues unchanged.
    """
    try:
        return run_blocking(lambda: _Waiter(target, job.id, condition, callbacks).run(timeout_s))
    except KeyboardInterrupt:
        name = job.name or job.id
        callbacks.note(f"stopped waiting; the job itself continues unchanged: see 'holdfast show {name}'")
        raise


class _Waiter:
    def __init__(self, target: Target, id: JobId, condition: Condition, callbacks: Callbacks) -> None:
        self._target = target
        self._id = id
        self._condition = condition
        self._callbacks = callbacks
        self._reported: tuple[Phase | None, str] | None = None
        self._began_at = self._remind_at = 0.0

    async def run(self, timeout_s: float | None) -> StoredJob:
        self._began_at = asyncio.get_running_loop().time()
        give_up_at = self._began_at + timeout_s if timeout_s is not None else None
        async with RetryingSession(self._target) as session:
            while True:
                job = await self._read(session)
                result = self._condition.judge(job)
                if result is WaitResult.MISSED:
                    raise WaitFailed(job)
                if result is WaitResult.REACHED:
                    return job
                if timeout_s is not None and give_up_at is not None and asyncio.get_running_loop().time() >= give_up_at:
                    raise WaitTimeout(job, timeout_s)
                self._remind(job)
                await asyncio.sleep(POLL_S)

    async def _read(self, session: RetryingSession) -> StoredJob:
        paths = self._target.paths
        job = await session.call_until_answered(lambda client: read_job(client, paths, self._id), self._callbacks.note)
        if job is None:
            raise Refused(f"job {self._id} is gone")
        if (job.phase, job.reason) != self._reported:
            self._reported = (job.phase, job.reason)
            delay_s = EXPLAIN_S if job.phase is Phase.RUNNING else REMIND_S
            self._remind_at = asyncio.get_running_loop().time() + delay_s
            self._callbacks.job_changed(job)
        return job

    def _remind(self, job: StoredJob) -> None:
        """Send a note with the condition and the time so far, soon after a change of the job and then at intervals."""
        now = asyncio.get_running_loop().time()
        if now < self._remind_at:
            return
        self._remind_at = now + REMIND_S
        waited = f"{job.phase or '?'}, {now - self._began_at:.0f} s so far"
        self._callbacks.note(
            f"waiting for {self._condition.goal} of {job.name or job.id} ({waited}); Ctrl-C stops only the waiting"
        )


def condition_named(until: Until, *, after_attempt: int | None = None) -> Condition:
    """Return the condition for a name. Raise Refused if the name is unknown."""
    if until == "running":
        return until_running(after_attempt=after_attempt)
    conditions: dict[str, Condition] = {"first_batch": until_first_batch, "stopped": until_stopped, "ended": until_ended}
    if until not in conditions:
        raise Refused(f"cannot wait until '{until}': use running, {', '.join(conditions)}")
    return conditions[until]


def _judge_first_batch(job: StoredJob) -> WaitResult | None:
    if job.phase is Phase.RUNNING and job.lease is not None and job.progress.batch_id is not None:
        return WaitResult.REACHED
    if job.phase is Phase.FINISHED:
        return WaitResult.REACHED
    if job.phase is Phase.SCHEDULED and job.runs is not None and job.runs.last is not None:
        return WaitResult.REACHED if job.runs.last.outcome is RunOutcome.FINISHED else WaitResult.MISSED
    return WaitResult.MISSED if job.has_ended or job.phase in (Phase.PARKED, Phase.QUARANTINED) else None


def _judge_stopped(job: StoredJob) -> WaitResult | None:
    if job.has_ended or (job.phase is Phase.PARKED and job.lease is None):
        return WaitResult.REACHED
    return WaitResult.MISSED if job.phase is Phase.QUARANTINED else None


def _judge_ended(job: StoredJob) -> WaitResult | None:
    return WaitResult.REACHED if job.has_ended else None


until_first_batch = Condition("the first batch", _judge_first_batch)
until_stopped = Condition("the stop", _judge_stopped)
until_ended = Condition("the end", _judge_ended)


def until_running(*, after_attempt: int | None, after_event: int = 0) -> Condition:
    """Return the condition that a job runs, in a later attempt than `after_attempt` if that is given.

    `after_event` is the number of the job's last event before it was resumed: until the leader acts, the job is still parked.
    """

    def condition(job: StoredJob) -> WaitResult | None:
        if job.has_ended or job.phase is Phase.QUARANTINED:
            return WaitResult.REACHED if job.phase is Phase.FINISHED else WaitResult.MISSED
        is_later = after_attempt is None or job.attempt > after_attempt
        if job.phase is Phase.PARKED and is_later and last_event_number(job) > after_event:
            return WaitResult.MISSED
        return WaitResult.REACHED if is_later and job.phase is Phase.RUNNING and job.lease is not None else None

    return Condition("the start" if after_attempt is None else "the next attempt", condition)


def until_resumed(*, after_event: int) -> Condition:
    """Return the condition that a job runs, or waits for the next run of its schedule, after it was resumed."""
    running = until_running(after_attempt=None, after_event=after_event)

    def condition(job: StoredJob) -> WaitResult | None:
        if job.phase is Phase.SCHEDULED and last_event_number(job) > after_event:
            return WaitResult.REACHED
        return running.judge(job)

    return Condition(running.goal, condition)


def until_accepted(version: int) -> Condition:
    """Return the condition that a version of the job's program has committed its first batch, or has passed without one."""

    def condition(job: StoredJob) -> WaitResult | None:
        if job.has_ended or job.phase in (Phase.PARKED, Phase.QUARANTINED):
            return WaitResult.REACHED if job.phase is Phase.FINISHED else WaitResult.MISSED
        if job.state is not None and job.state.versions.rejected == version:
            return WaitResult.MISSED
        if job.phase is Phase.SCHEDULED and job.state is not None:
            versions = job.state.versions
            return WaitResult.REACHED if versions.current == version and not versions.on_trial else None
        runs = job.state is not None and job.state.versions.current == version and job.phase is Phase.RUNNING
        has_batch = job.lease is not None and job.lease.attempt == job.attempt and job.progress.batch_id is not None
        has_passed = job.report is not None and job.report.attempt == job.attempt and job.report.proven
        return WaitResult.REACHED if runs and (has_batch or has_passed) else None

    return Condition(f"the first batch with version {version}", condition)


def last_event_number(job: StoredJob) -> int:
    """Return the number of the job's newest event; 0 if it has none."""
    return job.state.events[-1].number if job.state is not None and job.state.events else 0
