"""Record of the runs of a scheduled job, kept in the job's state.

A run belongs to one slot of the schedule and has one or more attempts. `slot` is written in the same transaction that opens
the run, so no leader opens a second run for the slot.
"""

import enum
from dataclasses import dataclass, replace

from holdfast.model.schedule.slots import CatchUp, Schedule

RUNS_MAX = 30
"""Ended runs that the job's state keeps."""
REASON_MAX = 200
LATE_S_MAX = 60.0
"""Delay up to which a slot counts as on time for the policy `none`, for example after a change of leader."""
CATCH_UP_MAX = 100
"""Slots that the policy `all` makes up for. Earlier ones are skipped."""
CLOCK_STEP_S_MAX = 3600.0
"""Step back of the wall clock up to which the schedule waits until the clock has passed its last slot again."""


class RunOutcome(enum.StrEnum):
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a scheduled job. All times are wall times."""

    number: int
    due: float
    """Slot of the run, or the time at which a user asked for it."""
    requested: bool = False
    """True if a user asked for this run, outside of the schedule."""
    skipped: int = 0
    """Slots that were skipped between the previous run and this one."""
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

    slots_text: str
    """`Schedule.slots_text` of the schedule that `anchor` and `slot` belong to."""
    anchor: float
    slot: float
    """Last slot that has a run or was skipped."""
    run: Run | None = None
    """Open run: its attempt runs, will be repeated, or waits for a node."""
    ended: tuple[Run, ...] = ()
    """Last ended runs, the newest last."""
    number: int = 0
    """Number of the last run."""
    skipped: int = 0
    """Slots that were skipped since the last run was opened."""
    failed_in_a_row: int = 0
    batch_id: int | None = None
    """Last batch that a run has reported."""

    @property
    def last(self) -> Run | None:
        return self.ended[-1] if self.ended else None

    def open_run(self, due: float, *, skipped: int = 0, requested: bool = False) -> "RunHistory":
        """Return the history with a new run. A run that a user asked for leaves the position in the schedule as it is."""
        number = self.number + 1
        run = Run(number, due, requested=requested, skipped=self.skipped + skipped)
        return replace(self, run=run, number=number, skipped=0, slot=self.slot if requested else due)

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

    def skip_slots(self, schedule: Schedule, now: float) -> "RunHistory":
        """Return the history after all slots up to now were skipped."""
        if schedule.next_slot(self.slot, self.anchor) > now:
            return self
        slot = schedule.last_slot(now, self.anchor)
        return replace(self, slot=slot, skipped=self.skipped + schedule.count_slots(self.slot, slot))

    def next_slot(self, schedule: Schedule) -> float:
        return schedule.next_slot(self.slot, self.anchor)

    def follow(self, schedule: Schedule, now: float) -> "RunHistory":
        """Return the history for a schedule that an upgrade may have changed, and for a clock that may have been set back.

        A changed schedule begins now. If the clock is far behind the last slot, an earlier clock was wrong. The schedule then
        continues from now: waiting could take years.
        """
        if self.slots_text != schedule.slots_text:
            return replace(self, slots_text=schedule.slots_text, anchor=now, slot=now)
        if self.slot > now + CLOCK_STEP_S_MAX:
            return replace(self, slot=now)
        return self


def begin_history(schedule: Schedule, now: float) -> RunHistory:
    """Return the history of a job without any run. The first run of an interval is due at once."""
    slot = now if schedule.cron else now - schedule.every_s
    return RunHistory(schedule.slots_text, anchor=now, slot=slot)


@dataclass(frozen=True, slots=True)
class DueSlot:
    """Slot for which a run can be opened now."""

    slot: float
    skipped: int
    """Slots before it that are skipped."""


def find_due_slot(history: RunHistory, schedule: Schedule, now: float) -> DueSlot | None:
    """Return the slot to run now by the catch-up policy, or None if there is none."""
    following = schedule.next_slot(history.slot, history.anchor)
    if following > now:
        return None
    last = schedule.last_slot(now, history.anchor)
    if schedule.catch_up is CatchUp.NONE and now - last > LATE_S_MAX:
        return None
    missed = schedule.count_slots(history.slot, last) - 1
    if schedule.catch_up is not CatchUp.ALL:
        return DueSlot(last, missed)
    slot, skipped = following, 0
    if missed >= CATCH_UP_MAX:
        slot, skipped = last, missed
        for _ in range(CATCH_UP_MAX - 1):
            slot, skipped = schedule.last_slot(slot - 0.5, history.anchor), skipped - 1
    return DueSlot(slot, skipped)
