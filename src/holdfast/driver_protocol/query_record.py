"""Records of the queries that a driver has started (`control_files.STARTED_QUERIES_FILE`)."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.driver_protocol.untrusted_text import is_printable_text, single_line

QUERIES_MAX = 200
"""Queries that a driver reports; older ones are dropped."""
TEXT_MAX = 2000
NOTE_MAX = 500
BATCH_S_MAX = 86400.0
"""Upper bound for the duration of a batch: it extends time limits, and the script may report any number."""


@dataclass(frozen=True, slots=True)
class StartedQuery:
    label: str
    """Name of the query, or Spark's id of a query without a name. Progress records refer to the query by it."""
    location: str
    """Checkpoint location as the script or Spark spells it; empty if the query has no durable checkpoint."""
    name: str
    format: str
    """Format of the sink."""
    path: str
    """Output path of a file sink; otherwise empty."""
    batch_s: float = 0.0
    """Seconds that each batch of the query lasts at least, as its trigger demands; 0 if a batch ends with its work."""
    note: str = ""
    """Sentence for operators about a limit of the query; empty if there is none."""


def started_queries_to_json(queries: Iterable[StartedQuery]) -> dict[str, Any]:
    return {"queries": [asdict(query) for query in queries]}


def parse_started_queries(fields: Mapping[str, Any]) -> list[StartedQuery]:
    """Return the valid entries, in the order of their start. Never raise."""
    return [query for entry in _entries(fields) if (query := _parse_query(entry)) is not None]


def _parse_query(entry: Mapping[str, Any]) -> StartedQuery | None:
    texts = [entry.get(field) for field in ("location", "name", "format", "path")]
    if not all(is_printable_text(text, TEXT_MAX) for text in texts):
        return None
    location, name, format, path = map(str, texts)
    note = single_line(entry.get("note"), NOTE_MAX)
    return StartedQuery(str(entry.get("label")), location, name, format, path, _batch_s(entry.get("batch_s")), note)


def _batch_s(value: object) -> float:
    """Return a valid duration: 0 for anything that is not a number, and at most BATCH_S_MAX."""
    if not isinstance(value, int | float) or not value > 0:
        return 0.0
    return float(min(value, BATCH_S_MAX))


def _entries(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    entries = fields.get("queries")
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
