"""Properties of `Confirmation`: for any history, the deadline is never later than the end of the session.

All times are multiples of 1/8 s, so that sums are exact.
"""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.zk.session.timing import Confirmation, Timing


def eighths(low: int, high: int) -> st.SearchStrategy[float]:
    return st.integers(min_value=low, max_value=high).map(lambda number: number / 8)


@dataclass(frozen=True)
class Contact:
    sent_at: float
    answered_at: float


@dataclass(frozen=True)
class Write(Contact):
    timeout_s: float


@dataclass(frozen=True)
class Invalidation:
    pass


Step = Contact | Write | Invalidation

timings = st.builds(
    Timing,
    heartbeat_s=eighths(1, 24),
    tick_s=eighths(1, 24),
    kill_s=eighths(0, 16),
    margin_s=eighths(0, 80),
)
call_times = st.tuples(eighths(0, 800), eighths(0, 80)).map(lambda pair: (pair[0], pair[0] + pair[1]))
any_steps = st.one_of(
    call_times.map(lambda times: Contact(*times)),
    st.tuples(call_times, eighths(1, 320)).map(lambda pair: Write(*pair[0], pair[1])),
    st.just(Invalidation()),
)
histories = st.lists(any_steps, max_size=100)
"""Steps in any order of time, including impossible ones."""


def replay(timing: Timing, started_at: float, history: list[Step]) -> Confirmation:
    confirmation = Confirmation(timing, started_at=started_at)
    for step in history:
        match step:
            case Write(sent_at, answered_at, timeout_s):
                confirmation.confirm(sent_at=sent_at, answered_at=answered_at, timeout_s=timeout_s)
            case Contact(sent_at, answered_at):
                confirmation.record_contact(sent_at=sent_at, answered_at=answered_at)
            case Invalidation():
                confirmation.invalidate()
    return confirmation


def writes_since_invalidation(history: list[Step]) -> list[tuple[int, Write]]:
    last = max((index for index, step in enumerate(history) if isinstance(step, Invalidation)), default=-1)
    return [(index, step) for index, step in enumerate(history) if index > last and isinstance(step, Write)]


def granted_s(history: list[Step]) -> float:
    """Return the timeout granted with the last write. A reconnection may increase or reduce it."""
    return next((step.timeout_s for step in reversed(history) if isinstance(step, Write)), 0.0)


NEVER = float("-inf")


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(timing=timings, started_at=eighths(0, 80), history=histories)
def test_deadline_is_at_most_timeout_minus_margin_after_a_write_was_sent(
    timing: Timing, started_at: float, history: list[Step]
) -> None:
    writes = [write for _, write in writes_since_invalidation(history)]
    by_each_timeout = max((write.sent_at + write.timeout_s for write in writes), default=NEVER) - timing.margin_s
    by_last_timeout = max((write.sent_at for write in writes), default=NEVER) + granted_s(history) - timing.margin_s
    assert not replay(timing, started_at, history).holds(min(by_each_timeout, by_last_timeout))


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(timing=timings, started_at=eighths(0, 80), history=histories)
def test_deadline_is_limited_by_contacts_answered_a_tick_before_the_write(
    timing: Timing, started_at: float, history: list[Step]
) -> None:
    latest = NEVER
    for index, write in writes_since_invalidation(history):
        contacts = [step for step in history[:index] if isinstance(step, Contact)]
        reported = [step.sent_at for step in contacts if step.answered_at <= write.sent_at - timing.tick_s]
        latest = max(latest, started_at, *reported)
    limit = latest + timing.tick_s + timing.heartbeat_s + granted_s(history) - timing.margin_s
    assert not replay(timing, started_at, history).holds(limit)


@settings(max_examples=100, deadline=None)
@given(timing=timings, started_at=eighths(0, 80), history=histories, now=eighths(-80, 1600))
def test_reads_alone_never_confirm_a_session(timing: Timing, started_at: float, history: list[Step], now: float) -> None:
    reads = [Contact(step.sent_at, step.answered_at) for step in history if isinstance(step, Contact)]
    assert not replay(timing, started_at, list(reads)).holds(now)


@settings(max_examples=100, deadline=None)
@given(timing=timings, started_at=eighths(0, 80), history=histories, now=eighths(-80, 1600))
def test_session_is_not_confirmed_after_invalidation(
    timing: Timing, started_at: float, history: list[Step], now: float
) -> None:
    assert not replay(timing, started_at, [*history, Invalidation()]).holds(now)


@st.composite
def safe_durations(draw: st.DrawFn) -> tuple[Timing, float]:
    """Generate safe durations, with small or large reserves, and a session timeout that is safe with them."""
    heartbeat_s, kill_s, sync_limit = draw(eighths(1, 24)), draw(eighths(0, 16)), draw(st.integers(1, 10))
    tick_s = draw(eighths(1, 16)) * heartbeat_s
    margin_s = heartbeat_s + tick_s + kill_s + draw(eighths(1, 40))
    timeout_s = max(sync_limit * tick_s, margin_s + 2 * heartbeat_s) + draw(eighths(1, 80))
    return Timing(heartbeat_s, tick_s, sync_limit, kill_s, margin_s), timeout_s


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(durations=safe_durations(), pauses=st.lists(eighths(1, 8), min_size=1, max_size=40))
def test_leader_with_regular_heartbeats_stays_confirmed(durations: tuple[Timing, float], pauses: list[float]) -> None:
    """Each heartbeat keeps the session confirmed even if the next one is lost, given safe durations and prompt replies."""
    timing, timeout_s = durations
    assert timing.find_problem(timeout_s) is None
    confirmation = Confirmation(timing, started_at=0.0)
    sent_at = 0.0
    for pause in pauses:
        confirmation.confirm(sent_at=sent_at, answered_at=sent_at, timeout_s=timeout_s)
        assert confirmation.holds(sent_at + 2 * timing.heartbeat_s)
        sent_at += timing.heartbeat_s * pause
