"""What is known of the queries of a job besides their checkpoints: where they are, what they write to, how far they were."""

from dataclasses import dataclass, replace

QUERIES_MAX = 200
FILE_SINKS = ("parquet", "text", "csv", "json", "orc", "avro", "xml")
"""Formats that Spark writes as files with a log of their own, `_spark_metadata`."""
WITHOUT_EFFECT = ("console", "noop", "memory")
"""Sinks in which nothing is left of a batch once its driver is gone."""


@dataclass(frozen=True, slots=True)
class KnownQuery:
    location: str
    """Of its checkpoint, as Spark spells it. Empty for those that have none that lasts, all together."""
    name: str = ""
    format: str = ""
    path: str = ""
    """Where its sink writes; empty if that is no path."""
    batch_id: int | None = None
    """A batch that was committed for sure."""

    @property
    def writes_files(self) -> bool:
        return self.format.lower() in FILE_SINKS and bool(self.path)

    @property
    def has_no_effect(self) -> bool:
        return self.format.lower() in WITHOUT_EFFECT


@dataclass(frozen=True, slots=True)
class Known:
    """`_holdfast/queries.json` in the root of a job's checkpoint."""

    queries: tuple[KnownQuery, ...] = ()

    def at(self, location: str) -> KnownQuery | None:
        return next((query for query in self.queries if query.location == location), None)

    def with_another(self, query: KnownQuery) -> "Known":
        """What was known of the same place gives way, except that no batch is forgotten."""
        old = self.at(query.location)
        batches = [each.batch_id for each in (old, query) if each is not None and each.batch_id is not None]
        newer = replace(query, batch_id=max(batches, default=None))
        others = tuple(each for each in self.queries if each.location != query.location)
        return Known((*others, newer)[-QUERIES_MAX:]) if old != newer else self
