"""Record of runs: which run is due by the catch-up policy, and what is counted."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.codec import decode, encode
from holdfast.model.job import JobState
from holdfast.model.phase import Phase
from holdfast.model.schedule.due_times import CatchUp, Schedule
from holdfast.model.schedule.runs import (
    CATCH_UP_MAX,
    CLOCK_STEP_S_MAX,
    RUNS_MAX,
    DueRun,
    RunHistory,
    RunOutcome,
    begin_history,
    find_due_run,
)

EVERY = Schedule(10.0)
T = 1_000_000.0
HISTORY = replace(begin_history(EVERY, T), position=T)
"""History whose last due time is T."""


def with_policy(policy: CatchUp) -> Schedule:
    return replace(EVERY, catch_up=policy)


def test_first_run_of_an_interval_is_due_at_once_and_of_a_cron_expression_at_its_next_time() -> None:
    assert find_due_run(begin_history(EVERY, T), EVERY, T) == DueRun(T, 0)
    cron = Schedule(cron="0 0 * * *")
    assert find_due_run(begin_history(cron, T), cron, T) is None
    assert begin_history(cron, T).next_due_time(cron) == 1_036_800.0


@pytest.mark.parametrize("policy", CatchUp)
def test_run_is_due_from_its_time_on(policy: CatchUp) -> None:
    assert find_due_run(HISTORY, with_policy(policy), T + 9.9) is None
    assert find_due_run(HISTORY, with_policy(policy), T + 10.0) == DueRun(T + 10, 0)


def test_policy_decides_about_times_that_passed() -> None:
    assert find_due_run(HISTORY, with_policy(CatchUp.ONE), T + 45) == DueRun(T + 40, 3)
    assert find_due_run(HISTORY, with_policy(CatchUp.ALL), T + 45) == DueRun(T + 10, 0)
    assert find_due_run(HISTORY, with_policy(CatchUp.NONE), T + 45) == DueRun(T + 40, 3), "it is only 5 s late"
    hourly = Schedule(3600.0, catch_up=CatchUp.NONE)
    history = replace(begin_history(hourly, T), position=T)
    assert find_due_run(history, hourly, T + 3600 + 59) == DueRun(T + 3600, 0)
    assert find_due_run(history, hourly, T + 3600 + 61) is None
    assert history.skip_due_times(hourly, T + 3600 + 61).next_due_time(hourly) == T + 7200
    assert history.skip_due_times(hourly, T + 2 * 3600 + 61).skipped == 2


def test_catching_up_all_times_is_bounded() -> None:
    due = find_due_run(HISTORY, with_policy(CatchUp.ALL), T + 10 * (CATCH_UP_MAX + 50))
    assert due == DueRun(T + 10 * 51, 50)


def test_run_that_a_user_asked_for_leaves_the_position_in_the_schedule() -> None:
    runs = HISTORY.open_run(T + 3.0, requested=True)
    assert (runs.position, runs.number) == (T, 1)
    assert runs.end_run(RunOutcome.FINISHED, "done", now=T + 5, batch_id=None).next_due_time(EVERY) == T + 10


def test_skipped_runs_are_counted_in_the_next_run() -> None:
    runs = HISTORY.skip_due_times(EVERY, T + 25).open_run(T + 40, skipped=1)
    assert runs.run is not None
    assert (runs.run.skipped, runs.skipped) == (3, 0)


def test_batches_of_a_run_are_counted_from_the_last_batch_of_earlier_runs() -> None:
    runs = HISTORY.open_run(T).end_run(RunOutcome.FINISHED, "", now=T, batch_id=None)
    assert runs.last is not None and runs.last.batches is None
    runs = runs.open_run(T + 10).end_run(RunOutcome.FINISHED, "", now=T, batch_id=2)
    assert runs.last is not None and runs.last.batches == 3
    runs = runs.open_run(T + 20).end_run(RunOutcome.FINISHED, "", now=T, batch_id=2)
    assert runs.last is not None and runs.last.batches == 0


def test_history_is_bounded_and_its_record_is_decoded_again() -> None:
    runs = HISTORY
    for number in range(RUNS_MAX + 5):
        runs = runs.open_run(T + 10 * number).start_attempt(number + 1, T).start_attempt(number + 2, T)
        runs = runs.end_run(RunOutcome.FAILED, "x" * 1000, now=T, batch_id=number)
    assert (len(runs.ended), runs.number, runs.failed_in_a_row) == (RUNS_MAX, RUNS_MAX + 5, RUNS_MAX + 5)
    state = JobState(Phase.SCHEDULED, "so", runs=runs.open_run(T + 1000))
    data = encode(state)
    assert decode(JobState, data, where="state") == state
    assert len(data) < 20_000


def test_changed_schedule_begins_now_and_a_clock_that_was_years_ahead_does_not_stop_it() -> None:
    hourly = Schedule(3600.0)
    assert HISTORY.adapt_to(hourly, T + 5).next_due_time(hourly) == T + 3605
    assert HISTORY.adapt_to(replace(EVERY, catch_up=CatchUp.ALL, park_after=3), T + 5) == HISTORY
    ahead = replace(HISTORY, position=T + 10 * 365 * 86400)
    assert ahead.adapt_to(EVERY, T).next_due_time(EVERY) == T + 10
    slightly_ahead = replace(HISTORY, position=T + CLOCK_STEP_S_MAX)
    assert slightly_ahead.adapt_to(EVERY, T) == slightly_ahead


schedules = st.builds(
    Schedule, every_s=st.sampled_from([1.0, 7.5, 60.0, 3600.0]), catch_up=st.sampled_from(CatchUp)
) | st.builds(
    Schedule,
    cron=st.sampled_from(["* * * * *", "*/7 * * * *", "30 2 * * *", "0 0 1 * *"]),
    timezone=st.sampled_from(["UTC", "Europe/Berlin"]),
    catch_up=st.sampled_from(CatchUp),
)
steps = st.lists(st.tuples(st.floats(-1000.0, 7200.0), st.booleans()), max_size=30)


@settings(deadline=None)
@given(schedules, steps)
def test_due_times_only_grow_and_none_runs_twice_while_the_clock_jumps(
    schedule: Schedule, passes: list[tuple[float, bool]]
) -> None:
    """Each pass moves the clock, and a run that is due is opened. The total step back stays below the documented limit."""
    now = latest = 1_774_700_000.0  # just before the clocks go forward in Berlin
    history: RunHistory = begin_history(schedule, now)
    times: list[float] = []
    position = history.position
    for step_s, skips in passes:
        now = max(now + step_s, latest - CLOCK_STEP_S_MAX)
        latest = max(latest, now)
        history = history.adapt_to(schedule, now)
        due = find_due_run(history, schedule, now)
        if due is not None:
            assert due.due <= now and due.skipped >= 0
            times.append(due.due)
            history = history.open_run(due.due, skipped=due.skipped).end_run(RunOutcome.FINISHED, "", now=now, batch_id=None)
        elif skips:
            history = history.skip_due_times(schedule, now)
        assert history.position >= position
        position = history.position
        assert history.next_due_time(schedule) > history.position
    assert times == sorted(set(times))
