"""Safe durations, and the deadline of a confirmed session."""

import pytest

from holdfast.zk.session.timing import Confirmation, SteadyContact, Timing

TIMING = Timing(heartbeat_s=1, tick_s=2, sync_limit=5, kill_s=1, margin_s=5)
T_S = 15.0


def test_default_timing_is_safe_with_the_default_session_timeout() -> None:
    assert Timing().find_problem(15.0) is None


@pytest.mark.parametrize(
    ("timing", "timeout_s", "problem"),
    [
        (Timing(heartbeat_s=0.9, tick_s=2, margin_s=5), 15, "heartbeat 0.9 s must be at least half a tick (2 s)"),
        (Timing(heartbeat_s=1, tick_s=2, kill_s=1, margin_s=4), 15, "margin 4 s must be more than heartbeat + tick + kill"),
        (Timing(heartbeat_s=2, tick_s=2, kill_s=1, margin_s=5), 15, "(2 + 2 + 1 = 5 s)"),
        (Timing(heartbeat_s=1, tick_s=2, kill_s=2, margin_s=5), 15, "(1 + 2 + 2 = 5 s)"),
        (Timing(tick_s=2, sync_limit=5), 10, "the session timeout of 10 s must be more than syncLimit × tick (5 × 2 = 10 s)"),
        (Timing(tick_s=2, sync_limit=8), 15, "(8 × 2 = 16 s)"),
        (Timing(sync_limit=1), 7, "minus the margin of 5 s must be more than two heartbeats of 1 s"),
    ],
)
def test_each_violated_inequality_is_described_with_its_values(timing: Timing, timeout_s: float, problem: str) -> None:
    assert problem in (timing.find_problem(timeout_s) or "")


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
def test_values_just_inside_each_inequality_are_accepted(timing: Timing, timeout_s: float) -> None:
    assert timing.find_problem(timeout_s) is None


def new_confirmation(started_at: float = 0.0) -> Confirmation:
    return Confirmation(TIMING, started_at=started_at)


def with_contacts_at(*times: float) -> Confirmation:
    """Return a confirmation with a call sent and answered at each of these times."""
    confirmation = new_confirmation()
    for time in times:
        confirmation.record_contact(sent_at=time, answered_at=time)
    return confirmation


def holds_until(confirmation: Confirmation, deadline: float) -> bool:
    return confirmation.holds(deadline - 0.001) and not confirmation.holds(deadline)


def test_session_is_not_confirmed_before_the_first_write() -> None:
    assert not new_confirmation().holds(0.0)
    assert not new_confirmation().holds(-1000.0)


def test_write_counts_from_its_send_time() -> None:
    confirmation = with_contacts_at(8)
    confirmation.confirm(sent_at=10, answered_at=19, timeout_s=T_S)
    assert holds_until(confirmation, 10 + T_S - TIMING.margin_s)


def test_first_write_counts_because_the_creation_of_the_session_is_a_contact() -> None:
    confirmation = new_confirmation(started_at=100)
    confirmation.confirm(sent_at=100.5, answered_at=100.6, timeout_s=T_S)
    assert holds_until(confirmation, 100.5 + T_S - TIMING.margin_s)


def test_first_write_after_a_pause_counts_from_the_last_contact_before_it() -> None:
    """The write may have been committed just before the session expired."""
    confirmation = with_contacts_at(50)
    confirmation.confirm(sent_at=60, answered_at=60, timeout_s=T_S)
    assert holds_until(confirmation, 50 + TIMING.tick_s + TIMING.heartbeat_s + T_S - TIMING.margin_s)


def test_first_write_after_a_pause_longer_than_the_timeout_confirms_nothing() -> None:
    confirmation = with_contacts_at(50)
    confirmation.confirm(sent_at=1000, answered_at=1000, timeout_s=T_S)
    assert not confirmation.holds(1000)


def test_write_a_tick_after_the_first_contact_following_a_pause_counts_fully() -> None:
    confirmation = with_contacts_at(50)
    confirmation.confirm(sent_at=1000, answered_at=1000, timeout_s=T_S)
    confirmation.confirm(sent_at=1001.9, answered_at=1001.9, timeout_s=T_S)
    assert not confirmation.holds(1001.9), "the contact at 1000 may not have been reported yet"
    confirmation.confirm(sent_at=1002, answered_at=1002, timeout_s=T_S)
    assert holds_until(confirmation, 1002 + T_S - TIMING.margin_s)


@pytest.mark.parametrize(("answered_at", "valid_from"), [(58.0, 60.0), (58.001, 53.0)])
def test_contact_counts_only_if_it_was_answered_a_tick_before_the_write(answered_at: float, valid_from: float) -> None:
    confirmation = with_contacts_at(50)
    confirmation.record_contact(sent_at=57.5, answered_at=answered_at)
    confirmation.confirm(sent_at=60, answered_at=60, timeout_s=T_S)
    assert holds_until(confirmation, valid_from + T_S - TIMING.margin_s)


def test_contact_counts_from_its_send_time() -> None:
    """The server processed the call at an unknown time after it was sent."""
    confirmation = new_confirmation()
    confirmation.record_contact(sent_at=50, answered_at=57)
    confirmation.confirm(sent_at=60, answered_at=60, timeout_s=T_S)
    assert holds_until(confirmation, 50 + TIMING.tick_s + TIMING.heartbeat_s + T_S - TIMING.margin_s)


def test_reads_without_a_write_confirm_nothing() -> None:
    confirmation = with_contacts_at(*range(100))
    assert not confirmation.holds(0)
    assert not confirmation.holds(99)


def test_regular_heartbeats_keep_the_session_confirmed() -> None:
    confirmation = new_confirmation()
    for second in range(100):
        confirmation.confirm(sent_at=second, answered_at=second + 0.1, timeout_s=T_S)
        assert confirmation.holds(second + 1.1)


def test_invalidation_ends_the_confirmation_until_the_next_write() -> None:
    confirmation = with_contacts_at(8)
    confirmation.confirm(sent_at=10, answered_at=10, timeout_s=T_S)
    assert confirmation.holds(10)
    confirmation.invalidate()
    assert not confirmation.holds(10)
    confirmation.confirm(sent_at=11, answered_at=11, timeout_s=T_S)
    assert holds_until(confirmation, 11 + T_S - TIMING.margin_s)


def test_number_of_stored_contacts_is_bounded() -> None:
    """A node runs for months and sends a heartbeat every second."""
    confirmation = with_contacts_at(*range(10_000))
    assert len(confirmation._contacts) == Confirmation.CONTACTS_MAX


def test_many_contacts_within_a_tick_do_not_evict_earlier_ones() -> None:
    """Many watches can make a leader read a hundred times per second. The leader stays confirmed."""
    confirmation = with_contacts_at(58, *(59 + n / 100 for n in range(100)))
    confirmation.confirm(sent_at=60, answered_at=60, timeout_s=T_S)
    assert holds_until(confirmation, 60 + T_S - TIMING.margin_s)


def test_shorter_timeout_after_a_reconnection_shortens_the_deadline() -> None:
    confirmation = with_contacts_at(8)
    confirmation.confirm(sent_at=10, answered_at=10, timeout_s=T_S)
    confirmation.confirm(sent_at=11, answered_at=11, timeout_s=8.0)
    assert holds_until(confirmation, 11 + 8.0 - TIMING.margin_s)


def test_contact_is_undisturbed_since_the_first_contact_after_the_last_gap() -> None:
    contact = SteadyContact(gap_s_max=4.0)
    assert contact.undisturbed_since(9.0) == 9.0, "a new agent has had no contact yet"
    for at in (10.0, 13.0, 17.0):
        contact.record(at)
    assert contact.undisturbed_since(18.0) == 10.0
    assert contact.undisturbed_since(21.5) == 21.5, "the contact is interrupted"
    contact.record(22.0)
    assert contact.undisturbed_since(23.0) == 22.0
