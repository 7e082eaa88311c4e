"""Properties of the planner, for arbitrary snapshots."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.model.codec import NewerRecord, UnreadableRecord
from holdfast.model.failure_history import FailureHistory
from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import Desired, Ending, Event, JobState, Lease, Outcome, Report, Spec
from holdfast.model.phase import TRANSITIONS, Phase
from holdfast.model.schedule.due_times import CatchUp, Schedule
from holdfast.model.schedule.runs import RunHistory, RunOutcome, begin_history
from holdfast.model.versions import Versions
from holdfast.plan import (
    Command,
    EndAttempt,
    JobView,
    Launch,
    NodeView,
    Now,
    Quarantine,
    Snapshot,
    UpdateState,
    WithdrawOrder,
    plan,
)

pytestmark = pytest.mark.slow  # each property needs about a second

NODES = [NodeId(name) for name in ("a", "b", "c")]
JOBS = [JobId(f"j{number}") for number in range(4)]
NOW = Now(wall=10_000.0, boot=500.0)

unreadable = st.sampled_from([UnreadableRecord("noise"), UnreadableRecord("noise"), NewerRecord("later")])
attempts = st.integers(0, 3).map(Attempt)
nodes = st.sampled_from(NODES)
walls = st.floats(0, 20_000)
schedules = st.builds(
    Schedule,
    every_s=st.sampled_from([1.0, 60.0, 5000.0]),
    catch_up=st.sampled_from(CatchUp),
    park_after=st.sampled_from([0, 1]),
)


@st.composite
def histories(draw: st.DrawFn) -> RunHistory:
    history = begin_history(draw(schedules), draw(walls))
    for _ in range(draw(st.integers(0, 2))):
        history = history.open_run(draw(walls)).start_attempt(1, draw(walls))
        history = history.end_run(
            draw(st.sampled_from(RunOutcome)), "so", now=draw(walls), batch_id=draw(st.none() | st.just(3))
        )
    return history.open_run(draw(walls)) if draw(st.booleans()) else history


specs = st.builds(
    Spec,
    name=st.just("job"),
    script=st.just("job.py"),
    blob=st.just("0" * 64),
    slots=st.integers(1, 3),
    restart=st.sampled_from(["never", "exponential", "fixed:2:5s", "rate:2:1m:1s"]),
    restart_is_default=st.booleans(),
    schedule=st.none() | schedules,
)
leases = st.builds(Lease, attempt=st.integers(1, 3).map(Attempt), node=nodes, starting=st.booleans())
outcomes = st.builds(Outcome, st.sampled_from(Ending), st.just("because"))
reports = st.builds(
    Report,
    attempt=st.integers(1, 3).map(Attempt),
    node=nodes,
    started=walls,
    failsafe=st.lists(nodes, unique=True, max_size=2).map(tuple),
    outcome=st.none() | outcomes,
    dead=st.booleans(),
    proven=st.booleans(),
)
versions = st.builds(Versions, current=st.integers(1, 2), fallback=st.sampled_from([0, 3]), rejected=st.sampled_from([0, 4]))


@st.composite
def states(draw: st.DrawFn) -> JobState:
    phase = draw(st.sampled_from(Phase))
    attempt = draw(attempts)
    events = tuple(
        Event(number + 1, float(number), draw(st.sampled_from(Phase)), "so", attempt, None, Epoch(1))
        for number in range(draw(st.integers(0, 3)))
    )
    return JobState(
        phase,
        "so",
        attempt=attempt,
        node=draw(st.none() | nodes),
        restarts=draw(st.integers(0, 5)),
        failures=FailureHistory(draw(st.integers(0, 5)), tuple(draw(st.lists(walls, max_size=4))), draw(st.integers(0, 3))),
        progressed=draw(st.booleans()),
        losses=draw(st.integers(0, 4)),
        lost_on=tuple(draw(st.lists(nodes, unique=True, max_size=3))),
        heard=draw(st.integers(0, 3)),
        not_before=draw(walls),
        versions=draw(versions),
        events=events,
        runs=draw(st.none() | histories()),
    )


@st.composite
def views(draw: st.DrawFn, id: JobId) -> JobView:
    lease = draw(st.none() | leases | unreadable)
    return JobView(
        id=id,
        spec=draw(specs | specs | unreadable | st.none()),
        desired=draw(st.sampled_from(Desired) | unreadable | st.none()),
        attempt=draw(attempts),
        state=draw(states() | states() | unreadable | st.none()),
        lease=lease,
        report=draw(st.none() | reports | unreadable),
        desired_version=draw(st.integers(0, 3)),
        force=draw(st.booleans()),
        run_now=draw(st.booleans()),
        spec_version=draw(st.integers(1, 4)),
        complete=draw(st.booleans()),
        owns_name=draw(st.booleans()),
        newer_name=draw(st.sampled_from([None, None, None, NewerRecord("later")])),
        lease_gone_since=None if lease is not None else draw(st.none() | st.floats(400, 500)),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    ids = draw(st.lists(st.sampled_from(JOBS), unique=True, max_size=4))
    present = draw(st.lists(nodes, unique=True, max_size=3))
    return Snapshot(
        epoch=Epoch(7),
        jobs={id: draw(views(id)) for id in ids},
        nodes={
            id: NodeView(
                id,
                draw(st.integers(1, 4)),
                health=draw(st.sampled_from(["", "its disk is full"])),
                ends_attempts=draw(st.booleans()),
                certifies_expiry=draw(st.booleans()),
                has_readable_record=draw(st.sampled_from([True, True, False])),
            )
            for id in present
        },
        orders={draw(nodes): frozenset(draw(st.lists(st.sampled_from(JOBS), max_size=2)))},
        quarantined=frozenset(draw(st.lists(st.sampled_from(JOBS), max_size=1))),
        nodes_gone_since={id: draw(st.floats(400, 500)) for id in NODES if id not in present and draw(st.booleans())},
        undisturbed_since=draw(st.floats(400, 500)),
        session_timeout_s=10.0,
    )


many_examples = settings(max_examples=100, deadline=None)


@many_examples
@given(snapshots())
def test_each_job_gets_at_most_one_command_with_a_legal_transition_and_a_reason(snapshot: Snapshot) -> None:
    planned_jobs = []
    for command in plan(snapshot, NOW):
        assert command.reason
        if isinstance(command, WithdrawOrder):
            continue
        planned_jobs.append(command.job)
        old = snapshot.jobs[command.job].state
        if isinstance(command, Launch | EndAttempt | UpdateState) and isinstance(old, JobState):
            assert command.state.phase in TRANSITIONS[old.phase]
    assert len(planned_jobs) == len(set(planned_jobs))


@many_examples
@given(snapshots())
def test_never_launches_a_job_that_is_alive_ended_unwanted_unreadable_or_restored_by_hand(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        if isinstance(command, Launch):
            job = snapshot.jobs[command.job]
            assert job.lease is None
            assert isinstance(job.state, JobState) and job.state.phase in (Phase.PENDING, Phase.SCHEDULED, Phase.BACKOFF)
            assert job.desired is Desired.RUN
            assert isinstance(job.spec, Spec) and not isinstance(job.report, UnreadableRecord)
            assert job.owns_name and job.complete
            has_new_request = job.desired_version > job.state.heard
            gives_way = job.state.runs is not None and command.state.runs != job.state.runs
            assert job.state.phase is not Phase.BACKOFF or job.state.not_before <= NOW.wall or has_new_request or gives_way
            assert command.job not in snapshot.quarantined


@many_examples
@given(snapshots())
def test_never_launches_outside_the_failsafe_set_without_a_death_certificate(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        if isinstance(command, Launch):
            job = snapshot.jobs[command.job]
            assert isinstance(job.state, JobState)
            if isinstance(job.report, Report) and job.report.failsafe and not job.report.dead:
                assert command.node in job.report.failsafe or (job.force and job.desired_version > job.state.heard)


@many_examples
@given(snapshots())
def test_never_leaves_quarantine_or_parking_without_a_request_of_a_user(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        old = snapshot.jobs[command.job].state if command.job in snapshot.jobs else None
        if isinstance(command, UpdateState) and isinstance(old, JobState) and old.phase in (Phase.QUARANTINED, Phase.PARKED):
            job = snapshot.jobs[command.job]
            is_alive = isinstance(job.lease, Lease)
            assert (
                job.desired_version > old.heard
                or job.desired is Desired.CANCEL
                or is_alive
                or command.state.phase is Phase.PARKED
            )
            assert old.phase is Phase.PARKED or command.job not in snapshot.quarantined or job.desired is Desired.CANCEL


@many_examples
@given(snapshots())
def test_never_assigns_an_attempt_number_twice(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        if isinstance(command, Launch):
            job = snapshot.jobs[command.job]
            assert command.state.attempt == job.attempt + 1
            assert command.state.node == command.node


@many_examples
@given(snapshots())
def test_never_uses_more_slots_than_a_node_has(snapshot: Snapshot) -> None:
    launched = [command for command in plan(snapshot, NOW) if isinstance(command, Launch)]
    for node in {command.node for command in launched}:
        wanted = sum(_slots(snapshot.jobs[command.job]) for command in launched if command.node == node)
        taken = sum(_slots(job) for job in snapshot.jobs.values() if _occupied_node(job) == node)
        assert taken + wanted <= snapshot.nodes[node].slots


def _slots(job: JobView) -> int:
    return job.spec.slots if isinstance(job.spec, Spec) else 1


def _occupied_node(job: JobView) -> NodeId | None:
    if isinstance(job.lease, Lease):
        return job.lease.node
    return job.state.node if isinstance(job.state, JobState) and job.state.phase.occupies_slots else None


@many_examples
@given(snapshots())
def test_never_launches_on_an_unhealthy_node(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        if isinstance(command, Launch):
            assert snapshot.nodes[command.node].health == ""


@many_examples
@given(snapshots())
def test_health_of_nodes_never_affects_a_job_that_is_alive_or_ended(snapshot: Snapshot) -> None:
    healthy = replace(snapshot, nodes={id: replace(node, health="") for id, node in snapshot.nodes.items()})
    unaffected = {id for id, job in snapshot.jobs.items() if isinstance(job.lease, Lease)}
    assert [command for command in plan(snapshot, NOW) if command.job in unaffected] == [
        command for command in plan(healthy, NOW) if command.job in unaffected
    ]


@many_examples
@given(snapshots())
def test_node_of_a_recent_loss_is_used_only_if_no_other_node_can_take_the_job(snapshot: Snapshot) -> None:
    launches = [command for command in plan(snapshot, NOW) if isinstance(command, Launch)]
    for command in launches[:1]:  # later ones find fewer free slots
        job = snapshot.jobs[command.job]
        assert isinstance(job.state, JobState)
        if command.node not in job.state.lost_on:
            continue
        allowed = job.report.failsafe if isinstance(job.report, Report) and not job.report.dead else ()
        for id, node in snapshot.nodes.items():
            taken = sum(_slots(other) for other in snapshot.jobs.values() if _occupied_node(other) == id)
            can_take = not node.health and node.slots - taken >= _slots(job) and (not allowed or id in allowed)
            assert id in job.state.lost_on or not can_take


@many_examples
@given(snapshots())
def test_never_ends_an_attempt_that_may_still_be_alive(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        if not isinstance(command, UpdateState) or command.state.phase is Phase.STOPPING or command.rebuilt:
            continue
        job = snapshot.jobs[command.job]
        old = job.state
        if isinstance(job.lease, Lease) or not isinstance(old, JobState) or not old.phase.occupies_slots:
            continue
        certified = isinstance(job.report, Report) and job.report.attempt == old.attempt and job.report.dead
        waited = job.lease_gone_since is not None and NOW.boot - job.lease_gone_since >= snapshot.margin_s
        assert certified or waited
        assert certified or not _is_answerable(snapshot, job), "only a certificate proves the death"


def _is_answerable(snapshot: Snapshot, job: JobView) -> bool:
    """Return True if a registered node can certify the death of the last attempt, and no user forced a start.

    That is the node of the attempt, or if it is gone, a node of the failsafe set.
    """
    report, state = job.report, job.state
    if not isinstance(report, Report) or not isinstance(state, JobState) or report.attempt != state.attempt:
        return False
    forced = job.force and job.desired_version > state.heard
    if report.node in snapshot.nodes:
        answers = snapshot.nodes[report.node].ends_attempts
    else:
        answers = any(id in report.failsafe and node.certifies_expiry for id, node in snapshot.nodes.items())
    return answers and not forced


@many_examples
@given(snapshots())
def test_only_a_registered_node_that_can_end_attempts_is_asked_and_only_without_a_lease(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        if isinstance(command, EndAttempt):
            job = snapshot.jobs[command.job]
            assert job.lease is None
            assert isinstance(job.report, Report) and not job.report.dead
            assert job.report.attempt == command.state.attempt
            node = snapshot.nodes[command.node]
            if job.report.node in snapshot.nodes:
                assert command.node == job.report.node and node.ends_attempts
            else:
                assert command.node in job.report.failsafe and node.certifies_expiry
            assert isinstance(job.state, JobState)
            assert (command.state.phase, command.state.node) == (job.state.phase, command.node)


@many_examples
@given(snapshots())
def test_starting_attempt_is_treated_like_a_running_one_except_for_its_phase(snapshot: Snapshot) -> None:
    """No decision but the displayed phase depends on whether the driver has Spark."""
    ready = {
        id: replace(job, lease=replace(job.lease, starting=False)) if isinstance(job.lease, Lease) else job
        for id, job in snapshot.jobs.items()
    }
    assert _without_phases_of_living_attempts(snapshot) == _without_phases_of_living_attempts(replace(snapshot, jobs=ready))


def _without_phases_of_living_attempts(snapshot: Snapshot) -> list[Command]:
    alive = {id for id, job in snapshot.jobs.items() if isinstance(job.lease, Lease)}
    return [
        command
        for command in plan(snapshot, NOW)
        if not (
            isinstance(command, UpdateState) and command.job in alive and command.state.phase in (Phase.STARTING, Phase.RUNNING)
        )
    ]


@many_examples
@given(snapshots())
def test_scheduled_job_is_launched_only_for_an_open_run_and_never_finishes_or_fails(snapshot: Snapshot) -> None:
    """Invariant 25."""
    for command in plan(snapshot, NOW):
        job = snapshot.jobs.get(command.job)
        if job is None or not isinstance(job.spec, Spec) or job.spec.schedule is None or not isinstance(job.state, JobState):
            continue
        if isinstance(command, UpdateState):
            assert command.state.phase not in (Phase.FINISHED, Phase.FAILED)
        if isinstance(command, Launch):
            runs, before = command.state.runs, job.state.runs
            assert runs is not None and runs.run is not None and runs.run.attempts > 0
            if before is not None and before.run is not None and runs.run.number != before.run.number:
                assert runs.last is not None and runs.last.number == before.run.number, "the open run has ended"


@many_examples
@given(snapshots())
def test_cancelled_job_only_becomes_stopping_or_cancelled(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        if isinstance(command, UpdateState) and snapshot.jobs[command.job].desired is Desired.CANCEL and not command.rebuilt:
            assert command.state.phase in (Phase.CANCELLED, Phase.STOPPING)


@many_examples
@given(snapshots())
def test_never_touches_a_job_of_a_newer_schema_or_its_orders(snapshot: Snapshot) -> None:
    set_aside = {id for id, job in snapshot.jobs.items() if job.newer_record is not None}
    assert not [command for command in plan(snapshot, NOW) if command.job in set_aside]


@many_examples
@given(snapshots())
def test_never_launches_on_a_node_with_an_unreadable_record(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        if isinstance(command, Launch):
            assert snapshot.nodes[command.node].has_readable_record


@many_examples
@given(snapshots())
def test_never_changes_a_job_that_has_ended(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        old = snapshot.jobs[command.job].state if command.job in snapshot.jobs else None
        if isinstance(old, JobState) and old.phase.final:
            assert isinstance(command, WithdrawOrder)


@many_examples
@given(snapshots(), st.randoms())
def test_plan_does_not_depend_on_the_order_of_jobs(snapshot: Snapshot, random: Random) -> None:
    shuffled = list(snapshot.jobs.items())
    random.shuffle(shuffled)
    assert plan(replace(snapshot, jobs=dict(shuffled)), NOW) == plan(snapshot, NOW)


@many_examples
@given(snapshots())
def test_every_change_adds_exactly_one_event(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        if isinstance(command, Launch | EndAttempt | UpdateState):
            old, new = snapshot.jobs[command.job].state, command.state
            last = old.events[-1].number if isinstance(old, JobState) and old.events else 0
            assert new.events[-1].number == last + 1
            assert (new.events[-1].phase, new.events[-1].reason) == (new.phase, new.reason)


@many_examples
@given(snapshots())
def test_command_is_not_repeated_after_it_was_executed(snapshot: Snapshot) -> None:
    """After a plan was executed, the next plan contains only commands that follow from it."""
    commands = plan(snapshot, NOW)
    jobs = dict(snapshot.jobs)
    orders = {command.node: frozenset({command.job}) for command in commands if isinstance(command, EndAttempt)}
    for command in commands:
        if isinstance(command, Launch):
            jobs[command.job] = replace(jobs[command.job], state=command.state, attempt=command.state.attempt)
        elif isinstance(command, EndAttempt | UpdateState | Quarantine) and command.state is not None:
            jobs[command.job] = replace(jobs[command.job], state=command.state)
    quarantined = snapshot.quarantined | {command.job for command in commands if isinstance(command, Quarantine)}
    next_plan = plan(replace(snapshot, jobs=jobs, quarantined=quarantined, orders=orders), NOW)
    variables = {command.job for command in commands if isinstance(command, EndAttempt) if command.job in orders[command.node]}
    assert not [command for command in next_plan if command in commands]
    assert not [command for command in next_plan if isinstance(command, EndAttempt) and command.job in variables]


@given(snapshots())
@settings(max_examples=60, deadline=None)
def test_broken_job_never_changes_the_plan_for_other_jobs(snapshot: Snapshot) -> None:
    assume(JobId("j9") not in snapshot.jobs)
    broken = JobView(
        JobId("j9"),
        UnreadableRecord("noise"),
        UnreadableRecord("noise"),
        Attempt(3),
        UnreadableRecord("noise"),
        None,
        UnreadableRecord("noise"),
    )
    plan_with_broken_job = plan(replace(snapshot, jobs={**snapshot.jobs, JobId("j9"): broken}), NOW)
    assert [command for command in plan_with_broken_job if command.job != JobId("j9")] == plan(snapshot, NOW)
    assert [type(command) for command in plan_with_broken_job if command.job == JobId("j9")] == [Quarantine]
