"""Record of the runs of a scheduled job, kept in the job's state.

A run belongs to one due time of the schedule and has one or more attempts. `position` is written in the same transaction that
opens the run, so no leader opens a second run for it.
"""

import enum
from dataclasses import dataclass, replace

from holdfast.model.schedule.due_times import CatchUp, Schedule

RUNS_MAX = 30
"""Ended runs that the job's state keeps."""
REASON_MAX = 200
LATE_S_MAX = 60.0
"""Delay up to which a due time counts as on time for the policy `none`, for example after a change of leader."""
CATCH_UP_MAX = 100
"""Due times that the policy `all` makes up for. Earlier ones are skipped."""
CLOCK_STEP_S_MAX = 3600.0
"""Step back of the wall clock up to which the schedule waits until the clock has passed its last due time again."""


class RunOutcome(enum.StrEnum):
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a scheduled job. All times are wall times."""

    number: int
    due: float
    """Due time of the run, or the time at which a user asked for it."""
    requested: bool = False
    """True if a user asked for this run, outside of the schedule."""
    skipped: int = 0
    """Due times that were skipped between the previous run and this one."""
    started: float | None = None
    """Time at which its first attempt was assigned."""
    first_attempt: int = 0
    attempts: int = 0
    ended: float | None = None
    outcome: RunOutcome | None = None
    reason: str = ""
    batches: int | None = None
    """Batches that the run has completed; None if it reported no batch."""


@dataclass(frozen=True, slots=True)
class RunHistory:
    """Position in the schedule, the open run and the last ended runs."""

    due_times_text: str
    """`Schedule.due_times_text` of the schedule that `anchor` and `position` belong to."""
    anchor: float
    position: float
    """Last due time that has a run or was skipped."""
    run: Run | None = None
    """Open run: its attempt runs, will be repeated, or waits for a node."""
    ended: tuple[Run, ...] = ()
    """Last ended runs, the newest last."""
    number: int = 0
    """Number of the last run."""
    skipped: int = 0
    """Due times that were skipped since the last run was opened."""
    failed_in_a_row: int = 0
    batch_id: int | None = None
    """Last batch that a run has reported."""

    @property
    def last(self) -> Run | None:
        return self.ended[-1] if self.ended else None

    def open_run(self, due: float, *, skipped: int = 0, requested: bool = False) -> "RunHistory":
        """Return the history with a new run. A run that a user asked for does not move the position in the schedule."""
        number = self.number + 1
        run = Run(number, due, requested=requested, skipped=self.skipped + skipped)
        return replace(self, run=run, number=number, skipped=0, position=self.position if requested else due)

    def start_attempt(self, attempt: int, now: float) -> "RunHistory":
        """Return the history after an attempt of the open run was assigned."""
        run = self.run
        if run is None:
            return self
        if run.attempts == 0:
            run = replace(run, started=now, first_attempt=attempt)
        return replace(self, run=replace(run, attempts=run.attempts + 1))

    def end_run(self, outcome: RunOutcome, reason: str, *, now: float, batch_id: int | None) -> "RunHistory":
        """Return the history after the end of the open run. `batch_id` is the last batch that its attempts reported."""
        if self.run is None:
            return self
        batches = None if batch_id is None else max(0, batch_id - (self.batch_id if self.batch_id is not None else -1))
        run = replace(self.run, ended=now, outcome=outcome, reason=reason[:REASON_MAX], batches=batches)
        return replace(
            self,
            run=None,
            ended=(*self.ended, run)[-RUNS_MAX:],
            failed_in_a_row=self.failed_in_a_row + 1 if outcome is RunOutcome.FAILED else 0,
            batch_id=batch_id if batch_id is not None else self.batch_id,
        )

    def skip_due_times(self, schedule: Schedule, now: float) -> "RunHistory":
        """Return the history after all due times up to now were skipped."""
        if schedule.next_due_time(self.position, self.anchor) > now:
            return self
        due = schedule.last_due_time(now, self.anchor)
        return replace(self, position=due, skipped=self.skipped + schedule.count_due_times(self.position, due))

    def next_due_time(self, schedule: Schedule) -> float:
        return schedule.next_due_time(self.position, self.anchor)

    def adapt_to(self, schedule: Schedule, now: float) -> "RunHistory":
        """Return the history for a schedule that an upgrade may have changed and a clock that may have been set back.

        A changed schedule begins now. If the clock is far behind the last due time, an earlier clock was wrong. The schedule
        then continues from now: waiting could take years.
        """
        if self.due_times_text != schedule.due_times_text:
            return replace(self, due_times_text=schedule.due_times_text, anchor=now, position=now)
        if self.position > now + CLOCK_STEP_S_MAX:
            return replace(self, position=now)
        return self


def begin_history(schedule: Schedule, now: float) -> RunHistory:
    """Return the history of a job without any run. The first run of an interval is due at once."""
    position = now if schedule.cron else now - schedule.every_s
    return RunHistory(schedule.due_times_text, anchor=now, position=position)


@dataclass(frozen=True, slots=True)
class DueRun:
    """Due time for which a run can be opened now."""

    due: float
    skipped: int
    """Due times before it that are skipped."""


def find_due_run(history: RunHistory, schedule: Schedule, now: float) -> DueRun | None:
    """Return the due time to run now by the catch-up policy, or None if there is none."""
    following = schedule.next_due_time(history.position, history.anchor)
    if following > now:
        return None
    last = schedule.last_due_time(now, history.anchor)
    if schedule.catch_up is CatchUp.NONE and now - last > LATE_S_MAX:
        return None
    missed = schedule.count_due_times(history.position, last) - 1
    if schedule.catch_up is not CatchUp.ALL:
        return DueRun(last, missed)
    due, skipped = following, 0
    if missed >= CATCH_UP_MAX:
        due, skipped = last, missed
        for _ in range(CATCH_UP_MAX - 1):
            due, skipped = schedule.last_due_time(due - 0.5, history.anchor), skipped - 1
    return DueRun(due, skipped)
