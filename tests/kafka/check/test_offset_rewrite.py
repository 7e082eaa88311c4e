"""Rewriting checkpoint offsets: only the chosen partitions change."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.checkpoint import Batch, Query
from holdfast.errors import Refused
from holdfast.kafka.check.checkpoint_offsets import Partition, read_positions
from holdfast.kafka.check.offset_finding import FindingKind, OffsetFinding, Severity
from holdfast.kafka.check.offset_rewrite import (
    EARLIEST,
    KEEP,
    LATEST,
    OffsetMove,
    files_to_rewrite,
    parse_chosen_offsets,
    plan_moves,
    rewrite_offsets,
)

T0, T1, U0 = Partition("t", 0), Partition("t", 1), Partition("u", 0)
SAVED = (T0, T1, U0)


def make_finding(
    partition: int | None, kind: FindingKind = FindingKind.RETENTION, *, earliest: int | None = 50, latest: int | None = 90
) -> OffsetFinding:
    return OffsetFinding(kind, Severity.STOP, "t", "a sentence", partition, saved=20, earliest=earliest, latest=latest)


def note(partition: int) -> OffsetFinding:
    return OffsetFinding(FindingKind.PARTITION_ADDED, Severity.NOTE, "u", "a sentence", partition)


def test_each_choice_moves_only_affected_partitions() -> None:
    findings = (make_finding(0), note(0))
    assert plan_moves(SAVED, findings, KEEP) == ()
    assert plan_moves(SAVED, findings, EARLIEST) == (OffsetMove(T0, 50),)
    assert plan_moves(SAVED, findings, LATEST) == (OffsetMove(T0, 90),)
    assert plan_moves(SAVED, findings, {T0: 77}) == (OffsetMove(T0, 77),)


def test_partitions_of_a_deleted_topic_are_removed() -> None:
    deleted = make_finding(None, FindingKind.TOPIC_DELETED, earliest=None, latest=None)
    assert plan_moves(SAVED, [deleted], EARLIEST) == (OffsetMove(T0, None), OffsetMove(T1, None))


@pytest.mark.parametrize(
    ("findings", "choice", "sentence"),
    [
        ([make_finding(0)], {T1: 1, T0: 60}, "cannot move t-1: only partitions in the findings table can be moved"),
        ([make_finding(0), make_finding(1)], {T0: 60}, "no offset given for t-1"),
        ([make_finding(0)], {T0: 91}, "offset 91 is outside the log of t-0, which goes from 50 to 90"),
        (
            [make_finding(0, FindingKind.BROKER_UNREACHABLE, earliest=None)],
            LATEST,
            "the brokers did not report the offsets of t-0: choose 'keep' to check it again",
        ),
        (
            [make_finding(0, FindingKind.PARTITION_MISSING, earliest=None, latest=None)],
            {T0: 1},
            "no offset can be chosen for t-0: the brokers did not report its log",
        ),
    ],
)
def test_impossible_choice_is_refused(findings: list[OffsetFinding], choice: str | dict[Partition, int], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        plan_moves(SAVED, findings, choice)


@pytest.mark.parametrize("text", ["", "{}", "17", '{"t": 17}', '{"t": {"x": 1}}', '{"t": {"0": -1}}'])
def test_malformed_choice_file_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        parse_chosen_offsets(text)


# Rewritten checkpoint files

FIRST = '\0v1\n{"t":{"0":5,"1":5},"u":{"0":5}}'
HEADER = 'v1\n{"batchWatermarkMs":0}'


def offsets(zero: int, one: int) -> str:
    return json.dumps({"t": {"0": zero, "1": one}, "u": {"0": 7}}, separators=(",", ":"))


def batch(zero: int, one: int) -> str:
    return f"{HEADER}\n-\n{offsets(zero, one)}"


def query(planned: int, committed: int | None, ends: dict[int, tuple[int, int]]) -> Query:
    batches = tuple(Batch(number, 0.0, None, offsets=("-", offsets(*end))) for number, end in ends.items())
    return Query("", "id", planned, committed, 0.0, batches)


def test_offsets_of_the_committed_batch_are_rewritten() -> None:
    before = query(3, 3, {3: (20, 30)})
    assert files_to_rewrite(before, 1) == ("offsets/3",)
    assert rewrite_offsets(before, 1, [OffsetMove(T0, 50)], {"offsets/3": batch(20, 30)}) == {"offsets/3": batch(50, 30)}


def test_planned_batch_keeps_its_end_unless_the_beginning_is_beyond_it() -> None:
    before = query(4, 3, {3: (20, 30), 4: (60, 40)})
    files = {"offsets/3": batch(20, 30), "offsets/4": batch(60, 40)}
    assert files_to_rewrite(before, 1) == ("offsets/3", "offsets/4")
    assert rewrite_offsets(before, 1, [OffsetMove(T0, 50)], files) == {"offsets/3": batch(50, 30)}
    moved = rewrite_offsets(before, 1, [OffsetMove(T0, 90)], files)
    assert moved == {"offsets/4": batch(90, 40), "offsets/3": batch(90, 30)}
    assert list(moved) == ["offsets/4", "offsets/3"], "the end before the beginning"


def test_starting_offsets_are_rewritten_before_the_first_commit() -> None:
    before = query(0, None, {0: (20, 30)})
    files = {"sources/1/0": FIRST, "offsets/0": batch(20, 30)}
    changed = rewrite_offsets(before, 1, [OffsetMove(T0, 9)], files)
    assert changed == {"sources/1/0": '\0v1\n{"t":{"0":9,"1":5},"u":{"0":5}}'}


def test_file_without_kafka_offsets_is_refused() -> None:
    with pytest.raises(Refused, match="offsets/3 has no Kafka offsets in line 3"):
        rewrite_offsets(query(3, 3, {3: (20, 30)}), 0, [OffsetMove(T0, 50)], {"offsets/3": batch(20, 30)})


numbers = st.integers(0, 2**40)


@given(begin=st.tuples(numbers, numbers), more=st.tuples(numbers, numbers), to=numbers, planned=st.booleans())
def test_only_chosen_partitions_move_and_a_batch_never_ends_before_it_begins(
    begin: tuple[int, int], more: tuple[int, int], to: int, planned: bool
) -> None:
    end = (begin[0] + more[0], begin[1] + more[1])
    before = query(4 if planned else 3, 3, {3: begin, **({4: end} if planned else {})})
    files = {"offsets/3": batch(*begin), **({"offsets/4": batch(*end)} if planned else {})}
    after = files | rewrite_offsets(before, 1, [OffsetMove(T0, to)], files)
    ends = {number: json.loads(after[f"offsets/{number}"].split("\n")[3])["t"] for number in ((3, 4) if planned else (3,))}
    moved = query(before.planned or 0, 3, {number: (each["0"], each["1"]) for number, each in ends.items()})
    old, new = read_positions(before, 1), read_positions(moved, 1)
    assert old is not None and new is not None
    assert new[T0].next_offset == to and new[T0].planned_end >= to
    assert new[T1] == old[T1] and new[U0] == old[U0]
    assert after["offsets/3"].split("\n")[:3] == files["offsets/3"].split("\n")[:3]


def test_offsets_of_a_source_with_a_name_are_rewritten_in_its_own_line() -> None:
    texts = ('{"new":{"0":1}}', '{"t":{"0":20}}')
    query = Query("", "id", 3, 3, 0.0, (Batch(3, 0.0, 0.0, 0, texts, ("third", "left")),))
    files = {"offsets/3": "v2\n{}\nthird:" + texts[0] + "\nleft:" + texts[1]}
    changed = rewrite_offsets(query, 0, [OffsetMove(T0, 50)], files, name="left")
    assert changed == {"offsets/3": 'v2\n{}\nthird:{"new":{"0":1}}\nleft:{"t":{"0":50}}'}
    with pytest.raises(Refused, match="has no Kafka offsets"):
        rewrite_offsets(query, 0, [OffsetMove(T0, 50)], files, name="gone")
    assert files_to_rewrite(Query("", "id", 0, None, 0.0), 0, "left") == ("sources/left/0", "offsets/0")
