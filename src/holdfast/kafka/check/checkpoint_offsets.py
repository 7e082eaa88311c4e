"""Kafka offsets of a checkpoint: for each partition, the next offset and the end of a planned batch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.checkpoint import Query

OFFSET_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    next_offset: int
    """Offset of the first record that no committed batch has read."""
    planned_end: int
    """End of the batch that is planned but not committed, or `next_offset` without such a batch.

    Spark repeats this batch over the same offsets, so their records must exist. The sink may already have them.
    """


SavedOffsets = Mapping[Partition, PartitionPosition]


def read_positions(
    query: Query, source: int, first: str | None = None, *, name: str = ""
) -> dict[Partition, PartitionPosition] | None:
    """Return the position of each partition, or None if the source is not a Kafka source or its offsets are unreadable.

    `name` is the name that the script gave the source; without one, its position in the query counts. `first` is the content
    of the source's own log: the starting offsets, which batch 0 needs.
    """
    found = ((batch.number, batch.offset_of(source, name)) for batch in query.batches)
    offsets = {number: offset for number, offset in found if offset is not None}
    planned = _parse_batch(offsets, query.planned)
    start = _parse_batch(offsets, query.committed) if query.committed is not None else parse_offsets(first)
    if planned is None or (start is None and query.planned == query.committed):
        return None
    start = start or {}
    # Spark reads a partition that the previous batch did not have from offset 0.
    positions = {partition: PartitionPosition(start.get(partition, 0), end) for partition, end in planned.items()}
    return positions | {
        partition: PartitionPosition(offset, offset) for partition, offset in start.items() if partition not in planned
    }


def parse_offsets(text: str | None) -> dict[Partition, int] | None:
    """Parse the offsets of a Kafka source, `{"topic":{"0":17}}`. Return None for anything else."""
    try:
        value = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
        return None
    offsets: dict[Partition, int] = {}
    for topic, numbers in value.items():
        for number, offset in numbers.items():
            if not _is_partition_number(number) or not _is_offset(offset):
                return None
            offsets[Partition(topic, int(number))] = offset
    return offsets


def _parse_batch(offsets: Mapping[int, str], batch: int | None) -> dict[Partition, int] | None:
    return parse_offsets(offsets.get(batch)) if batch is not None else None


def _is_partition_number(text: Any) -> bool:
    return isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10


def _is_offset(value: Any) -> bool:
    return type(value) is int and 0 <= value <= OFFSET_MAX
