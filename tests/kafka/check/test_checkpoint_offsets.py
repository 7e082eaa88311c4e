"""What a checkpoint says of a Kafka source."""

import pytest

from holdfast.checkpoint import Batch, Query
from holdfast.kafka import Partition, Position, positions
from holdfast.kafka.check.checkpoint_offsets import offsets_in

T0, T1 = Partition("t", 0), Partition("t", 1)


def query(committed: int | None, *batches: tuple[int, str]) -> Query:
    written = tuple(Batch(number, 0.0, None, 0, (text,)) for number, text in batches)
    return Query("", "id", max((number for number, _ in batches), default=None), committed, 0.0, written)


def test_after_a_commit_the_next_batch_begins_where_it_ended() -> None:
    assert positions(query(1, (0, '{"t":{"0":5}}'), (1, '{"t":{"0":17,"1":3}}')), 0) == {
        T0: Position(17, 17),
        T1: Position(3, 3),
    }


def test_a_batch_that_was_planned_is_repeated_from_where_the_one_before_ended() -> None:
    assert positions(query(0, (0, '{"t":{"0":5}}'), (1, '{"t":{"0":17}}')), 0) == {T0: Position(5, 17)}


def test_the_first_batch_is_repeated_from_where_the_source_began() -> None:
    assert positions(query(None, (0, '{"t":{"0":17}}')), 0, '{"t":{"0":4}}') == {T0: Position(4, 17)}


def test_a_partition_that_a_planned_batch_has_found_begins_at_0() -> None:
    assert positions(query(0, (0, '{"t":{"0":5}}'), (1, '{"t":{"0":5,"1":7}}')), 0) == {T0: Position(5, 5), T1: Position(0, 7)}


def test_a_partition_that_a_planned_batch_does_not_know_any_more_is_not_forgotten() -> None:
    assert positions(query(0, (0, '{"t":{"0":5,"1":7}}'), (1, '{"t":{"0":6}}')), 0) == {T0: Position(5, 6), T1: Position(7, 7)}


def test_a_query_without_batches_says_nothing() -> None:
    assert positions(query(None), 0) is None
    assert positions(query(0, (0, '{"t":{"0":5}}')), 1) is None


GARBAGE = ["", "-", "[]", "{" * 9999, '{"t":{"x":1}}', '{"t":{"0":"1"}}', '{"t":{"0":-1}}', '{"t":{"0":true}}', '{"t":[1]}']


@pytest.mark.parametrize("text", ["7", '{"logOffset":3}', *GARBAGE])
def test_offsets_of_other_sources_and_garbage_are_none_of_kafkas(text: str) -> None:
    assert offsets_in(text) is None
