"""Going on from other offsets: exactly the partitions that are named, and nothing else in the checkpoint."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.checkpoint import Batch, Query
from holdfast.errors import Refused
from holdfast.kafka.check.checkpoint_offsets import Partition, positions
from holdfast.kafka.check.offset_finding import Finding, Kind, Weight
from holdfast.kafka.check.offset_rewrite import EARLIEST, KEEP, LATEST, Move, moves, read_choice, rewritten, to_read

T0, T1, U0 = Partition("t", 0), Partition("t", 1), Partition("u", 0)
SAVED = (T0, T1, U0)


def wrong(partition: int | None, kind: Kind = Kind.RETENTION, *, earliest: int | None = 50, latest: int | None = 90) -> Finding:
    return Finding(kind, Weight.STOP, "t", "a sentence", partition, saved=20, earliest=earliest, latest=latest)


def note(partition: int) -> Finding:
    return Finding(Kind.ADDED, Weight.NOTE, "u", "a sentence", partition)


def test_each_choice_moves_the_partitions_that_something_is_wrong_with() -> None:
    findings = (wrong(0), note(0))
    assert moves(SAVED, findings, KEEP) == ()
    assert moves(SAVED, findings, EARLIEST) == (Move(T0, 50),)
    assert moves(SAVED, findings, LATEST) == (Move(T0, 90),)
    assert moves(SAVED, findings, {T0: 77}) == (Move(T0, 77),)


def test_of_a_topic_that_is_gone_nothing_is_said_any_more() -> None:
    deleted = wrong(None, Kind.DELETED, earliest=None, latest=None)
    assert moves(SAVED, [deleted], EARLIEST) == (Move(T0, None), Move(T1, None))


@pytest.mark.parametrize(
    ("findings", "choice", "sentence"),
    [
        ([wrong(0)], {T1: 1, T0: 60}, "nothing is wrong with t-1: only what the table names can be moved"),
        ([wrong(0), wrong(1)], {T0: 60}, "no offset is given for t-1"),
        ([wrong(0)], {T0: 91}, "91 is not in the log of t-0, which goes from 50 to 90"),
        (
            [wrong(0, Kind.BROKER_AWAY, earliest=None)],
            LATEST,
            "what there is of t-0 was not answered: 'keep' lets it be looked at",
        ),
        ([wrong(0, Kind.GONE, earliest=None, latest=None)], {T0: 1}, "there is nothing of t-0 to go on from"),
    ],
)
def test_a_choice_that_there_is_not_is_refused(findings: list[Finding], choice: object, sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        moves(SAVED, findings, choice)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "{}", "17", '{"t": 17}', '{"t": {"x": 1}}', '{"t": {"0": -1}}'])
def test_what_is_no_choice_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        read_choice(text)


# In the checkpoint

FIRST = '\0v1\n{"t":{"0":5,"1":5},"u":{"0":5}}'
HEADER = 'v1\n{"batchWatermarkMs":0}'


def offsets(zero: int, one: int) -> str:
    return json.dumps({"t": {"0": zero, "1": one}, "u": {"0": 7}}, separators=(",", ":"))


def batch(zero: int, one: int) -> str:
    return f"{HEADER}\n-\n{offsets(zero, one)}"


def query(planned: int, committed: int | None, ends: dict[int, tuple[int, int]]) -> Query:
    batches = tuple(Batch(number, 0.0, None, offsets=("-", offsets(*end))) for number, end in ends.items())
    return Query("", "id", planned, committed, 0.0, batches)


def test_after_a_committed_batch_its_offsets_are_where_the_next_begins() -> None:
    some = query(3, 3, {3: (20, 30)})
    assert to_read(some, 1) == ("offsets/3",)
    assert rewritten(some, 1, [Move(T0, 50)], {"offsets/3": batch(20, 30)}) == {"offsets/3": batch(50, 30)}


def test_a_planned_batch_keeps_its_end_unless_the_beginning_is_beyond_it() -> None:
    some = query(4, 3, {3: (20, 30), 4: (60, 40)})
    files = {"offsets/3": batch(20, 30), "offsets/4": batch(60, 40)}
    assert to_read(some, 1) == ("offsets/3", "offsets/4")
    assert rewritten(some, 1, [Move(T0, 50)], files) == {"offsets/3": batch(50, 30)}
    moved = rewritten(some, 1, [Move(T0, 90)], files)
    assert moved == {"offsets/4": batch(90, 40), "offsets/3": batch(90, 30)}
    assert list(moved) == ["offsets/4", "offsets/3"], "the end before the beginning"


def test_before_any_commit_it_is_what_the_source_noted_itself() -> None:
    some = query(0, None, {0: (20, 30)})
    files = {"sources/1/0": FIRST, "offsets/0": batch(20, 30)}
    changed = rewritten(some, 1, [Move(T0, 9)], files)
    assert changed == {"sources/1/0": '\0v1\n{"t":{"0":9,"1":5},"u":{"0":5}}'}


def test_a_file_that_is_not_what_it_should_be_is_left_alone() -> None:
    with pytest.raises(Refused, match="offsets/3 has no offsets of Kafka where they should be"):
        rewritten(query(3, 3, {3: (20, 30)}), 0, [Move(T0, 50)], {"offsets/3": batch(20, 30)})


numbers = st.integers(0, 2**40)


@given(begin=st.tuples(numbers, numbers), more=st.tuples(numbers, numbers), to=numbers, planned=st.booleans())
def test_only_what_is_named_is_moved_and_a_batch_never_ends_before_it_begins(
    begin: tuple[int, int], more: tuple[int, int], to: int, planned: bool
) -> None:
    end = (begin[0] + more[0], begin[1] + more[1])
    some = query(4 if planned else 3, 3, {3: begin, **({4: end} if planned else {})})
    files = {"offsets/3": batch(*begin), **({"offsets/4": batch(*end)} if planned else {})}
    after = files | rewritten(some, 1, [Move(T0, to)], files)
    ends = {number: json.loads(after[f"offsets/{number}"].split("\n")[3])["t"] for number in ((3, 4) if planned else (3,))}
    moved = query(some.planned or 0, 3, {number: (each["0"], each["1"]) for number, each in ends.items()})
    before, now = positions(some, 1), positions(moved, 1)
    assert before is not None and now is not None
    assert now[T0].next == to and now[T0].until >= to
    assert now[T1] == before[T1] and now[U0] == before[U0]
    assert after["offsets/3"].split("\n")[:3] == files["offsets/3"].split("\n")[:3]
