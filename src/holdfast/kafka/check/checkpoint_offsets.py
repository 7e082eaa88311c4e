"""What a checkpoint says of a Kafka source: for each partition, where the next batch begins and how far one is planned."""

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
class Position:
    next: int
    """The first record that no committed batch has read."""
    until: int
    """Where the batch that was planned and not committed ends, or `next` if there is none. Spark repeats that batch over the
    same offsets, so they must be there; and its sink may have taken their records already."""


Saved = Mapping[Partition, Position]


def positions(query: Query, source: int, first: str | None = None) -> dict[Partition, Position] | None:
    """None if that source of the query is none of Kafka's, or nothing of it can be read.

    `first` is what the source itself has noted in `sources/<source>/0`: where it began, which batch 0 needs.
    """
    offsets = {batch.number: batch.offsets[source] for batch in query.batches if source < len(batch.offsets)}
    planned = _of(offsets, query.planned)
    begun = _of(offsets, query.committed) if query.committed is not None else offsets_in(first)
    if planned is None or (begun is None and query.planned == query.committed):
        return None
    # A partition that the batch before did not know: Spark reads it from its first record, and expects that to be 0.
    return {partition: Position((begun or {}).get(partition, 0), until) for partition, until in planned.items()} | {
        partition: Position(next, next) for partition, next in (begun or {}).items() if partition not in planned
    }


def offsets_in(text: str | None) -> dict[Partition, int] | None:
    """The offsets of Kafka's source, `{"topic":{"0":17}}`; None for anything else, offsets of other sources too."""
    try:
        value = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
        return None
    found: dict[Partition, int] = {}
    for topic, numbers in value.items():
        for number, offset in numbers.items():
            if not _is_number(number) or not _is_offset(offset):
                return None
            found[Partition(topic, int(number))] = offset
    return found


def _of(offsets: Mapping[int, str], batch: int | None) -> dict[Partition, int] | None:
    return offsets_in(offsets.get(batch)) if batch is not None else None


def _is_number(text: Any) -> bool:
    return isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10


def _is_offset(value: Any) -> bool:
    return type(value) is int and 0 <= value <= OFFSET_MAX
