"""Progress of a driver's queries (`control_files.PROGRESS_FILE`)."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

OFFSETS_MAX = 100
LABEL_MAX = 200
OMITTED_BYTES_MAX = 100
"""Size of the largest offset that is never replaced by a sentence."""
_BATCH_ID_LIMIT = 2**63


@dataclass(frozen=True, slots=True)
class QueryProgress:
    name: str
    """Label of the query (`query_record.StartedQuery.label`)."""
    batch_id: int | None = None
    """Last batch that the query has completed."""
    rows_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class ProgressRecord:
    batch_id: int | None = None
    """Last completed batch of the query that was started first among those that are running."""
    rows_per_second: float | None = None
    """Sum over all queries."""
    offsets: tuple[Any, ...] = ()
    """End offset of each source of each query, as Spark reports it: any JSON value."""
    queries: tuple[QueryProgress, ...] = ()
    offset_queries: tuple[str, ...] = ()
    """Label of the query of each entry in `offsets`."""

    def to_json(self) -> dict[str, Any]:
        return {
            "batch_id": self.batch_id,
            "rows_per_second": self.rows_per_second,
            "offsets": list(self.offsets),
            "offset_queries": list(self.offset_queries),
            "queries": [
                {"name": query.name, "batch_id": query.batch_id, "rows_per_second": query.rows_per_second}
                for query in self.queries
            ],
        }


def limit_progress_size(record: ProgressRecord, bytes_max: int) -> ProgressRecord:
    """Return the record in at most `bytes_max` bytes of JSON: a sentence replaces the largest offsets.

    Kafka offsets of some ten thousand partitions are too large for a control file, and readers ignore a file that is too large.
    """
    while len(json.dumps(record.to_json())) > bytes_max:
        sizes = [len(json.dumps(offset)) for offset in record.offsets]
        largest = max(range(len(sizes)), key=sizes.__getitem__, default=None)
        if largest is None or sizes[largest] <= OMITTED_BYTES_MAX:
            return replace(record, offsets=(), offset_queries=(), queries=record.queries[:OFFSETS_MAX])
        omitted = f"omitted, because its size is {sizes[largest]} bytes"
        record = replace(record, offsets=(*record.offsets[:largest], omitted, *record.offsets[largest + 1 :]))
    return record


def parse_progress(fields: Mapping[str, Any]) -> ProgressRecord | None:
    """Return the record without its queries (see `parse_query_batches`), or None if a value is invalid. Never raise."""
    batch_id, rows_per_second = fields.get("batch_id"), fields.get("rows_per_second")
    try:
        return ProgressRecord(
            batch_id=int(batch_id) if batch_id is not None else None,
            rows_per_second=float(rows_per_second) if rows_per_second is not None else None,
            offsets=tuple(fields.get("offsets", ()))[:OFFSETS_MAX],
            offset_queries=tuple(str(label)[:LABEL_MAX] for label in tuple(fields.get("offset_queries", ()))[:OFFSETS_MAX]),
        )
    except (TypeError, ValueError, OverflowError):
        return None


def parse_query_batches(fields: Mapping[str, Any]) -> dict[str, int]:
    """Return the last completed batch of each query, by label, without invalid entries. Never raise."""
    return dict(_query_batches(fields))


def _query_batches(fields: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    queries = fields.get("queries")
    for query in queries if isinstance(queries, list) else ():
        if isinstance(query, Mapping):
            batch_id = query.get("batch_id")
            if type(batch_id) is int and 0 <= batch_id < _BATCH_ID_LIMIT:
                yield str(query.get("name")), batch_id
