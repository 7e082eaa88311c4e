"""Decisions about the runs of a scheduled job."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import Desired, Ending, JobState, Lease, Outcome, Progress, Report, Spec
from holdfast.model.phase import Phase
from holdfast.model.schedule.due_times import CatchUp, Schedule
from holdfast.model.schedule.runs import CLOCK_STEP_S_MAX, RunOutcome
from holdfast.plan import JobView, Launch, NodeView, Now, Snapshot, UpdateState, plan

JOB, NODE = JobId("j1"), NodeId("n1")
T = 1_000_000.0
EVERY = Schedule(10.0)
NEVER = "never"


class ScheduleScene:
    """One scheduled job and its leader. Each method carries out what the cluster would do."""

    def __init__(self, schedule: Schedule | None = EVERY, *, restart: str = NEVER, wall: float = T) -> None:
        self.wall = wall
        self.slots = 1
        spec = Spec("words", "words.py", "0" * 64, restart=restart, schedule=schedule)
        state = JobState(Phase.PENDING, "submitted, waiting for the leader")
        self.view = JobView(JOB, spec, Desired.RUN, Attempt(0), state)
        self.epoch = 1

    @property
    def state(self) -> JobState:
        assert isinstance(self.view.state, JobState)
        return self.view.state

    def phase(self) -> Phase:
        return self.state.phase

    def step(self) -> Launch | UpdateState | None:
        """Run one pass of the leader and execute its command."""
        nodes = {NODE: NodeView(NODE, self.slots, ends_attempts=True)} if self.slots else {}
        snapshot = Snapshot(Epoch(self.epoch), {JOB: self.view}, nodes)
        commands = plan(snapshot, Now(wall=self.wall, boot=self.wall))
        assert len(commands) <= 1
        if not commands:
            return None
        command = commands[0]
        assert isinstance(command, Launch | UpdateState)
        self.view = replace(self.view, state=command.state, lease_gone_since=self.wall)
        if isinstance(command, Launch):
            self.view = replace(self.view, attempt=command.state.attempt)
        return command

    def settle(self) -> None:
        for _ in range(10):
            if self.step() is None:
                return
        raise AssertionError(f"the leader does not become idle: {self.state}")

    def take_lease(self) -> None:
        self.view = replace(self.view, lease=Lease(self.state.attempt, NODE))
        self.settle()

    def end_attempt(self, ending: Ending, *, batch: int | None = None) -> None:
        """Report the end of the attempt, and let the leader react."""
        assert self.state.phase in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING), self.state.phase
        report = Report(self.state.attempt, NODE, self.wall - 1.0, progress=Progress(batch), dead=True)
        self.view = replace(self.view, lease=None, report=replace(report, outcome=Outcome(ending, f"it {ending}")))
        self.step()

    def request(self, desired: Desired = Desired.RUN, **changes: object) -> None:
        view = replace(self.view, desired=desired, desired_version=self.view.desired_version + 1, run_now=False)
        self.view = replace(view, **changes)  # type: ignore[arg-type]  # any fields

    def wait_until(self, wall: float) -> None:
        self.wall = wall
        self.settle()

    def open_due(self) -> float | None:
        runs = self.state.runs
        return runs.run.due if runs is not None and runs.run is not None else None


def test_runs_follow_each_other_when_they_are_due_and_each_is_an_attempt() -> None:
    scene = ScheduleScene()
    scene.settle()
    assert (scene.phase(), scene.open_due()) == (Phase.STARTING, T)
    assert scene.state.reason == "attempt 1 was assigned to n1, for run 1, due at 1970-01-12 13:46:40 UTC"
    scene.wall = T + 4
    scene.end_attempt(Ending.FINISHED, batch=2)
    assert scene.phase() is Phase.SCHEDULED
    assert scene.state.reason == "run 1 finished; next run at 1970-01-12 13:46:50 UTC"
    assert scene.state.node is None
    scene.wait_until(T + 9.9)
    assert scene.phase() is Phase.SCHEDULED
    scene.wait_until(T + 10.2)
    assert (scene.phase(), scene.open_due(), scene.state.attempt) == (Phase.STARTING, T + 10, 2)
    assert scene.state.restarts == 0, "another run is no restart"
    scene.end_attempt(Ending.FINISHED, batch=2)
    runs = scene.state.runs
    assert runs is not None
    assert [(run.number, run.due, run.outcome, run.attempts, run.batches) for run in runs.ended] == [
        (1, T, RunOutcome.FINISHED, 1, 3),
        (2, T + 10, RunOutcome.FINISHED, 1, 0),
    ]


def test_job_with_a_cron_expression_waits_for_its_first_run() -> None:
    scene = ScheduleScene(Schedule(cron="*/5 * * * *"))
    scene.settle()
    assert scene.phase() is Phase.SCHEDULED
    assert scene.state.reason == "next run at 1970-01-12 13:50:00 UTC"
    scene.wait_until(T + 200)
    assert scene.phase() is Phase.STARTING


def test_restarts_by_the_restart_strategy_belong_to_the_run() -> None:
    scene = ScheduleScene(Schedule(100.0), restart="fixed:1:2s")
    scene.settle()
    scene.end_attempt(Ending.FAILED)
    assert scene.phase() is Phase.BACKOFF
    scene.wait_until(T + 3)
    assert (scene.phase(), scene.open_due(), scene.state.attempt, scene.state.restarts) == (Phase.STARTING, T, 2, 1)
    assert "for run 1, due at 1970-01-12 13:46:40 UTC, attempt 2 of the run" in scene.state.reason
    scene.end_attempt(Ending.FAILED)
    assert scene.phase() is Phase.SCHEDULED, "a failed run does not end the job"
    assert scene.state.reason.startswith("run 1 failed: it failed; the job failed 2 times in a row")
    assert scene.state.failures.in_a_row == 0, "the next run has its own budget"
    scene.wait_until(T + 100)
    assert (scene.phase(), scene.open_due()) == (Phase.STARTING, T + 100)


@pytest.mark.parametrize("ending", [Ending.UNSTARTABLE, Ending.KILLED, Ending.OUT_OF_MEMORY])
def test_run_that_cannot_continue_fails_without_ending_the_job(ending: Ending) -> None:
    scene = ScheduleScene()
    scene.settle()
    scene.end_attempt(ending)
    assert scene.phase() is Phase.SCHEDULED
    assert scene.state.runs is not None and scene.state.runs.last is not None
    assert scene.state.runs.last.outcome is RunOutcome.FAILED


def test_lost_attempt_is_repeated_in_the_same_run() -> None:
    scene = ScheduleScene()
    scene.settle()
    scene.end_attempt(Ending.LOST)
    scene.settle()
    assert (scene.phase(), scene.open_due(), scene.state.attempt) == (Phase.STARTING, T, 2)


def test_job_is_parked_after_a_number_of_failed_runs_in_a_row_and_resumed_with_the_next_run() -> None:
    scene = ScheduleScene(Schedule(10.0, park_after=2))
    scene.settle()
    scene.end_attempt(Ending.FAILED)
    scene.wait_until(T + 10)
    scene.end_attempt(Ending.FAILED)
    assert scene.phase() is Phase.PARKED
    assert scene.state.reason.startswith("2 runs in a row failed: it failed")
    scene.wait_until(T + 55)
    assert scene.phase() is Phase.PARKED
    scene.request()
    scene.settle()
    assert (scene.phase(), scene.state.not_before) == (Phase.SCHEDULED, T + 60)
    scene.wait_until(T + 60)
    scene.end_attempt(Ending.FAILED)
    assert scene.phase() is Phase.SCHEDULED, "the count begins again"


@pytest.mark.parametrize(
    ("policy", "due", "phase"),
    [
        (CatchUp.ONE, T + 30, Phase.STARTING),
        (CatchUp.ALL, T + 10, Phase.STARTING),
        (CatchUp.NONE, None, Phase.SCHEDULED),
    ],
)
def test_runs_never_overlap_and_the_policy_decides_about_the_times_that_passed(
    policy: CatchUp, due: float | None, phase: Phase
) -> None:
    scene = ScheduleScene(Schedule(10.0, catch_up=policy))
    scene.settle()
    scene.take_lease()
    for seconds in range(1, 36):
        scene.wait_until(T + seconds)
        assert (scene.state.attempt, scene.open_due()) == (1, T), "the run is still open"
    scene.end_attempt(Ending.FINISHED)
    scene.settle()
    assert (scene.phase(), scene.open_due()) == (phase, due)
    if policy is CatchUp.NONE:
        assert scene.state.reason == "run 1 finished; 3 runs skipped; next run at 1970-01-12 13:47:20 UTC"


def test_reason_says_that_the_next_run_is_due_if_its_time_has_passed() -> None:
    scene = ScheduleScene()
    scene.settle()
    scene.wall = T + 25
    scene.end_attempt(Ending.FINISHED)
    assert scene.state.reason == "run 1 finished; the next run is due"


def test_fixed_number_of_restarts_is_carried_out_although_the_next_run_is_due() -> None:
    scene = ScheduleScene(Schedule(10.0), restart="fixed:2:15s")
    scene.settle()
    scene.end_attempt(Ending.FAILED)
    scene.wait_until(T + 14)
    assert (scene.phase(), scene.open_due()) == (Phase.BACKOFF, T)
    scene.wait_until(T + 15)
    assert (scene.phase(), scene.open_due(), scene.state.attempt) == (Phase.STARTING, T, 2)


def test_run_that_waits_for_one_of_unlimited_restarts_gives_way_to_the_next_run() -> None:
    scene = ScheduleScene(Schedule(10.0), restart="rate:99:1d:1h")
    scene.settle()
    scene.end_attempt(Ending.FAILED)
    scene.wait_until(T + 9)
    assert (scene.phase(), scene.open_due()) == (Phase.BACKOFF, T)
    scene.wait_until(T + 10)
    assert (scene.phase(), scene.open_due()) == (Phase.STARTING, T + 10)
    assert scene.state.runs is not None and scene.state.runs.last is not None
    assert scene.state.runs.last.outcome is RunOutcome.FAILED
    assert scene.state.runs.last.reason.startswith("gave way to the next run: it failed")


def test_run_whose_attempt_was_lost_does_not_give_way_because_it_may_have_finished() -> None:
    scene = ScheduleScene(Schedule(3.0))
    scene.settle()
    for _ in range(4):
        scene.end_attempt(Ending.LOST)
        scene.settle()
        if scene.phase() is Phase.BACKOFF:
            scene.wait_until(scene.state.not_before)
        assert (scene.phase(), scene.open_due()) == (Phase.STARTING, T)


def test_run_waits_for_free_slots_with_that_reason_and_keeps_its_due_time() -> None:
    scene = ScheduleScene(Schedule(10.0, catch_up=CatchUp.NONE))
    scene.slots = 0
    scene.settle()
    assert (scene.phase(), scene.open_due()) == (Phase.PENDING, T)
    assert scene.state.reason == "waiting for free slots: no node is registered"
    scene.wait_until(T + 500)
    scene.slots = 1
    scene.settle()
    assert (scene.phase(), scene.open_due()) == (Phase.STARTING, T)


def test_waiting_job_occupies_no_slots() -> None:
    scene = ScheduleScene()
    scene.settle()
    scene.end_attempt(Ending.FINISHED)
    other = JobView(JobId("j2"), Spec("b", "b.py", "0" * 64), Desired.RUN, Attempt(0), JobState(Phase.PENDING, "new"))
    snapshot = Snapshot(Epoch(1), {JOB: scene.view, other.id: other}, {NODE: NodeView(NODE, 1)})
    (command,) = plan(snapshot, Now(wall=T + 1, boot=0.0))
    assert isinstance(command, Launch) and command.job == "j2"


def test_job_that_waits_longer_gets_the_free_slot_before_a_job_that_is_due_now() -> None:
    scene = ScheduleScene()
    scene.settle()
    scene.end_attempt(Ending.FINISHED)
    waiting = JobState(Phase.PENDING, "new").transition_to(Phase.PENDING, "no room", wall=T - 50, epoch=Epoch(1))
    other = JobView(JobId("j2"), Spec("b", "b.py", "0" * 64), Desired.RUN, Attempt(0), waiting)
    snapshot = Snapshot(Epoch(1), {JOB: scene.view, other.id: other}, {NODE: NodeView(NODE, 1)})
    first = next(each for each in plan(snapshot, Now(wall=T + 10, boot=0.0)) if isinstance(each, Launch))
    assert first.job == "j2"


def test_stop_during_a_run_parks_it_and_resume_continues_the_same_run() -> None:
    scene = ScheduleScene()
    scene.settle()
    scene.request(Desired.STOP)
    scene.end_attempt(Ending.STOPPED)
    assert scene.phase() is Phase.PARKED
    scene.wait_until(T + 35)
    scene.request()
    scene.settle()
    assert (scene.phase(), scene.open_due(), scene.state.attempt) == (Phase.STARTING, T, 2)
    scene.end_attempt(Ending.FINISHED)
    assert (scene.phase(), scene.state.not_before) == (Phase.SCHEDULED, T + 40), "due times during the stop are skipped"


def test_stop_between_runs_ends_the_schedule_until_the_job_is_resumed() -> None:
    scene = ScheduleScene()
    scene.settle()
    scene.end_attempt(Ending.FINISHED)
    scene.request(Desired.STOP)
    scene.settle()
    scene.wait_until(T + 100)
    assert scene.phase() is Phase.PARKED
    scene.request()
    scene.settle()
    assert (scene.phase(), scene.state.not_before) == (Phase.SCHEDULED, T + 110)


def test_run_that_finished_although_the_job_was_to_stop_counts() -> None:
    scene = ScheduleScene()
    scene.settle()
    scene.request(Desired.STOP)
    scene.end_attempt(Ending.FINISHED)
    assert scene.phase() is Phase.PARKED
    assert scene.state.runs is not None and scene.state.runs.run is None
    assert scene.state.runs.last is not None and scene.state.runs.last.outcome is RunOutcome.FINISHED


def test_cancel_between_runs_is_final() -> None:
    scene = ScheduleScene()
    scene.settle()
    scene.end_attempt(Ending.FINISHED)
    scene.request(Desired.CANCEL)
    scene.wait_until(T + 100)
    assert scene.phase() is Phase.CANCELLED


def test_restart_between_runs_starts_a_run_at_once_and_keeps_the_schedule() -> None:
    scene = ScheduleScene()
    scene.settle()
    scene.end_attempt(Ending.FINISHED)
    scene.wall = T + 3
    scene.request(run_now=True)
    scene.settle()
    assert (scene.phase(), scene.open_due()) == (Phase.STARTING, T + 3)
    assert "for run 2, requested by a user" in scene.state.reason
    scene.end_attempt(Ending.FINISHED)
    assert (scene.phase(), scene.state.not_before) == (Phase.SCHEDULED, T + 10)
    scene.settle()
    assert scene.state.attempt == 2, "the request was carried out once"


def test_upgrade_between_runs_waits_for_the_next_run() -> None:
    scene = ScheduleScene()
    scene.settle()
    scene.end_attempt(Ending.FINISHED)
    scene.request(spec_version=2)
    scene.wait_until(T + 9)
    assert scene.phase() is Phase.SCHEDULED
    scene.wait_until(T + 10)
    assert scene.state.versions.current == 2 and scene.state.versions.on_trial
    scene.end_attempt(Ending.FINISHED)
    assert not scene.state.versions.on_trial, "a finished run proves the version"


def test_version_that_fails_before_its_first_batch_is_rolled_back_within_the_run() -> None:
    scene = ScheduleScene()
    scene.settle()
    scene.end_attempt(Ending.FINISHED)
    scene.request(spec_version=2)
    scene.wait_until(T + 10)
    scene.end_attempt(Ending.FAILED)
    scene.settle()
    assert (scene.state.versions.current, scene.open_due(), scene.phase()) == (1, T + 10, Phase.STARTING)


def test_upgrade_to_another_schedule_begins_it_anew() -> None:
    scene = ScheduleScene()
    scene.settle()
    scene.end_attempt(Ending.FINISHED)
    scene.wall = T + 4
    scene.request(spec=replace(scene.view.spec, schedule=Schedule(60.0)))  # type: ignore[type-var]  # the spec exists
    scene.settle()
    assert (scene.phase(), scene.state.not_before) == (Phase.SCHEDULED, T + 64)


def test_job_without_its_schedule_any_more_runs_to_its_end() -> None:
    scene = ScheduleScene()
    scene.settle()
    scene.end_attempt(Ending.FINISHED)
    scene.request(spec=replace(scene.view.spec, schedule=None))  # type: ignore[type-var]  # the spec exists
    scene.settle()
    assert scene.phase() is Phase.STARTING
    scene.end_attempt(Ending.FINISHED)
    assert scene.phase() is Phase.FINISHED


def test_running_job_that_gets_a_schedule_does_not_end_with_its_attempt() -> None:
    scene = ScheduleScene(None)
    scene.settle()
    scene.request(spec=replace(scene.view.spec, schedule=EVERY))  # type: ignore[type-var]  # the spec exists
    scene.end_attempt(Ending.FINISHED)
    assert scene.phase() is Phase.SCHEDULED
    scene.wait_until(T + 10)
    assert scene.phase() is Phase.STARTING


def test_finding_that_needs_an_operator_parks_the_job_within_its_run() -> None:
    scene = ScheduleScene()
    scene.settle()
    scene.end_attempt(Ending.DATA_LOSS)
    assert (scene.phase(), scene.open_due()) == (Phase.PARKED, T)


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.SCHEDULED])
def test_schedule_that_this_machine_cannot_evaluate_is_the_reason_and_is_tried_again(phase: Phase) -> None:
    scene = ScheduleScene(Schedule(cron="0 3 * * *", timezone="Mars/Olympus"))
    scene.view = replace(scene.view, state=replace(scene.state, phase=phase))
    scene.settle()
    assert scene.phase() is Phase.SCHEDULED
    assert "no time zone 'Mars/Olympus'" in scene.state.reason
    assert scene.state.not_before > T


def test_run_ends_even_if_the_next_one_cannot_be_determined() -> None:
    scene = ScheduleScene()
    scene.settle()
    broken = Schedule(cron="0 3 * * *", timezone="Mars/Olympus")
    scene.view = replace(scene.view, spec=replace(scene.view.spec, schedule=broken))  # type: ignore[type-var]  # the spec exists
    scene.end_attempt(Ending.FINISHED)
    assert scene.state.runs is not None and scene.state.runs.run is None
    scene.wait_until(T + 1000)
    assert scene.state.attempt == 1


endings = st.sampled_from([*Ending])
actions = st.lists(
    st.one_of(
        st.tuples(st.just("clock"), st.floats(-30.0, 90.0)),
        st.tuples(st.just("end"), endings),
        st.tuples(st.just("desired"), st.sampled_from([Desired.RUN, Desired.RUN, Desired.STOP])),
        st.tuples(st.just("run now"), st.none()),
        st.tuples(st.just("slots"), st.integers(0, 1)),
        st.tuples(st.just("leader"), st.none()),
    ),
    max_size=60,
)
schedules = st.builds(
    Schedule, every_s=st.sampled_from([1.0, 10.0, 45.0]), catch_up=st.sampled_from(CatchUp), park_after=st.sampled_from([0, 3])
) | st.builds(Schedule, cron=st.just("* * * * *"), catch_up=st.sampled_from(CatchUp))


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(schedules, st.sampled_from(["never", "fixed:1:5s", "exponential"]), actions)
def test_no_time_runs_twice_no_runs_overlap_and_the_schedule_goes_on(
    schedule: Schedule, restart: str, script: list[tuple[str, object]]
) -> None:
    """Invariant 25, for one job and arbitrary endings, requests and clocks."""
    scene = ScheduleScene(schedule, restart=restart)
    opened: dict[int, float] = {}
    latest = scene.wall
    for action, value in script:
        match action:
            case "clock":
                assert isinstance(value, float)
                scene.wall = max(scene.wall + value, latest - CLOCK_STEP_S_MAX)
                latest = max(latest, scene.wall)
            case "end":
                assert isinstance(value, Ending)
                if scene.phase().occupies_slots:
                    scene.end_attempt(value)
            case "desired":
                assert isinstance(value, Desired)
                scene.request(value)
            case "run now":
                if scene.view.desired is Desired.RUN:
                    scene.request(run_now=True)
            case "slots":
                assert isinstance(value, int)
                scene.slots = value
            case "leader":
                scene.epoch += 1
        scene.settle()
        _check(scene, opened)
    scene.request()
    scene.slots, scene.wall = 1, max(latest, scene.wall) + 100.0
    scene.settle()
    number = max(opened, default=0)
    for _ in range(3):
        if scene.phase().occupies_slots:
            scene.end_attempt(Ending.FINISHED)
        scene.wall += 100.0
        scene.settle()
    assert scene.state.runs is not None
    assert scene.state.runs.number > number, "the schedule has ended"


def _check(scene: ScheduleScene, opened: dict[int, float]) -> None:
    runs = scene.state.runs
    assert not scene.phase().final
    if scene.phase().occupies_slots:
        assert runs is not None and runs.run is not None, "an attempt without a run"
    if runs is None or runs.run is None:
        return
    run = runs.run
    assert opened.setdefault(run.number, run.due) == run.due
    times = [due for number, due in opened.items() if not _is_requested(scene, number)]
    assert run.number == max(opened)
    assert run.requested or times == sorted(set(times)), "a due time has two runs"


_requested: set[tuple[int, int]] = set()


def _is_requested(scene: ScheduleScene, number: int) -> bool:
    runs = scene.state.runs
    assert runs is not None
    for run in (*runs.ended, runs.run):
        if run is not None and run.number == number and run.requested:
            _requested.add((id(scene), number))
    return (id(scene), number) in _requested
