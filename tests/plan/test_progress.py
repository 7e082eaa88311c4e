"""A script that never makes progress fails; one that does restarts for ever. The state remembers the last failure."""

from dataclasses import replace

import pytest

from holdfast.model.failure_history import HEALTHY_S, FailureHistory, LastFailure
from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import Desired, Ending, JobState, Outcome, Progress, Report, Spec
from holdfast.model.phase import Phase
from holdfast.model.versions import Versions
from holdfast.plan import JobView, Launch, NodeView, Now, Snapshot, UpdateState, plan
from holdfast.plan.ended_attempt import FAILURES_WITHOUT_PROGRESS_MAX

JOB, N1 = JobId("j1"), NodeId("n1")
NOW = Now(wall=10_000.0, boot=1000.0)
SPEC = Spec("words", "words.py", "0" * 64, restart_is_default=True)
ALMOST = FailureHistory(in_a_row=9, without_progress=FAILURES_WITHOUT_PROGRESS_MAX - 1)
STATE = JobState(Phase.STARTING, "attempt 3 was assigned to n1", attempt=Attempt(3), node=N1, failures=ALMOST)
FAILED = Outcome(Ending.FAILED, "KeyError: 'word'")
REPORT = Report(Attempt(3), N1, started=9_990.0, nonce="x", outcome=FAILED, dead=True)


def decide(*, state: JobState = STATE, report: Report = REPORT, spec: Spec = SPEC) -> JobState:
    """Return the state after the end of attempt 3."""
    view = JobView(JOB, spec, Desired.RUN, Attempt(3), state, report=report, desired_version=1, lease_gone_since=0.0)
    (command,) = plan(Snapshot(Epoch(7), {JOB: view}, {N1: NodeView(N1, 4)}), NOW)
    assert isinstance(command, UpdateState)
    return command.state


def ended_report(ending: Ending) -> Report:
    return replace(REPORT, outcome=Outcome(ending, "because"))


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.OUT_OF_MEMORY])
@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RUNNING])
def test_script_that_never_made_progress_fails_after_three_failures(ending: Ending, phase: Phase) -> None:
    after = decide(state=replace(STATE, phase=phase), report=ended_report(ending))
    assert after.phase is Phase.FAILED
    assert after.reason == (
        "because; the script failed 3 times and never completed a batch, so it is not started again: correct it and submit it "
        "again, or submit it with a restart strategy, such as --restart exponential"
    )


def test_earlier_failures_are_followed_by_restarts() -> None:
    state = replace(STATE, failures=FailureHistory())
    for count in range(1, FAILURES_WITHOUT_PROGRESS_MAX):
        after = decide(state=state)
        assert (after.phase, after.failures.without_progress) == (Phase.BACKOFF, count)
        state = replace(after, phase=Phase.STARTING)
    assert decide(state=state).phase is Phase.FAILED


def test_chosen_strategy_is_followed_and_so_are_jobs_of_earlier_releases() -> None:
    """Earlier releases did not record whether the strategy was chosen, and promised to restart for ever."""
    assert decide(spec=replace(SPEC, restart_is_default=False)).phase is Phase.BACKOFF


@pytest.mark.parametrize(
    "report",
    [
        replace(REPORT, proven=True),
        replace(REPORT, progress=Progress(batch_id=0)),
        replace(REPORT, started=NOW.wall - HEALTHY_S),
    ],
    ids=["first batch", "progress reported by an earlier release", "ten minutes without a batch"],
)
def test_script_with_progress_restarts_for_ever(report: Report) -> None:
    after = decide(report=report)
    assert (after.phase, after.progressed, after.failures.without_progress) == (Phase.BACKOFF, True, 0)
    again = decide(state=replace(after, phase=Phase.RUNNING, failures=ALMOST))
    assert again.phase is Phase.BACKOFF, "progress is remembered"


@pytest.mark.parametrize("ending", [Ending.LOST, Ending.KILLED])
def test_losses_and_kills_from_outside_do_not_count(ending: Ending) -> None:
    after = decide(report=ended_report(ending))
    assert after.phase in (Phase.PENDING, Phase.BACKOFF)
    assert after.failures.without_progress == ALMOST.without_progress


def test_failed_trial_returns_to_the_previous_version_and_does_not_count() -> None:
    after = decide(state=replace(STATE, versions=Versions(2, fallback=1)))
    assert (after.phase, after.versions, after.failures) == (Phase.PENDING, Versions(1, rejected=2), ALMOST)


def test_new_program_is_counted_from_the_beginning() -> None:
    pending = replace(STATE, phase=Phase.PENDING)
    view = JobView(JOB, SPEC, Desired.RUN, Attempt(3), pending, report=REPORT, spec_version=2, lease_gone_since=0.0)
    (command,) = plan(Snapshot(Epoch(7), {JOB: view}, {N1: NodeView(N1, 4)}), NOW)
    assert isinstance(command, Launch)
    assert command.state.failures == replace(ALMOST, without_progress=0)


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.LOST])
def test_state_remembers_the_failure_until_the_job_stops(ending: Ending) -> None:
    after = decide(state=replace(STATE, failures=FailureHistory()), report=ended_report(ending))
    assert after.last_failure == LastFailure(Attempt(3), NOW.wall, "because", is_loss=ending is Ending.LOST)
    assert decide(state=replace(after, phase=Phase.RUNNING), report=ended_report(Ending.STOPPED)).last_failure is None
    parked = after.transition_to(Phase.PENDING, "waits", wall=0.0, epoch=Epoch(7)).transition_to(
        Phase.PARKED, "stopped", wall=0.0, epoch=Epoch(7)
    )
    assert parked.last_failure is None
