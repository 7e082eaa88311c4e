"""Queries of the matrix. Each reads files, one per batch, and writes rows that can be compared exactly."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tests.oracle import processors
from tests.oracle.program import Program, StepsInput
from tests.oracle.scene import SCHEMA

TOTALS = "key string, count long, listed long, remainders long"
COUNTS = "key string, count long"
COMPACTION = {
    "spark.sql.streaming.fileSource.log.compactInterval": "2",
    "spark.sql.streaming.fileSink.log.compactInterval": "2",
}

PURGED = {"spark.sql.streaming.minBatchesToRetain": "1"}
ASYNC = {"asyncProgressTrackingEnabled": "true", "asyncProgressTrackingCheckpointIntervalMs": "0"}
NAMED = {"spark.sql.streaming.queryEvolution.enableSourceEvolution": "true", "spark.sql.streaming.offsetLog.formatVersion": "2"}
NAMED_SINK = {"spark.sql.streaming.queryEvolution.enableSinkEvolution": "true"}
JOIN_FORMAT_3 = {"spark.sql.streaming.join.stateFormatVersion": "3"}
SHORT = {"spark.sql.streaming.realTimeMode.minBatchDuration": "1s"}
TO_FOREACH: Any = {"sink": "foreach", "at_least_once": True, "expected": "input"}


def _window(rows: DataFrame, length: str = "1 minute") -> DataFrame:
    return rows.groupBy(f.window("at", length), "key").agg(f.count("*").alias("count"), f.sum("n").alias("total"))


def windows(input: StepsInput) -> DataFrame:
    return _window(input.timed()).select(f.unix_timestamp("window.start").alias("start"), "key", "count", "total")


def keyed_counts(input: StepsInput) -> DataFrame:
    return input.rows().groupBy("key").agg(f.count("*").alias("count"), f.sum("n").alias("total"))


def named_counts(input: StepsInput) -> DataFrame:
    return input.rows(source="first").groupBy("key").agg(f.count("*").alias("count"), f.sum("n").alias("total"))


def global_count(input: StepsInput) -> DataFrame:
    return input.rows().groupBy().agg(f.count("*").alias("count"), f.sum("n").alias("total"))


def session_windows(input: StepsInput) -> DataFrame:
    sessions = input.timed().groupBy(f.session_window("at", "20 seconds"), "key").agg(f.sum("n").alias("total"))
    return sessions.select(f.unix_timestamp("session_window.start").alias("start"), "key", "total")


def distinct(input: StepsInput) -> DataFrame:
    return input.rows().withColumn("rest", f.col("n") % 17).dropDuplicates(["rest"]).select("rest", "n")


def distinct_within_watermark(input: StepsInput) -> DataFrame:
    rows = input.timed("2 minutes").withColumn("rest", f.col("n") % 17)
    return rows.dropDuplicatesWithinWatermark(["rest"]).select("rest", "n")


def limit(input: StepsInput) -> DataFrame:
    return input.rows().limit(20)


def _sides(input: StepsInput) -> tuple[DataFrame, DataFrame]:
    left = input.timed()
    right = input.timed().where("n % 2 = 0").select((f.col("n") - 6).alias("m"), f.col("at").alias("then"))
    return left, right


_JOIN = "n = m AND then >= at AND then <= at + INTERVAL 2 MINUTES"


def inner_join(input: StepsInput) -> DataFrame:
    left, right = _sides(input)
    return left.join(right, f.expr(_JOIN)).select("n", "m", "key")


def left_join(input: StepsInput) -> DataFrame:
    left, right = _sides(input)
    return left.join(right, f.expr(_JOIN), "left_outer").select("n", "m", "key")


def full_join(input: StepsInput) -> DataFrame:
    left, right = _sides(input)
    return left.join(right, f.expr(_JOIN), "full_outer").select("n", "m", "key")


def semi_join(input: StepsInput) -> DataFrame:
    left, right = _sides(input)
    return left.join(right, f.expr(_JOIN), "left_semi").select("n", "key")


def chained_windows(input: StepsInput) -> DataFrame:
    minutes = _window(input.timed())
    longer = minutes.groupBy(f.window(f.window_time("window"), "2 minutes")).agg(f.sum("total").alias("total"))
    return longer.select(f.unix_timestamp("window.start").alias("start"), "total")


def distinct_windows(input: StepsInput) -> DataFrame:
    rows = input.timed().dropDuplicates(["n", "at"])
    return _window(rows).select(f.unix_timestamp("window.start").alias("start"), "key", "count", "total")


def rows_only(input: StepsInput) -> DataFrame:
    return input.rows().select("n", "key")


def pandas_with_state(input: StepsInput) -> DataFrame:
    keyed = input.timed().groupBy("key")
    return keyed.applyInPandasWithState(processors.count_with_timeout, COUNTS, "count long", "append", "EventTimeTimeout")


def groups_with_state(input: StepsInput) -> DataFrame:
    return input.counted_in_java()


def transform_rows(input: StepsInput) -> DataFrame:
    return input.rows().groupBy("key").transformWithState(processors.TotalsProcessor(), TOTALS, "Update", "None")


def transform_with_timers(input: StepsInput) -> DataFrame:
    keyed = input.timed().groupBy("key")
    return keyed.transformWithState(processors.TimedTotals(), TOTALS, "Update", "EventTime")


def transform_with_ttl(input: StepsInput) -> DataFrame:
    return input.rows().groupBy("key").transformWithState(processors.ExpiringTotals(), TOTALS, "Update", "ProcessingTime")


def transform_pandas(input: StepsInput) -> DataFrame:
    return input.rows().groupBy("key").transformWithStateInPandas(processors.PandasTotals(), TOTALS, "Update", "None")


def kafka_rows(input: StepsInput) -> DataFrame:
    return input.kafka_rows().select("n", "key")


def kafka_counts(input: StepsInput) -> DataFrame:
    return input.kafka_rows().groupBy("key").agg(f.count("*").alias("count"), f.sum("n").alias("total"))


def python_rows(input: StepsInput) -> DataFrame:
    return input.python_rows().select("n", "key")


def two_sources(input: StepsInput) -> DataFrame:
    return _labelled(input, "first").union(_labelled(input, "second"))


def two_sources_reordered(input: StepsInput) -> DataFrame:
    return _labelled(input, "second").union(_labelled(input, "first"))


def three_sources(input: StepsInput) -> DataFrame:
    return _labelled(input, "added").union(two_sources(input))


def one_source(input: StepsInput) -> DataFrame:
    return _labelled(input, "second")


def _labelled(input: StepsInput, source: str) -> DataFrame:
    return input.rows(source=source).select("n", "key", f.lit(source).alias("source"))


def wider_rows(input: StepsInput) -> DataFrame:
    """Read one more column, which is not in the files."""
    return input.rows(schema=f"{SCHEMA}, extra string").select("n", "key")


PROGRAMS = [
    Program("rows", rows_only, stateful=False, conf=COMPACTION),
    Program("rows-foreach", rows_only, sink="foreach", stateful=False),
    Program("rows-parquet", rows_only, sink="parquet", stateful=False, conf=COMPACTION),
    Program("rows-wider-schema", rows_only, stateful=False, later=wider_rows),
    Program("rows-once", rows_only, stateful=False, trigger="once", step_by_step=True),
    Program("rows-processing-time", rows_only, stateful=False, trigger="processingTime"),
    Program("rows-purged", rows_only, stateful=False, conf={**COMPACTION, **PURGED}),
    Program("rows-205-batches", rows_only, stateful=False, steps_before=205),
    Program("rows-python-source", python_rows, stateful=False, trigger="processingTime", step_by_step=True),
    Program("rows-async-progress", rows_only, stateful=False, trigger="processingTime", options=ASYNC, **TO_FOREACH),
    Program("sources-named", two_sources, stateful=False, conf=NAMED),
    Program("sources-reordered", two_sources, stateful=False, conf=NAMED, later=two_sources_reordered),
    Program("source-added", two_sources, stateful=False, conf=NAMED, later=three_sources, expected="continued"),
    Program("source-removed", two_sources, stateful=False, conf=NAMED, later=one_source, expected="continued"),
    Program("sink-named", rows_only, stateful=False, conf=NAMED_SINK, sink_names=("first", "first")),
    Program("sink-replaced", rows_only, stateful=False, conf=NAMED_SINK, sink_names=("first", "second")),
    Program("keyed-named-source", named_counts, "update", key_columns=1, conf=NAMED),
    Program("kafka", kafka_rows, stateful=False, source="kafka"),
    Program("kafka-keyed", kafka_counts, "update", key_columns=1, source="kafka"),
    Program("kafka-to-kafka", kafka_rows, stateful=False, source="kafka", sink="kafka", at_least_once=True),
    Program("kafka-continuous", kafka_rows, stateful=False, source="kafka", trigger="continuous", **TO_FOREACH),
    Program("kafka-real-time", kafka_rows, stateful=False, source="kafka", trigger="realTime", conf=SHORT, **TO_FOREACH),
    Program("global", global_count, "update", key_columns=0),
    Program("global-complete", global_count, "complete"),
    Program("keyed", keyed_counts, "update", key_columns=1),
    Program("keyed-complete", keyed_counts, "complete"),
    Program("windows", windows),
    Program("keyed-purged", keyed_counts, "update", key_columns=1, conf=PURGED),
    Program("windows-parquet", windows, sink="parquet", conf=COMPACTION),
    Program("sessions", session_windows),
    Program("distinct", distinct),
    Program("distinct-within-watermark", distinct_within_watermark),
    Program("limit", limit),
    Program("join-inner", inner_join),
    Program("join-left", left_join),
    Program("join-format-3", left_join, conf=JOIN_FORMAT_3, needs_rocksdb=True),
    Program("join-full", full_join),
    Program("join-semi", semi_join),
    Program("chained-windows", chained_windows),
    Program("distinct-windows", distinct_windows),
    Program("pandas-with-state", pandas_with_state, key_columns=1),
    Program("groups-with-state", groups_with_state, "update", key_columns=1, needs_java_classes=True),
    Program("transform", transform_rows, "update", key_columns=1, needs_rocksdb=True),
    Program("transform-timers", transform_with_timers, "update", key_columns=1, needs_rocksdb=True),
    Program("transform-ttl", transform_with_ttl, "update", key_columns=1, needs_rocksdb=True),
    Program("transform-pandas", transform_pandas, "update", key_columns=1, needs_rocksdb=True),
]
