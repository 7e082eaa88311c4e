"""Sinks for `foreachBatch` that keep each row once, however often a driver dies: Parquet, Delta, PostgreSQL.

Each output says of itself whose it is and which batches it has, in the same step in which a batch becomes visible. So a
batch that is repeated after a crash is skipped, what a superseded driver sends late is refused, and so is another job's output.
Works in a Holdfast job and under bare `spark-submit`; `docs/sinks.md` says what is different there.
"""

from holdfast.sinks.delta_sink import delta
from holdfast.sinks.parquet_sink import parquet
from holdfast.sinks.postgres_sink import postgres

__all__ = ["delta", "parquet", "postgres"]
