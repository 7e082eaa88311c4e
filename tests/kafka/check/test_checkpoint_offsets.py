"""Kafka positions in a checkpoint."""

import pytest

from holdfast.checkpoint import Batch, Query
from holdfast.kafka.check.checkpoint_offsets import Partition, PartitionPosition, parse_offsets, read_positions

T0, T1 = Partition("t", 0), Partition("t", 1)


def query(committed: int | None, *batches: tuple[int, str]) -> Query:
    planned = tuple(Batch(number, 0.0, None, 0, (text,)) for number, text in batches)
    return Query("", "id", max((number for number, _ in batches), default=None), committed, 0.0, planned)


def test_next_batch_starts_at_the_end_of_the_committed_batch() -> None:
    assert read_positions(query(1, (0, '{"t":{"0":5}}'), (1, '{"t":{"0":17,"1":3}}')), 0) == {
        T0: PartitionPosition(17, 17),
        T1: PartitionPosition(3, 3),
    }


def test_planned_batch_starts_at_the_end_of_the_previous_batch() -> None:
    assert read_positions(query(0, (0, '{"t":{"0":5}}'), (1, '{"t":{"0":17}}')), 0) == {T0: PartitionPosition(5, 17)}


def test_first_batch_starts_at_the_starting_offsets_of_the_source() -> None:
    assert read_positions(query(None, (0, '{"t":{"0":17}}')), 0, '{"t":{"0":4}}') == {T0: PartitionPosition(4, 17)}


def test_new_partition_of_a_planned_batch_starts_at_offset_0() -> None:
    assert read_positions(query(0, (0, '{"t":{"0":5}}'), (1, '{"t":{"0":5,"1":7}}')), 0) == {
        T0: PartitionPosition(5, 5),
        T1: PartitionPosition(0, 7),
    }


def test_partition_that_a_planned_batch_lacks_keeps_its_position() -> None:
    assert read_positions(query(0, (0, '{"t":{"0":5,"1":7}}'), (1, '{"t":{"0":6}}')), 0) == {
        T0: PartitionPosition(5, 6),
        T1: PartitionPosition(7, 7),
    }


def test_query_without_batches_has_no_positions() -> None:
    assert read_positions(query(None), 0) is None
    assert read_positions(query(0, (0, '{"t":{"0":5}}')), 1) is None


def test_source_with_a_name_is_found_by_its_name_in_any_order() -> None:
    before = Batch(0, 0.0, 0.0, 0, ('{"t":{"0":5}}', '{"u":{"0":7}}'), ("left", "right"))
    after = Batch(1, 0.0, None, 0, ('{"new":{"0":1}}', '{"u":{"0":9}}', '{"t":{"0":6}}'), ("third", "right", "left"))
    reordered = Query("", "id", 1, 0, 0.0, (before, after))
    assert read_positions(reordered, 0, name="left") == {T0: PartitionPosition(5, 6)}
    assert read_positions(reordered, 0, name="right") == {Partition("u", 0): PartitionPosition(7, 9)}
    assert read_positions(reordered, 0, name="third") == {Partition("new", 0): PartitionPosition(0, 1)}
    assert read_positions(reordered, 0, name="gone") is None
    unnamed = Query("", "id", 1, 1, 0.0, (Batch(1, 0.0, 0.0, 0, ('{"t":{"0":6}}', "7"), ("0", "1")),))
    assert read_positions(unnamed, 0, name="left") == {T0: PartitionPosition(6, 6)}, "Spark keeps no names in version 1"
    assert read_positions(reordered, 0) is None, "a position means nothing where sources have names"


INVALID = ["", "-", "[]", "{" * 9999, '{"t":{"x":1}}', '{"t":{"0":"1"}}', '{"t":{"0":-1}}', '{"t":{"0":true}}', '{"t":[1]}']


@pytest.mark.parametrize("text", ["7", '{"logOffset":3}', *INVALID])
def test_offsets_of_other_sources_and_invalid_text_are_rejected(text: str) -> None:
    assert parse_offsets(text) is None
