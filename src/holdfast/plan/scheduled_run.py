"""Decisions about the runs of a scheduled job: when the next one begins, and how a job continues after one.

A run is opened in the transaction that assigns its first attempt, or that records why it waits for a node. The state then
contains the due time, so each due time has one run, whichever leader decides. While a run is open, no other run begins.
"""

from dataclasses import dataclass, replace

from holdfast.errors import Refused
from holdfast.model.job import NO_FAILURES, Desired, JobState, Outcome, Report
from holdfast.model.phase import Phase
from holdfast.model.plural import format_count
from holdfast.model.restart_strategy import FixedDelay, parse_strategy
from holdfast.model.schedule.due_times import CatchUp, Schedule
from holdfast.model.schedule.runs import RunHistory, RunOutcome, begin_history, find_due_run
from holdfast.plan.command import Command, UpdateState
from holdfast.plan.snapshot import JobView
from holdfast.plan.state_change import STOPPED_REASON, StateChanger

RETRY_S = 60.0
"""Time until the leader evaluates a schedule again that it could not evaluate."""


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """The open run of a job, or the next one."""

    changer: StateChanger
    schedule: Schedule
    restart: str
    """Restart strategy of the job, which applies within each run."""

    @property
    def _job(self) -> JobView:
        return self.changer.job

    @property
    def _wall(self) -> float:
        return self.changer.now.wall

    def prepare(self, state: JobState) -> JobState | Command | None:
        """Return the state with an open run, from which an attempt can be assigned.

        If the job must wait, return the command that records it, or None if it is recorded.
        """
        if self._is_still_waiting(state):
            return None
        runs = (state.runs or begin_history(self.schedule, self._wall)).adapt_to(self.schedule, self._wall)
        try:
            return self._open_run(state, runs)
        except Refused as error:
            reason = f"the next run cannot be determined: {error}"
            return self.changer.change(state, Phase.SCHEDULED, reason, not_before=self._wall + RETRY_S, runs=runs)

    def _is_still_waiting(self, state: JobState) -> bool:
        """Return True if an earlier pass has computed the next due time, and it is still in the future."""
        runs = state.runs
        if state.phase is not Phase.SCHEDULED or runs is None or self._wall >= state.not_before or self._is_requested(state):
            return False
        return runs.adapt_to(self.schedule, self._wall) == runs

    def _is_requested(self, state: JobState) -> bool:
        return self._job.run_now and self._job.desired_version > state.heard

    def _open_run(self, state: JobState, runs: RunHistory) -> JobState | Command:
        if runs.run is not None:
            if not self._gives_way(state, runs):
                return replace(state, runs=runs)
            reason = f"gave way to the next run: {state.reason}"
            runs = runs.end_run(RunOutcome.FAILED, reason, now=self._wall, batch_id=self._batch_id)
            if self._is_limit_reached(runs):
                return self._park(state, runs, state.reason)
        if self._is_requested(state):
            return _with_new_run(state, runs.open_run(self._wall, requested=True))
        found = find_due_run(runs, self.schedule, self._wall)
        if found is not None:
            return _with_new_run(state, runs.open_run(found.due, skipped=found.skipped))
        return self._wait(state, runs)

    def _gives_way(self, state: JobState, runs: RunHistory) -> bool:
        """Return True if the open run waits for another try after a failure of the job, and the next run is due.

        A strategy with a fixed number of restarts ends the run by itself. Any other one could block the schedule for ever.
        A lost attempt may have finished the run, and only the next attempt of the same run can find that out.
        """
        if isinstance(parse_strategy(self.restart), FixedDelay):
            return False
        report, attempts = self._job.report, runs.run.attempts if runs.run is not None else 0
        if state.phase is not Phase.BACKOFF or attempts == 0 or not isinstance(report, Report):
            return False
        outcome = report.outcome if report.attempt == state.attempt else None
        has_failed = outcome is not None and outcome.ending.is_job_failure
        return has_failed and find_due_run(runs, self.schedule, self._wall) is not None

    def _wait(self, state: JobState, runs: RunHistory) -> Command:
        """Return the command to wait for the next run. Without catch-up, the due times that passed are skipped."""
        before, last = runs.skipped, _describe_last(runs)
        try:
            if self.schedule.catch_up is CatchUp.NONE:
                runs = runs.skip_due_times(self.schedule, self._wall)
            due = runs.next_due_time(self.schedule)
            skipped = f"{format_count(runs.skipped - before, 'run')} skipped; " if runs.skipped > before else ""
            following = f"next run at {self.schedule.format_due_time(due)}" if due > self._wall else "the next run is due"
            reason = f"{last}{skipped}{following}"
        except Refused as error:
            due, reason = self._wall + RETRY_S, f"{last}the next run cannot be determined: {error}"
        return self.changer.change(state, Phase.SCHEDULED, reason, not_before=due, runs=runs)

    # The end of an attempt

    def end(self, command: Command, state: JobState, outcome: Outcome, desired: Desired) -> Command:
        """Return the command after an attempt has ended: the end of a run does not end the job.

        `command` is the command for a job without a schedule.
        """
        if not isinstance(command, UpdateState) or command.state.phase not in (Phase.FINISHED, Phase.FAILED):
            return command
        finished = command.state.phase is Phase.FINISHED
        state = replace(state, versions=state.versions.accept()) if finished else state
        return self._end_run(state, command.reason, finished=finished, desired=desired)

    def _end_run(self, state: JobState, reason: str, *, finished: bool, desired: Desired) -> Command:
        runs = state.runs or begin_history(self.schedule, self._wall)
        if runs.run is None:  # the job got its schedule, or lost its state, while this attempt was alive
            runs = runs.open_run(self._wall, requested=True).start_attempt(state.attempt, self._wall)
        result = RunOutcome.FINISHED if finished else RunOutcome.FAILED
        runs = runs.end_run(result, reason, now=self._wall, batch_id=self._batch_id)
        if desired is Desired.STOP:
            return self.changer.change(state, Phase.PARKED, STOPPED_REASON, failures=NO_FAILURES, losses=0, runs=runs)
        if self._is_limit_reached(runs):
            return self._park(state, runs, reason)
        return self._wait(replace(state, failures=NO_FAILURES, last_failure=None, losses=0, lost_on=()), runs)

    def _is_limit_reached(self, runs: RunHistory) -> bool:
        return 0 < self.schedule.park_after <= runs.failed_in_a_row

    def _park(self, state: JobState, runs: RunHistory, reason: str) -> Command:
        count = format_count(runs.failed_in_a_row, "run")
        reason = f"{count} in a row failed: {reason}; 'holdfast resume' continues the schedule"
        return self.changer.change(state, Phase.PARKED, reason, failures=NO_FAILURES, runs=runs)

    @property
    def _batch_id(self) -> int | None:
        report = self._job.report
        progress = report.progress if isinstance(report, Report) else None
        return progress.batch_id if progress is not None else None


def resume_schedule(state: JobState, schedule: Schedule | None, now: float) -> RunHistory | None:
    """Return the runs of a job that a user resumes. Due times that passed meanwhile are skipped; an open run continues."""
    if state.runs is None or schedule is None:
        return None
    runs = replace(state.runs, failed_in_a_row=0)
    try:
        return runs.adapt_to(schedule, now).skip_due_times(schedule, now)
    except Refused:
        return runs


def _with_new_run(state: JobState, runs: RunHistory) -> JobState:
    """Return the state from which the first attempt of a run is assigned. Failures of earlier runs do not count."""
    return replace(state, runs=runs, failures=NO_FAILURES, not_before=0.0)


def describe_run(runs: RunHistory | None, schedule: Schedule | None) -> str:
    """Return the part of an attempt's reason that names its run; empty for a job without a schedule."""
    if runs is None or runs.run is None or schedule is None:
        return ""
    run = runs.run
    origin = "requested by a user" if run.requested else f"due at {schedule.format_due_time(run.due)}"
    again = f", attempt {run.attempts} of the run" if run.attempts > 1 else ""
    return f", for run {run.number}, {origin}{again}"


def _describe_last(runs: RunHistory) -> str:
    last = runs.last
    if last is None or last.outcome is None:
        return ""
    if last.outcome is RunOutcome.FINISHED:
        return f"run {last.number} finished; "
    in_a_row = f" ({runs.failed_in_a_row} in a row)" if runs.failed_in_a_row > 1 else ""
    return f"run {last.number} failed{in_a_row}: {last.reason}; "
