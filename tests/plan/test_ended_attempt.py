"""Decisions about an attempt whose lease is gone: ask its node, trust the clock, or believe a user."""

from dataclasses import replace

import pytest

from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import Desired, Ending, JobState, Outcome, Report, Spec
from holdfast.model.phase import Phase
from holdfast.plan import Command, EndAttempt, JobView, NodeView, Now, Snapshot, UpdateState, plan
from holdfast.plan.ended_attempt import LOSSES_WITHOUT_DELAY

JOB, N1, N2 = JobId("j1"), NodeId("n1"), NodeId("n2")
BOOT = 1000.0
MARGIN_S, TIMEOUT_S = 4.0, 10.0
WAITING = "waiting for n1 to confirm that attempt 3 has ended"
STATE = JobState(Phase.RUNNING, "attempt 3 runs on n1", attempt=Attempt(3), node=N1, heard=1)
REPORT = Report(Attempt(3), N1, started=100.0, nonce="x")
VIEW = JobView(
    JOB,
    Spec("words", "words.py", "0" * 64),
    Desired.RUN,
    Attempt(3),
    STATE,
    report=REPORT,
    desired_version=1,
    lease_gone_since=BOOT - MARGIN_S,
)
SNAPSHOT = Snapshot(
    Epoch(7),
    {JOB: VIEW},
    {id: NodeView(id, 4, ends_attempts=True, certifies_expiry=True) for id in (N1, N2)},
    orders={N1: frozenset({JOB})},
    margin_s=MARGIN_S,
    undisturbed_since=BOOT - TIMEOUT_S,
    session_timeout_s=TIMEOUT_S,
)
WITHOUT_N1 = replace(SNAPSHOT, nodes={N2: SNAPSHOT.nodes[N2]}, nodes_gone_since={N1: BOOT - MARGIN_S})


def decide(snapshot: Snapshot = SNAPSHOT, view: JobView = VIEW) -> Command | None:
    commands = plan(replace(snapshot, jobs={JOB: view}), Now(wall=10_000.0, boot=BOOT))
    assert len(commands) <= 1
    return commands[0] if commands else None


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RUNNING, Phase.STOPPING])
@pytest.mark.parametrize("desired", Desired)
def test_registered_node_is_asked_once_the_lease_is_gone_for_a_margin(phase: Phase, desired: Desired) -> None:
    command = decide(view=replace(VIEW, state=replace(STATE, phase=phase), desired=desired))
    assert isinstance(command, EndAttempt)
    assert (command.node, command.state.phase, command.state.node, command.reason) == (N1, phase, N1, WAITING)
    assert command.state.heard == STATE.heard, "the user's request has not been carried out yet"


def test_node_is_not_asked_within_the_margin() -> None:
    assert decide(view=replace(VIEW, lease_gone_since=BOOT - MARGIN_S + 0.1)) is None


def test_leader_waits_for_the_certificate_without_repeating_the_order() -> None:
    waiting = replace(VIEW, state=replace(STATE, reason=WAITING), lease_gone_since=0.0)
    assert decide(view=waiting) is None
    assert isinstance(decide(replace(SNAPSHOT, orders={}), waiting), EndAttempt), "the order was deleted by hand"


def test_certificate_ends_the_wait() -> None:
    command = decide(view=replace(VIEW, state=replace(STATE, reason=WAITING), report=replace(REPORT, dead=True)))
    assert isinstance(command, UpdateState)
    assert command.state.phase is Phase.PENDING


def test_clock_decides_if_the_node_cannot_end_attempts() -> None:
    """A node of an earlier release does not understand the order."""
    assert isinstance(decide(replace(SNAPSHOT, nodes={N1: NodeView(N1, 4)})), UpdateState)


def test_clock_decides_if_the_node_is_gone() -> None:
    assert isinstance(decide(WITHOUT_N1), UpdateState)
    assert isinstance(decide(replace(WITHOUT_N1, nodes_gone_since={})), UpdateState), "this leader has never seen the node"


def test_node_of_the_failsafe_set_is_asked_if_the_node_is_gone() -> None:
    promised = replace(VIEW, report=replace(REPORT, failsafe=(N1, N2)))
    command = decide(WITHOUT_N1, promised)
    assert isinstance(command, EndAttempt)
    assert (command.node, command.state.node) == (N2, N2)
    assert command.reason == f"{WAITING.replace('for n1', 'for n2')}, because its node n1 is gone"
    waiting = replace(promised, state=command.state)
    ordered = replace(WITHOUT_N1, orders={N2: frozenset({JOB})})
    assert decide(ordered, waiting) is None
    old = {N2: NodeView(N2, 4, ends_attempts=True)}
    assert isinstance(decide(replace(WITHOUT_N1, nodes=old), promised), UpdateState), "an earlier release cannot be asked"
    certified = decide(ordered, replace(waiting, report=replace(REPORT, started=9_990.0, dead=True)))
    assert isinstance(certified, UpdateState) and certified.state.lost_on == (N1,), "not the node that certified"
    returned = decide(replace(SNAPSHOT, orders={N2: frozenset({JOB})}), waiting)
    assert isinstance(returned, EndAttempt) and returned.node == N1, "the node is back and is asked itself"


def test_node_must_be_gone_for_a_margin_because_its_agent_may_restart() -> None:
    assert decide(replace(WITHOUT_N1, nodes_gone_since={N1: BOOT - 0.5})) is None


def test_clock_does_not_decide_soon_after_the_leader_lost_contact_itself() -> None:
    assert decide(replace(WITHOUT_N1, undisturbed_since=BOOT - TIMEOUT_S + 0.1)) is None
    assert decide(replace(WITHOUT_N1, undisturbed_since=float("inf"))) is None


@pytest.mark.parametrize("snapshot", [SNAPSHOT, replace(WITHOUT_N1, undisturbed_since=BOOT)], ids=["registered", "gone"])
def test_forced_restart_needs_no_certificate(snapshot: Snapshot) -> None:
    forced = replace(VIEW, force=True, desired_version=2)
    assert isinstance(decide(snapshot, forced), UpdateState)
    within_margin = replace(forced, lease_gone_since=BOOT - 1.0)
    assert decide(snapshot, within_margin) is None, "the margin still applies"
    heard = replace(forced, desired_version=1)
    assert not isinstance(decide(snapshot, heard), UpdateState), "the request was about an earlier attempt"


def test_attempt_that_never_took_the_lease_needs_no_certificate() -> None:
    starting = replace(VIEW, state=replace(STATE, phase=Phase.STARTING), report=replace(REPORT, attempt=Attempt(2), dead=True))
    assert decide(view=starting) is None, "the node gets time to start it"
    assert isinstance(decide(view=replace(starting, lease_gone_since=BOOT - 30.0)), UpdateState)


@pytest.mark.parametrize(
    ("ending", "losses"), [(Ending.FAILED, 0), (Ending.LOST, LOSSES_WITHOUT_DELAY)], ids=["failed", "lost repeatedly"]
)
def test_job_resumed_before_its_stopping_attempt_ended_backs_off(ending: Ending, losses: int) -> None:
    stopping = replace(STATE, phase=Phase.STOPPING, losses=losses)
    report = replace(REPORT, started=9_990.0, dead=True, outcome=Outcome(ending, "the driver crashed"))
    command = decide(view=replace(VIEW, state=stopping, report=report, desired_version=2))
    assert isinstance(command, UpdateState)
    assert command.state.phase is Phase.BACKOFF
    assert command.state.not_before > 10_000.0
