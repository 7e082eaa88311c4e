"""`python -m holdfast.runner.cds.training DIRECTORY [--at-once]`: a short job that loads what most streaming jobs load.

Files are read as they arrive, rows go through Python and are counted in windows, Parquet is written, a batch is handed to a
Python function, and the queries are watched and ended like those of every job. Then Java ends, and leaves its archive behind.
"""

import sys
import time
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, explode, split, sum, udf, window

from holdfast.driver import spark_query as supervised
from holdfast.runner.cds.archive import AT_ONCE, CLASS_PATH
from holdfast.runner.cds.low_priority import step_back

PATIENCE_S = 600.0
ROWS = (
    '{"at": "2026-01-01T00:00:00Z", "text": "a b c", "amount": 1}\n{"at": "2026-01-01T01:00:00Z", "text": "b c", "amount": 2}\n'
)


def main(directory: Path, *, at_once: bool) -> None:
    if not at_once:
        step_back()
    spark = SparkSession.builder.getOrCreate()
    (directory / CLASS_PATH).write_text(spark._jvm.System.getProperty("java.class.path"))  # type: ignore[union-attr]
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
    loud = words.withColumn("word", udf(str.upper)(col("word")))
    counted = loud.groupBy(window("at", "1 minute"), "word").agg(count("*").alias("rows"), sum("amount").alias("amount"))
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
    query = supervised.of(rows.writeStream.foreachBatch(write).option("checkpointLocation", location).start())
    deadline = time.monotonic() + PATIENCE_S
    while len(batches) < 3 and time.monotonic() < deadline and not query.ended():
        query.progress()
        time.sleep(0.2)
    while not query.ended() and time.monotonic() < deadline:
        query.tell()
        query.wake()
        time.sleep(0.1)


def _end_java() -> None:
    """In order, and wait for it: it writes the archive as its last act."""
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), at_once=AT_ONCE in sys.argv[2:])
