"""Kinds of sinks that this process's Spark version supports. Used by tests and by their scripts."""

from typing import Any

import pyspark

from holdfast.sinks import delta, parquet, postgres

DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
DELTA_CONF = {
    "spark.jars.packages": DELTA_PACKAGE,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}
HAS_DELTA = pyspark.__version__.startswith("4.2.")
"""Delta Lake does not support later Spark versions (docs/decisions/0016). `make test-delta` uses an earlier one."""
KINDS = ("parquet", "postgres", "delta") if HAS_DELTA else ("parquet", "postgres")


def make_sink(kind: str, output: str) -> Any:
    match kind:
        case "parquet":
            return parquet(output)
        case "delta":
            return delta(output)
        case _:
            return postgres("windows", dsn=output)
