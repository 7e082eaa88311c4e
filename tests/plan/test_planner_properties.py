"""What a plan never does, whatever a leader sees."""

from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import Desired, Ending, Event, Lease, Outcome, Report, Spec, State
from holdfast.model.phase import TRANSITIONS, Phase
from holdfast.model.restart_strategy import Failures
from holdfast.model.versions import Versions
from holdfast.plan import Garbled, JobView, Launch, NodeView, Now, Quarantine, Settle, Snapshot, Withdraw, plan

NODES = [NodeId(name) for name in ("a", "b", "c")]
JOBS = [JobId(f"j{number}") for number in range(4)]
NOW = Now(wall=10_000.0, boot=500.0)

garbled = st.just(Garbled("noise"))
attempts = st.integers(0, 3).map(Attempt)
nodes = st.sampled_from(NODES)
walls = st.floats(0, 20_000)
specs = st.builds(
    Spec,
    name=st.just("job"),
    script=st.just("job.py"),
    blob=st.just("0" * 64),
    slots=st.integers(1, 3),
    restart=st.sampled_from(["never", "exponential", "fixed:2:5s", "rate:2:1m:1s"]),
)
leases = st.builds(Lease, attempt=st.integers(1, 3).map(Attempt), node=nodes)
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
def states(draw: st.DrawFn) -> State:
    phase = draw(st.sampled_from(Phase))
    attempt = draw(attempts)
    events = tuple(
        Event(number + 1, float(number), draw(st.sampled_from(Phase)), "so", attempt, None, Epoch(1))
        for number in range(draw(st.integers(0, 3)))
    )
    return State(
        phase,
        "so",
        attempt=attempt,
        node=draw(st.none() | nodes),
        restarts=draw(st.integers(0, 5)),
        failures=Failures(draw(st.integers(0, 5)), tuple(draw(st.lists(walls, max_size=4)))),
        losses=draw(st.integers(0, 4)),
        heard=draw(st.integers(0, 3)),
        not_before=draw(walls),
        versions=draw(versions),
        events=events,
    )


@st.composite
def views(draw: st.DrawFn, id: JobId) -> JobView:
    lease = draw(st.none() | leases | garbled)
    return JobView(
        id=id,
        spec=draw(specs | specs | garbled | st.none()),
        desired=draw(st.sampled_from(Desired) | garbled | st.none()),
        attempt=draw(attempts),
        state=draw(states() | states() | garbled | st.none()),
        lease=lease,
        report=draw(st.none() | reports | garbled),
        word=draw(st.integers(0, 3)),
        force=draw(st.booleans()),
        version=draw(st.integers(1, 4)),
        whole=draw(st.booleans()),
        owns_its_name=draw(st.booleans()),
        lease_gone_since=None if lease is not None else draw(st.none() | st.floats(400, 500)),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    ids = draw(st.lists(st.sampled_from(JOBS), unique=True, max_size=4))
    present = draw(st.lists(nodes, unique=True, max_size=3))
    return Snapshot(
        epoch=Epoch(7),
        jobs={id: draw(views(id)) for id in ids},
        nodes={id: NodeView(id, draw(st.integers(1, 4))) for id in present},
        orders={draw(nodes): frozenset(draw(st.lists(st.sampled_from(JOBS), max_size=2)))},
        quarantined=frozenset(draw(st.lists(st.sampled_from(JOBS), max_size=1))),
    )


many = settings(max_examples=100, deadline=None)


@many
@given(snapshots())
def test_never_an_illegal_step_nor_one_without_a_reason_nor_two_for_one_job(snapshot: Snapshot) -> None:
    about = []
    for command in plan(snapshot, NOW):
        assert command.reason
        if isinstance(command, Withdraw):
            continue
        about.append(command.job)
        old = snapshot.jobs[command.job].state
        if isinstance(command, Launch | Settle) and isinstance(old, State):
            assert command.state.phase in TRANSITIONS[old.phase]
    assert len(about) == len(set(about))


@many
@given(snapshots())
def test_never_a_launch_of_what_is_alive_ended_unwanted_unreadable_or_put_back_by_hand(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        if isinstance(command, Launch):
            job = snapshot.jobs[command.job]
            assert job.lease is None
            assert isinstance(job.state, State) and job.state.phase in (Phase.PENDING, Phase.BACKOFF)
            assert job.desired is Desired.RUN
            assert isinstance(job.spec, Spec) and not isinstance(job.report, Garbled)
            assert job.owns_its_name and job.whole
            asked = job.word > job.state.heard
            assert job.state.phase is not Phase.BACKOFF or job.state.not_before <= NOW.wall or asked
            assert command.job not in snapshot.quarantined


@many
@given(snapshots())
def test_never_a_launch_where_nobody_knows_whether_the_last_attempt_lives_on_by_promises(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        if isinstance(command, Launch):
            job = snapshot.jobs[command.job]
            assert isinstance(job.state, State)
            if isinstance(job.report, Report) and job.report.failsafe and not job.report.dead:
                assert command.node in job.report.failsafe or (job.force and job.word > job.state.heard)


@many
@given(snapshots())
def test_never_out_of_quarantine_or_a_parking_without_a_word_of_a_person(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        old = snapshot.jobs[command.job].state if command.job in snapshot.jobs else None
        if isinstance(command, Settle) and isinstance(old, State) and old.phase in (Phase.QUARANTINED, Phase.PARKED):
            job = snapshot.jobs[command.job]
            lives = isinstance(job.lease, Lease)
            assert job.word > old.heard or job.desired is Desired.CANCEL or lives or command.state.phase is Phase.PARKED
            assert old.phase is Phase.PARKED or command.job not in snapshot.quarantined or job.desired is Desired.CANCEL


@many
@given(snapshots())
def test_never_an_attempt_number_twice(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        if isinstance(command, Launch):
            job = snapshot.jobs[command.job]
            assert command.state.attempt == job.attempt + 1
            assert command.state.node == command.node


@many
@given(snapshots())
def test_never_more_on_a_node_than_it_has_room_for(snapshot: Snapshot) -> None:
    launched = [command for command in plan(snapshot, NOW) if isinstance(command, Launch)]
    for node in {command.node for command in launched}:
        wanted = sum(_slots(snapshot.jobs[command.job]) for command in launched if command.node == node)
        taken = sum(_slots(job) for job in snapshot.jobs.values() if _where(job) == node)
        assert taken + wanted <= snapshot.nodes[node].slots


def _slots(job: JobView) -> int:
    return job.spec.slots if isinstance(job.spec, Spec) else 1


def _where(job: JobView) -> NodeId | None:
    if isinstance(job.lease, Lease):
        return job.lease.node
    return job.state.node if isinstance(job.state, State) and job.state.phase.occupies_slots else None


@many
@given(snapshots())
def test_never_a_verdict_about_an_attempt_that_may_still_be_alive(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        if not isinstance(command, Settle) or command.state.phase is Phase.STOPPING or command.rebuilt:
            continue
        job = snapshot.jobs[command.job]
        old = job.state
        if isinstance(job.lease, Lease) or not isinstance(old, State) or not old.phase.occupies_slots:
            continue
        certified = isinstance(job.report, Report) and job.report.attempt == old.attempt and job.report.dead
        waited = job.lease_gone_since is not None and NOW.boot - job.lease_gone_since >= snapshot.margin_s
        assert certified or waited


@many
@given(snapshots())
def test_never_another_phase_than_cancelled_for_what_was_cancelled_and_is_dead(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        if isinstance(command, Settle) and snapshot.jobs[command.job].desired is Desired.CANCEL and not command.rebuilt:
            assert command.state.phase in (Phase.CANCELLED, Phase.STOPPING)


@many
@given(snapshots())
def test_never_a_word_about_what_ended(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        old = snapshot.jobs[command.job].state if command.job in snapshot.jobs else None
        if isinstance(old, State) and old.phase.final:
            assert isinstance(command, Withdraw)


@many
@given(snapshots(), st.randoms())
def test_never_another_answer_to_the_same_question(snapshot: Snapshot, random: "object") -> None:
    shuffled = list(snapshot.jobs.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert plan(replace(snapshot, jobs=dict(shuffled)), NOW) == plan(snapshot, NOW)


@many
@given(snapshots())
def test_never_a_change_without_exactly_one_event(snapshot: Snapshot) -> None:
    for command in plan(snapshot, NOW):
        if isinstance(command, Launch | Settle):
            old, new = snapshot.jobs[command.job].state, command.state
            last = old.events[-1].number if isinstance(old, State) and old.events else 0
            assert new.events[-1].number == last + 1
            assert (new.events[-1].phase, new.events[-1].reason) == (new.phase, new.reason)


@many
@given(snapshots())
def test_never_the_same_twice(snapshot: Snapshot) -> None:
    """Once a plan was carried out, the next one has nothing to add about the same jobs, but what follows from it."""
    commands = plan(snapshot, NOW)
    jobs = dict(snapshot.jobs)
    for command in commands:
        if isinstance(command, Launch):
            jobs[command.job] = replace(jobs[command.job], state=command.state, attempt=command.state.attempt)
        elif isinstance(command, Settle | Quarantine) and command.state is not None:
            jobs[command.job] = replace(jobs[command.job], state=command.state)
    quarantined = snapshot.quarantined | {command.job for command in commands if isinstance(command, Quarantine)}
    again = plan(replace(snapshot, jobs=jobs, quarantined=quarantined, orders={}), NOW)
    assert not [command for command in again if command in commands]


@given(snapshots())
@settings(max_examples=60, deadline=None)
def test_never_a_broken_job_that_changes_what_happens_to_the_others(snapshot: Snapshot) -> None:
    assume(JobId("j9") not in snapshot.jobs)
    broken = JobView(JobId("j9"), Garbled("noise"), Garbled("noise"), Attempt(3), Garbled("noise"), None, Garbled("noise"))
    with_it = plan(replace(snapshot, jobs={**snapshot.jobs, JobId("j9"): broken}), NOW)
    assert [command for command in with_it if command.job != JobId("j9")] == plan(snapshot, NOW)
    assert [type(command) for command in with_it if command.job == JobId("j9")] == [Quarantine]
