"""Exactly-once sinks for `foreachBatch`: Parquet, Delta and PostgreSQL.

Each output stores its owner and its batches, in the same atomic step that makes a batch visible. A batch that is repeated
after a crash is skipped. Late writes of a superseded driver, and writes to another job's output, are refused.

The sinks also work under plain `spark-submit`; `docs/sinks.md` describes the differences.
"""

from holdfast.sinks.delta_sink import delta
from holdfast.sinks.parquet_sink import parquet
from holdfast.sinks.postgres_sink import postgres

__all__ = ["delta", "parquet", "postgres"]
