"""Which durations are safe together, and how long a leader may believe that it leads."""

import pytest

from holdfast.zk.session.timing import Confirmation, Timing

TIMING = Timing(heartbeat_s=1, tick_s=2, sync_limit=5, kill_s=1, margin_s=5)
T_S = 15.0


def test_the_defaults_are_safe_with_the_default_session_timeout() -> None:
    assert Timing().objection(15.0) is None


@pytest.mark.parametrize(
    ("timing", "timeout_s", "says"),
    [
        (Timing(heartbeat_s=0.9, tick_s=2, margin_s=5), 15, "heartbeat 0.9 s must be at least half a tick (2 s)"),
        (Timing(heartbeat_s=1, tick_s=2, kill_s=1, margin_s=4), 15, "margin 4 s must be more than heartbeat + tick + kill"),
        (Timing(heartbeat_s=2, tick_s=2, kill_s=1, margin_s=5), 15, "(2 + 2 + 1 = 5 s)"),
        (Timing(heartbeat_s=1, tick_s=2, kill_s=2, margin_s=5), 15, "(1 + 2 + 2 = 5 s)"),
        (Timing(tick_s=2, sync_limit=5), 10, "the session timeout of 10 s must be more than syncLimit × tick (5 × 2 = 10 s)"),
        (Timing(tick_s=2, sync_limit=8), 15, "(8 × 2 = 16 s)"),
        (Timing(sync_limit=1), 7, "less the margin of 5 s must leave more than two heartbeats of 1 s"),
    ],
)
def test_each_relation_that_does_not_hold_is_named_with_its_figures(timing: Timing, timeout_s: float, says: str) -> None:
    assert says in (timing.objection(timeout_s) or "")


@pytest.mark.parametrize(
    ("timing", "timeout_s"),
    [
        (Timing(heartbeat_s=1, tick_s=2, kill_s=1, margin_s=5), 15),
        (Timing(heartbeat_s=1, tick_s=2, kill_s=1, margin_s=4.01), 15),
        (Timing(heartbeat_s=1, tick_s=2, kill_s=1.99, margin_s=5), 15),
        (Timing(tick_s=2, sync_limit=5), 10.01),
        (Timing(sync_limit=1), 7.01),
    ],
)
def test_a_hair_on_the_safe_side_of_each_relation_is_accepted(timing: Timing, timeout_s: float) -> None:
    assert timing.objection(timeout_s) is None


def fresh(began_at: float = 0.0) -> Confirmation:
    return Confirmation(TIMING, began_at=began_at)


def heard_at(*times: float) -> Confirmation:
    """Something was sent at each of these times, and answered at once."""
    confirmation = fresh()
    for time in times:
        confirmation.heard(sent_at=time, answered_at=time)
    return confirmation


def holds_until(confirmation: Confirmation, deadline: float) -> bool:
    return confirmation.holds(deadline - 0.001) and not confirmation.holds(deadline)


def test_nothing_holds_before_the_first_write() -> None:
    assert not fresh().holds(0.0)
    assert not fresh().holds(-1000.0)


def test_a_write_counts_from_when_it_was_sent_however_late_it_was_answered() -> None:
    confirmation = heard_at(8)
    confirmation.confirm(sent_at=10, answered_at=19, timeout_s=T_S)
    assert holds_until(confirmation, 10 + T_S - TIMING.margin_s)


def test_the_first_write_of_a_session_counts_because_its_creation_gave_it_its_full_time() -> None:
    confirmation = fresh(began_at=100)
    confirmation.confirm(sent_at=100.5, answered_at=100.6, timeout_s=T_S)
    assert holds_until(confirmation, 100.5 + T_S - TIMING.margin_s)


def test_after_a_silence_a_write_counts_no_further_than_what_was_heard_before() -> None:
    """It may have been committed a moment before the session expired."""
    confirmation = heard_at(50)
    confirmation.confirm(sent_at=60, answered_at=60, timeout_s=T_S)
    assert holds_until(confirmation, 50 + TIMING.tick_s + TIMING.heartbeat_s + T_S - TIMING.margin_s)


def test_after_a_silence_longer_than_the_session_a_committed_write_alone_holds_nothing() -> None:
    confirmation = heard_at(50)
    confirmation.confirm(sent_at=1000, answered_at=1000, timeout_s=T_S)
    assert not confirmation.holds(1000)


def test_a_tick_after_a_silence_a_write_counts_in_full_again() -> None:
    confirmation = heard_at(50)
    confirmation.confirm(sent_at=1000, answered_at=1000, timeout_s=T_S)
    confirmation.confirm(sent_at=1001.9, answered_at=1001.9, timeout_s=T_S)
    assert not confirmation.holds(1001.9), "what was heard at 1000 may not have been reported yet"
    confirmation.confirm(sent_at=1002, answered_at=1002, timeout_s=T_S)
    assert holds_until(confirmation, 1002 + T_S - TIMING.margin_s)


@pytest.mark.parametrize(("answered_at", "counts_from"), [(58.0, 60.0), (58.001, 53.0)])
def test_what_was_heard_counts_only_if_it_was_answered_a_tick_before_the_write(answered_at: float, counts_from: float) -> None:
    confirmation = heard_at(50)
    confirmation.heard(sent_at=57.5, answered_at=answered_at)
    confirmation.confirm(sent_at=60, answered_at=60, timeout_s=T_S)
    assert holds_until(confirmation, counts_from + T_S - TIMING.margin_s)


def test_what_was_heard_counts_from_when_it_was_sent() -> None:
    """The server knew of the session at some moment after that, and nobody knows how much later."""
    confirmation = fresh()
    confirmation.heard(sent_at=50, answered_at=57)
    confirmation.confirm(sent_at=60, answered_at=60, timeout_s=T_S)
    assert holds_until(confirmation, 50 + TIMING.tick_s + TIMING.heartbeat_s + T_S - TIMING.margin_s)


def test_reads_alone_confirm_nothing() -> None:
    confirmation = heard_at(*range(100))
    assert not confirmation.holds(0)
    assert not confirmation.holds(99)


def test_a_steady_heartbeat_holds_without_a_gap() -> None:
    confirmation = fresh()
    for second in range(100):
        confirmation.confirm(sent_at=second, answered_at=second + 0.1, timeout_s=T_S)
        assert confirmation.holds(second + 1.1)


def test_what_lapsed_holds_no_longer_and_the_next_write_begins_anew() -> None:
    confirmation = heard_at(8)
    confirmation.confirm(sent_at=10, answered_at=10, timeout_s=T_S)
    assert confirmation.holds(10)
    confirmation.lapse()
    assert not confirmation.holds(10)
    confirmation.confirm(sent_at=11, answered_at=11, timeout_s=T_S)
    assert holds_until(confirmation, 11 + T_S - TIMING.margin_s)


def test_what_was_heard_long_ago_is_forgotten() -> None:
    """A node lives for months and beats every second."""
    confirmation = heard_at(*range(10_000))
    assert len(confirmation._heard) == Confirmation.HEARD_MAX


def test_many_answers_within_a_tick_do_not_push_out_what_was_heard_before_it() -> None:
    """A storm of watches makes a leader look a hundred times a second. It still leads."""
    confirmation = heard_at(58, *(59 + n / 100 for n in range(100)))
    confirmation.confirm(sent_at=60, answered_at=60, timeout_s=T_S)
    assert holds_until(confirmation, 60 + T_S - TIMING.margin_s)


def test_a_session_timeout_cut_down_at_a_reconnection_shortens_what_holds() -> None:
    confirmation = heard_at(8)
    confirmation.confirm(sent_at=10, answered_at=10, timeout_s=T_S)
    confirmation.confirm(sent_at=11, answered_at=11, timeout_s=8.0)
    assert holds_until(confirmation, 11 + 8.0 - TIMING.margin_s)
