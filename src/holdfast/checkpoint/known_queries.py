"""Queries of a job as recorded beside its checkpoints: locations, sinks, and committed batches."""

from collections.abc import Collection
from dataclasses import dataclass, replace

QUERIES_MAX = 200
FILE_SINKS = ("parquet", "text", "csv", "json", "orc", "avro", "xml")
"""Formats for which Spark writes files and a log, `_spark_metadata`."""
TRANSIENT_SINKS = ("console", "noop", "memory")
"""Sinks whose output does not outlive the driver."""


@dataclass(frozen=True, slots=True)
class KnownQuery:
    location: str
    """Location of the checkpoint, as Spark spells it. All queries without a durable checkpoint share the empty location."""
    name: str = ""
    format: str = ""
    path: str = ""
    """Output path of the sink; empty if the sink has none."""
    batch_id: int | None = None
    """Newest batch that is known to be committed."""

    @property
    def writes_files(self) -> bool:
        return self.format.lower() in FILE_SINKS and bool(self.path)

    @property
    def has_transient_sink(self) -> bool:
        return self.format.lower() in TRANSIENT_SINKS


@dataclass(frozen=True, slots=True)
class KnownQueries:
    """Content of `_holdfast/queries.json` in the root of a job's checkpoint."""

    queries: tuple[KnownQuery, ...] = ()

    def find(self, location: str) -> KnownQuery | None:
        return next((query for query in self.queries if query.location == location), None)

    def with_query(self, query: KnownQuery) -> "KnownQueries":
        """Replace the query at the same location, but keep the larger batch id."""
        old = self.find(query.location)
        batches = [each.batch_id for each in (old, query) if each is not None and each.batch_id is not None]
        newer = replace(query, batch_id=max(batches, default=None))
        others = tuple(each for each in self.queries if each.location != query.location)
        return KnownQueries((*others, newer)[-QUERIES_MAX:]) if old != newer else self

    def without_batches(self, locations: Collection[str]) -> "KnownQueries":
        """Forget the batches of these queries, because an operator has accepted that they are lost."""
        return KnownQueries(
            tuple(replace(query, batch_id=None) if query.location in locations else query for query in self.queries)
        )
