"""Queries that a driver has started, merged into the record that the checkpoint keeps for the next attempt. Pure."""

from collections.abc import Mapping, Sequence

from holdfast.checkpoint import KnownQueries, KnownQuery
from holdfast.checkpoint.known_queries import QUERIES_MAX
from holdfast.driver_protocol.query_record import StartedQuery


def merge_started_queries(known: KnownQueries, started: Sequence[StartedQuery], batches: Mapping[str, int]) -> KnownQueries:
    """Return `known` with the started queries added. `batches` has the last completed batch of each query, by label."""
    for query in started[-QUERIES_MAX:]:
        location = query.location.rstrip("/")
        batch_id = batches.get(query.label) if location else None
        known = known.with_query(KnownQuery(location, query.name, query.format, query.path, batch_id=batch_id))
    return known


def is_worth_saving(old: KnownQueries | None, new: KnownQueries) -> bool:
    """Return True for a new query or the first batch of a query. Later batches alone do not justify a write."""
    return old is None or [_without_batch_id(query) for query in old.queries] != [
        _without_batch_id(query) for query in new.queries
    ]


def _without_batch_id(query: KnownQuery) -> tuple[str, str, str, str, bool]:
    return query.location, query.name, query.format, query.path, query.batch_id is not None
