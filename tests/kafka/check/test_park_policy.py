"""Park policy: waiting times, and notes for people."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kafka.check.offset_finding import FindingKind, OffsetFinding, Severity
from holdfast.kafka.check.park_policy import CHECK_S, CONFIRM_S, ParkPolicy, ParkVerdict, summarize_findings


def finding(
    kind: FindingKind, weight: Severity, sentence: str = "sentence", topic: str = "orders", partition: int | None = 0
) -> OffsetFinding:
    return OffsetFinding(kind, weight, topic, sentence, partition)


RETENTION = finding(FindingKind.RETENTION, Severity.STOP)
BEYOND = finding(FindingKind.BEYOND_END, Severity.WAIT)
UNREACHABLE = finding(FindingKind.BROKER_UNREACHABLE, Severity.WAIT)
NEW_LEADER = finding(FindingKind.NEW_LEADER, Severity.NOTE)


def test_job_without_findings_goes_and_is_checked_regularly() -> None:
    decision = ParkPolicy().decide([], 0.0)
    assert (decision.verdict, decision.note, decision.next_check_s) == (ParkVerdict.GO, "", CHECK_S)


def test_job_with_a_note_goes_and_shows_it() -> None:
    decision = ParkPolicy().decide([NEW_LEADER], 0.0)
    assert (decision.verdict, decision.note) == (ParkVerdict.GO, "orders-0: sentence")


def test_final_finding_parks_at_the_second_check() -> None:
    policy = ParkPolicy()
    first = policy.decide([RETENTION], 100.0)
    assert (first.verdict, first.next_check_s, first.needs_confirmation) == (ParkVerdict.WAIT, CONFIRM_S, True)
    assert policy.decide([RETENTION], 100.0 + CONFIRM_S).verdict is ParkVerdict.PARK


def test_final_finding_must_persist_between_checks() -> None:
    policy = ParkPolicy()
    policy.decide([RETENTION], 0.0)
    assert policy.decide([], 10.0).verdict is ParkVerdict.GO
    assert policy.decide([RETENTION], 20.0).verdict is ParkVerdict.WAIT


def test_misplaced_offset_parks_after_the_grace_period() -> None:
    policy = ParkPolicy(grace_s=60)
    assert policy.decide([BEYOND], 0.0).verdict is ParkVerdict.WAIT
    assert policy.decide([BEYOND], 59.0).verdict is ParkVerdict.WAIT
    assert policy.decide([BEYOND], 60.0).verdict is ParkVerdict.PARK


def test_unreachable_brokers_do_not_restart_the_grace_period() -> None:
    policy = ParkPolicy(grace_s=60)
    policy.decide([BEYOND], 0.0)
    policy.decide([UNREACHABLE], 30.0)
    assert policy.decide([BEYOND], 61.0).verdict is ParkVerdict.PARK


def test_unreachable_brokers_park_only_after_the_configured_time() -> None:
    policy, limited = ParkPolicy(grace_s=60), ParkPolicy(grace_s=60, away_s=120)
    for now in (0.0, 100.0, 1e6):
        assert policy.decide([UNREACHABLE], now).verdict is ParkVerdict.WAIT
    assert limited.decide([UNREACHABLE], 0.0).verdict is ParkVerdict.WAIT
    assert limited.decide([UNREACHABLE], 120.0).verdict is ParkVerdict.PARK


def test_retry_interval_doubles_up_to_the_check_interval() -> None:
    policy = ParkPolicy(check_s=10)
    pauses = [policy.decide([UNREACHABLE], float(now)).next_check_s for now in range(6)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    policy.decide([], 10.0)
    assert policy.decide([UNREACHABLE], 11.0).next_check_s == 1.0


def test_note_stays_the_same_while_only_the_error_text_changes() -> None:
    policy = ParkPolicy()
    first = policy.decide([finding(FindingKind.BROKER_UNREACHABLE, Severity.WAIT, "refused after 1 ms")], 0.0).note
    assert policy.decide([finding(FindingKind.BROKER_UNREACHABLE, Severity.WAIT, "refused after 3 ms")], 1.0).note == first
    assert policy.decide([BEYOND], 2.0).note != first


def test_findings_of_many_partitions_are_summarized_in_one_note() -> None:
    many = [finding(FindingKind.NEW_LEADER, Severity.NOTE, partition=number) for number in range(1000)]
    assert summarize_findings(many) == "orders-0: sentence (and 999 more partitions: new leader)"


severities = {
    FindingKind.RETENTION: Severity.STOP,
    FindingKind.BEYOND_END: Severity.WAIT,
    FindingKind.BROKER_UNREACHABLE: Severity.WAIT,
    FindingKind.NEW_LEADER: Severity.NOTE,
}
check_results = st.lists(st.tuples(st.floats(0.1, 400), st.sets(st.sampled_from(sorted(severities)))), max_size=30)


@pytest.mark.slow
@given(check_results)
def test_policy_never_goes_during_a_problem_and_never_parks_after_one_check(
    results: list[tuple[float, set[FindingKind]]],
) -> None:
    policy, now, before = ParkPolicy(grace_s=600), 0.0, set[FindingKind]()
    for pause_s, kinds in results:
        now += pause_s
        decision = policy.decide([finding(kind, severities[kind]) for kind in sorted(kinds)], now)
        problems = {kind for kind in kinds if severities[kind] > Severity.NOTE}
        assert (decision.verdict is ParkVerdict.GO) == (not problems)
        if decision.verdict is ParkVerdict.PARK:
            assert problems & (before | {FindingKind.BEYOND_END}) and problems != {FindingKind.BROKER_UNREACHABLE}
        assert 0 < decision.next_check_s <= CHECK_S and math.isfinite(decision.next_check_s)
        before = problems
