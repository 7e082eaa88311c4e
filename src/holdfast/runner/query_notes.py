"""What a driver notes about the queries that it starts, on its way into the checkpoint, where the next attempt finds it."""

from collections.abc import Iterator
from typing import Any

from holdfast.checkpoint import Known, KnownQuery
from holdfast.checkpoint.known_queries import QUERIES_MAX

TEXT_MAX = 2000


def with_notes(known: Known, notes: dict[str, Any], progress: dict[str, Any] | None) -> Known:
    """`control/queries.json` and `control/progress.json` are the user's: what is not what it should be is left out."""
    batches = dict(_batches(progress))
    for query in _entries(notes)[-QUERIES_MAX:]:
        texts = {name: query.get(name) for name in ("location", "name", "format", "path")}
        if not all(isinstance(text, str) and len(text) <= TEXT_MAX and text.isprintable() for text in texts.values()):
            continue
        location = str(texts.pop("location")).rstrip("/")
        batch_id = batches.get(str(query.get("label"))) if location else None
        known = known.with_another(KnownQuery(location, batch_id=batch_id, **texts))  # type: ignore[arg-type]
    return known


def _batches(progress: dict[str, Any] | None) -> Iterator[tuple[str, int]]:
    for query in _entries(progress):
        batch_id = query.get("batch_id")
        if type(batch_id) is int and 0 <= batch_id < 2**63:
            yield str(query.get("name")), batch_id


def _entries(fields: dict[str, Any] | None) -> list[dict[str, Any]]:
    entries = fields.get("queries") if fields is not None else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def is_news(old: Known | None, new: Known) -> bool:
    """Worth a write: another query, or the first batch of one. That a batch follows another is not."""
    return old is None or [_without_number(query) for query in old.queries] != [_without_number(query) for query in new.queries]


def _without_number(query: KnownQuery) -> tuple[str, str, str, str, bool]:
    return query.location, query.name, query.format, query.path, query.batch_id is not None
