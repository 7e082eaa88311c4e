"""Training run: `python -m holdfast.runner.cds.training DIRECTORY [--at-once]` loads the classes that most streaming jobs load.

It reads files as a stream, calls Python functions, counts in windows, writes Parquet, uses foreachBatch, and monitors and stops
its queries as every driver does. Then Java exits and writes the archive.
"""

import sys
import time
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, explode, split, sum, udf, window

from holdfast.driver.queries import query_wrapper as supervised
from holdfast.runner.cds.archive import AT_ONCE_OPTION, CLASS_PATH_FILE
from holdfast.runner.cds.low_priority import lower_priority

BATCHES_TIMEOUT_S = 600.0
ROWS = (
    '{"at": "2026-01-01T00:00:00Z", "text": "a b c", "amount": 1}\n{"at": "2026-01-01T01:00:00Z", "text": "b c", "amount": 2}\n'
)


def main(directory: Path, *, at_once: bool) -> None:
    if not at_once:
        lower_priority()
    spark = SparkSession.builder.getOrCreate()
    (directory / CLASS_PATH_FILE).write_text(spark._jvm.System.getProperty("java.class.path"))  # type: ignore[union-attr]  # set while a session exists
    _files_to_parquet(spark, directory)
    _batches_to_python(spark, directory)
    spark.stop()
    _end_java()


def _files_to_parquet(spark: SparkSession, directory: Path) -> None:
    incoming = directory / "in"
    incoming.mkdir()
    (incoming / "1.json").write_text(ROWS)
    rows = spark.readStream.schema("at timestamp, text string, amount long").json(str(incoming))
    words = rows.withWatermark("at", "1 minute").select("at", "amount", explode(split("text", " ")).alias("word"))
    upper = words.withColumn("word", udf(str.upper)(col("word")))
    counted = upper.groupBy(window("at", "1 minute"), "word").agg(count("*").alias("rows"), sum("amount").alias("amount"))
    query = (
        counted.writeStream.format("parquet")
        .option("path", str(directory / "out"))
        .option("checkpointLocation", str(directory / "checkpoint-files"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert spark.read.parquet(str(directory / "out")).count() == 3


def _batches_to_python(spark: SparkSession, directory: Path) -> None:
    batches = []

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("append").parquet(str(directory / "batches"))
        batches.append(number)

    rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load().where("value % 2 = 0")
    location = str(directory / "checkpoint-rate")
    query = supervised.wrap_query(rows.writeStream.foreachBatch(write).option("checkpointLocation", location).start())
    deadline = time.monotonic() + BATCHES_TIMEOUT_S
    while len(batches) < 3 and time.monotonic() < deadline and not query.has_ended():
        query.progress()
        time.sleep(0.2)
    while not query.has_ended() and time.monotonic() < deadline:
        query.request_stop()
        query.stop_if_idle()
        time.sleep(0.1)


def _end_java() -> None:
    """Shut Java down and wait for its exit, at which it writes the archive."""
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), at_once=AT_ONCE_OPTION in sys.argv[2:])
