"""Placement of attempts: unhealthy nodes and nodes of recent losses are avoided, and the reason says why a job waits."""

from dataclasses import replace

from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import Desired, Ending, JobState, Outcome, Report, Spec
from holdfast.model.phase import Phase
from holdfast.plan import JobView, Launch, NodeView, Now, Snapshot, UpdateState, plan
from holdfast.plan.ended_attempt import LOST_ON_MAX, STABLE_RUN_S
from holdfast.plan.placement import FreeSlots

N1, N2, N3 = map(NodeId, ("n1", "n2", "n3"))
NOW = Now(wall=10_000.0, boot=500.0)
JOB = JobId("j1")
SPEC = Spec("job", "job.py", "0" * 64)
FULL = "its disk is full (less than 64 MiB are free in /n1)"


def job(state: JobState, report: Report | None = None) -> JobView:
    return JobView(JOB, SPEC, Desired.RUN, state.attempt, state, report=report)


def snapshot(view: JobView, **health: str) -> Snapshot:
    nodes = {id: NodeView(id, 8 if id == N1 else 1, health.get(id, "")) for id in (N1, N2, N3) if id in health}
    return Snapshot(epoch=Epoch(1), jobs={JOB: view}, nodes=nodes)


def launched_on(snapshot: Snapshot) -> NodeId:
    (command,) = plan(snapshot, NOW)
    assert isinstance(command, Launch)
    return command.node


def changed_state(snapshot: Snapshot) -> JobState:
    (command,) = plan(snapshot, NOW)
    assert isinstance(command, UpdateState)
    return command.state


PENDING = JobState(Phase.PENDING, "submitted")


def test_unhealthy_node_gets_no_attempt_although_it_has_the_most_free_slots() -> None:
    assert launched_on(snapshot(job(PENDING), n1="", n2="")) == N1
    assert launched_on(snapshot(job(PENDING), n1=FULL, n2="")) == N2


def test_job_waits_for_a_healthy_node_with_its_problem_as_reason() -> None:
    waiting = changed_state(snapshot(job(PENDING), n1=FULL))
    assert (waiting.phase, waiting.reason) == (Phase.PENDING, f"waiting for a healthy node: n1: {FULL}")
    assert plan(snapshot(job(waiting), n1=FULL), NOW) == [], "the same reason is no new event"
    assert launched_on(snapshot(job(waiting), n1="")) == N1


def test_reason_names_a_limited_number_of_unhealthy_nodes() -> None:
    slots = FreeSlots({NodeId(f"n{number}"): NodeView(NodeId(f"n{number}"), 1, "its disk is full") for number in range(5)})
    assert slots.describe_wait(1) == (
        "waiting for a healthy node: n0: its disk is full; n1: its disk is full; n2: its disk is full; and 2 more"
    )
    assert slots.describe_wait(2) == "waiting for free slots: the job needs 2 slots, but the largest node has 1"


def lost_job(node: NodeId, *, started: float, lost_on: tuple[NodeId, ...] = ()) -> JobView:
    report = Report(Attempt(3), node, started, outcome=Outcome(Ending.LOST, "its disk is full"), dead=True)
    return job(JobState(Phase.RUNNING, "runs", attempt=Attempt(3), node=node, lost_on=lost_on), report)


def test_next_attempt_avoids_the_node_of_an_attempt_that_was_lost_soon_after_its_start() -> None:
    state = changed_state(snapshot(lost_job(N1, started=NOW.wall - 5), n1="", n2="", n3=""))
    assert (state.phase, state.lost_on) == (Phase.PENDING, (N1,))
    assert launched_on(snapshot(job(state), n1="", n2="", n3="")) == N2
    assert launched_on(snapshot(job(replace(state, lost_on=(N1, N2))), n1="", n2="", n3="")) == N3
    assert launched_on(snapshot(job(replace(state, lost_on=(N1, N2))), n1="", n2="")) == N1, "better than no node"


def test_losses_are_forgotten_after_a_stable_run_and_their_number_is_bounded() -> None:
    stable = lost_job(N2, started=NOW.wall - STABLE_RUN_S, lost_on=(N1,))
    assert changed_state(snapshot(stable, n1="", n2="")).lost_on == ()
    many = tuple(NodeId(f"old-{number}") for number in range(LOST_ON_MAX))
    again = changed_state(snapshot(lost_job(N1, started=NOW.wall, lost_on=(N1, *many)), n1=""))
    assert again.lost_on == (*many[1:], N1)


def test_regular_end_forgets_the_nodes_of_earlier_losses() -> None:
    report = Report(Attempt(3), N2, 0.0, outcome=Outcome(Ending.STOPPED, "restarted"), dead=True)
    state = JobState(Phase.RUNNING, "runs", attempt=Attempt(3), node=N2, losses=1, lost_on=(N1,))
    ended = changed_state(snapshot(job(state, report), n1="", n2=""))
    assert (ended.losses, ended.lost_on) == (0, ())
