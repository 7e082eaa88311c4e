"""Whatever a session went through: nobody ever believes in it for longer than it can last.

All times are multiples of 1/8 s, so that sums are exact.
"""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.zk.session.timing import Confirmation, Timing


def eighths(low: int, high: int) -> st.SearchStrategy[float]:
    return st.integers(min_value=low, max_value=high).map(lambda number: number / 8)


@dataclass(frozen=True)
class Heard:
    sent_at: float
    answered_at: float


@dataclass(frozen=True)
class Written(Heard):
    timeout_s: float


@dataclass(frozen=True)
class Lapsed:
    pass


Step = Heard | Written | Lapsed

timings = st.builds(
    Timing,
    heartbeat_s=eighths(1, 24),
    tick_s=eighths(1, 24),
    kill_s=eighths(0, 16),
    margin_s=eighths(0, 80),
)
moments = st.tuples(eighths(0, 800), eighths(0, 80)).map(lambda pair: (pair[0], pair[0] + pair[1]))
any_steps = st.one_of(
    moments.map(lambda moment: Heard(*moment)),
    st.tuples(moments, eighths(1, 320)).map(lambda pair: Written(*pair[0], pair[1])),
    st.just(Lapsed()),
)
histories = st.lists(any_steps, max_size=100)
"""In any order of time, even one that cannot happen: nothing is assumed about whoever calls."""


def lived_through(timing: Timing, began_at: float, history: list[Step]) -> Confirmation:
    confirmation = Confirmation(timing, began_at=began_at)
    for step in history:
        match step:
            case Written(sent_at, answered_at, timeout_s):
                confirmation.confirm(sent_at=sent_at, answered_at=answered_at, timeout_s=timeout_s)
            case Heard(sent_at, answered_at):
                confirmation.heard(sent_at=sent_at, answered_at=answered_at)
            case Lapsed():
                confirmation.lapse()
    return confirmation


def written_since_the_lapse(history: list[Step]) -> list[tuple[int, Written]]:
    last = max((place for place, step in enumerate(history) if isinstance(step, Lapsed)), default=-1)
    return [(place, step) for place, step in enumerate(history) if place > last and isinstance(step, Written)]


def granted_s(history: list[Step]) -> float:
    """The session timeout as the last answer had it: a reconnection may change it, either way."""
    return next((step.timeout_s for step in reversed(history) if isinstance(step, Written)), 0.0)


NEVER = float("-inf")


@settings(max_examples=250, deadline=None)
@given(timing=timings, began_at=eighths(0, 80), history=histories)
def test_it_never_holds_longer_than_the_timeout_less_the_margin_after_a_write_was_sent(
    timing: Timing, began_at: float, history: list[Step]
) -> None:
    writes = [write for _, write in written_since_the_lapse(history)]
    then = max((write.sent_at + write.timeout_s for write in writes), default=NEVER) - timing.margin_s
    now = max((write.sent_at for write in writes), default=NEVER) + granted_s(history) - timing.margin_s
    assert not lived_through(timing, began_at, history).holds(min(then, now))


@settings(max_examples=250, deadline=None)
@given(timing=timings, began_at=eighths(0, 80), history=histories)
def test_it_never_holds_longer_than_what_was_heard_a_tick_before_the_write_allows(
    timing: Timing, began_at: float, history: list[Step]
) -> None:
    latest = NEVER
    for place, write in written_since_the_lapse(history):
        heard = [step for step in history[:place] if isinstance(step, Heard)]
        reported = [step.sent_at for step in heard if step.answered_at <= write.sent_at - timing.tick_s]
        latest = max(latest, began_at, *reported)
    limit = latest + timing.tick_s + timing.heartbeat_s + granted_s(history) - timing.margin_s
    assert not lived_through(timing, began_at, history).holds(limit)


@settings(max_examples=100, deadline=None)
@given(timing=timings, began_at=eighths(0, 80), history=histories, now=eighths(-80, 1600))
def test_it_never_holds_by_reads_alone(timing: Timing, began_at: float, history: list[Step], now: float) -> None:
    reads = [Heard(step.sent_at, step.answered_at) for step in history if isinstance(step, Heard)]
    assert not lived_through(timing, began_at, list(reads)).holds(now)


@settings(max_examples=100, deadline=None)
@given(timing=timings, began_at=eighths(0, 80), history=histories, now=eighths(-80, 1600))
def test_it_never_holds_after_a_lapse(timing: Timing, began_at: float, history: list[Step], now: float) -> None:
    assert not lived_through(timing, began_at, [*history, Lapsed()]).holds(now)


@st.composite
def accepted(draw: st.DrawFn) -> tuple[Timing, float]:
    """Durations on the safe side of every relation, by a little or a lot, and a session timeout that goes with them."""
    heartbeat_s, kill_s, sync_limit = draw(eighths(1, 24)), draw(eighths(0, 16)), draw(st.integers(1, 10))
    tick_s = draw(eighths(1, 16)) * heartbeat_s
    margin_s = heartbeat_s + tick_s + kill_s + draw(eighths(1, 40))
    timeout_s = max(sync_limit * tick_s, margin_s + 2 * heartbeat_s) + draw(eighths(1, 80))
    return Timing(heartbeat_s, tick_s, sync_limit, kill_s, margin_s), timeout_s


@settings(max_examples=150, deadline=None)
@given(durations=accepted(), pauses=st.lists(eighths(1, 8), min_size=1, max_size=40))
def test_a_leader_that_beats_in_time_never_doubts(durations: tuple[Timing, float], pauses: list[float]) -> None:
    """The other side: with durations that are accepted and prompt answers, every beat may be followed by one that is lost."""
    timing, timeout_s = durations
    assert timing.objection(timeout_s) is None
    confirmation = Confirmation(timing, began_at=0.0)
    sent_at = 0.0
    for pause in pauses:
        confirmation.confirm(sent_at=sent_at, answered_at=sent_at, timeout_s=timeout_s)
        assert confirmation.holds(sent_at + 2 * timing.heartbeat_s)
        sent_at += timing.heartbeat_s * pause
