"""Keep a running count of each word in state that the program updates itself, and write the counts that a batch changes."""

import argparse
from collections.abc import Iterator
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # pandas has no types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

VERSION = 1

parser = argparse.ArgumentParser()
parser.add_argument("--input", required=True)
parser.add_argument("--output", required=True)
args = parser.parse_args()


class RunningCount(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        known = self._count.get() if self._count.exists() else None
        count = sum(len(frame) for frame in rows) + (known[0] if known is not None else 0)
        self._count.update((count,))
        yield pd.DataFrame({"word": [key[0]], "count": [count]})

    def close(self) -> None:
        """Hold nothing outside of the state."""


def write(counts: DataFrame, batch: int) -> None:
    counts.withColumn("version", F.lit(VERSION)).write.mode("overwrite").json(f"{args.output}/batch={batch}")


spark = SparkSession.builder.appName("stateful word count").getOrCreate()
spark.conf.set(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)
lines = spark.readStream.option("maxFilesPerTrigger", 1).text(args.input)
words = lines.select(F.explode(F.split("value", " ")).alias("word"))
counts = words.groupBy("word").transformWithStateInPandas(RunningCount(), "word string, count long", "update", "None")
counts.writeStream.outputMode("update").foreachBatch(write).start().awaitTermination()
