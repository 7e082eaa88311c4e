"""How long what is wrong is waited for, and what people are told meanwhile."""

import math

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kafka import Finding, Kind, Weight
from holdfast.kafka.check.park_policy import CHECK_S, CONFIRM_S, Patience, Verdict, remark


def finding(kind: Kind, weight: Weight, sentence: str = "words", topic: str = "orders", partition: int | None = 0) -> Finding:
    return Finding(kind, weight, topic, sentence, partition)


LOST = finding(Kind.RETENTION, Weight.STOP)
BEYOND = finding(Kind.BEYOND_END, Weight.WAIT)
AWAY = finding(Kind.BROKER_AWAY, Weight.WAIT)
MOVED = finding(Kind.MOVED, Weight.NOTE)


def test_nothing_wrong_goes_on_and_is_looked_at_now_and_then() -> None:
    decision = Patience().decide([], 0.0)
    assert (decision.verdict, decision.note, decision.again_s) == (Verdict.GO, "", CHECK_S)


def test_a_note_goes_on_and_is_told() -> None:
    decision = Patience().decide([MOVED], 0.0)
    assert (decision.verdict, decision.note) == (Verdict.GO, "orders-0: words")


def test_what_is_certain_parks_at_the_second_look_and_not_at_the_first() -> None:
    patience = Patience()
    first = patience.decide([LOST], 100.0)
    assert (first.verdict, first.again_s, first.certain) == (Verdict.WAIT, CONFIRM_S, True)
    assert patience.decide([LOST], 100.0 + CONFIRM_S).verdict is Verdict.PARK


def test_what_was_certain_once_and_is_gone_at_the_next_look_begins_anew() -> None:
    patience = Patience()
    patience.decide([LOST], 0.0)
    assert patience.decide([], 10.0).verdict is Verdict.GO
    assert patience.decide([LOST], 20.0).verdict is Verdict.WAIT


def test_an_offset_out_of_place_is_waited_for_and_parks_after_the_grace_time() -> None:
    patience = Patience(grace_s=60)
    assert patience.decide([BEYOND], 0.0).verdict is Verdict.WAIT
    assert patience.decide([BEYOND], 59.0).verdict is Verdict.WAIT
    assert patience.decide([BEYOND], 60.0).verdict is Verdict.PARK


def test_brokers_that_go_away_meanwhile_do_not_begin_the_grace_time_anew() -> None:
    patience = Patience(grace_s=60)
    patience.decide([BEYOND], 0.0)
    patience.decide([AWAY], 30.0)
    assert patience.decide([BEYOND], 61.0).verdict is Verdict.PARK


def test_brokers_that_are_away_are_waited_for_as_long_as_it_takes_unless_the_job_says_otherwise() -> None:
    patience, impatient = Patience(grace_s=60), Patience(grace_s=60, away_s=120)
    for now in (0.0, 100.0, 1e6):
        assert patience.decide([AWAY], now).verdict is Verdict.WAIT
    assert impatient.decide([AWAY], 0.0).verdict is Verdict.WAIT
    assert impatient.decide([AWAY], 120.0).verdict is Verdict.PARK


def test_looks_become_rarer_while_it_waits_and_never_rarer_than_usual() -> None:
    patience = Patience(check_s=10)
    pauses = [patience.decide([AWAY], float(now)).again_s for now in range(6)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    patience.decide([], 10.0)
    assert patience.decide([AWAY], 11.0).again_s == 1.0


def test_a_note_stays_the_same_while_the_same_is_wrong_whatever_words_brokers_find() -> None:
    patience = Patience()
    first = patience.decide([finding(Kind.BROKER_AWAY, Weight.WAIT, "refused after 1 ms")], 0.0).note
    assert patience.decide([finding(Kind.BROKER_AWAY, Weight.WAIT, "refused after 3 ms")], 1.0).note == first
    assert patience.decide([BEYOND], 2.0).note != first


def test_many_partitions_are_one_remark() -> None:
    many = [finding(Kind.MOVED, Weight.NOTE, partition=number) for number in range(1000)]
    assert remark(many) == "orders-0: words (and 999 more partitions: new leader)"


weights = {Kind.RETENTION: Weight.STOP, Kind.BEYOND_END: Weight.WAIT, Kind.BROKER_AWAY: Weight.WAIT, Kind.MOVED: Weight.NOTE}
looks = st.lists(st.tuples(st.floats(0.1, 400), st.sets(st.sampled_from(sorted(weights)))), max_size=30)


@given(looks)
def test_never_goes_on_while_something_is_wrong_and_never_parks_for_what_was_seen_once(
    steps: list[tuple[float, set[Kind]]],
) -> None:
    patience, now, before = Patience(grace_s=600), 0.0, set[Kind]()
    for pause_s, kinds in steps:
        now += pause_s
        decision = patience.decide([finding(kind, weights[kind]) for kind in sorted(kinds)], now)
        wrong = {kind for kind in kinds if weights[kind] > Weight.NOTE}
        assert (decision.verdict is Verdict.GO) == (not wrong)
        if decision.verdict is Verdict.PARK:
            assert wrong & (before | {Kind.BEYOND_END}) and wrong != {Kind.BROKER_AWAY}
        assert 0 < decision.again_s <= CHECK_S and math.isfinite(decision.again_s)
        before = wrong
