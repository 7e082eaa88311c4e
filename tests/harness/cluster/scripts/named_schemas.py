"""Run one query whose operator names its schema files by absolute paths: --kind transform, pandas or join.

Reads one JSON file of --input per batch, and writes the rows of each batch to a file of --output.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # pandas has no types
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from holdfast.job import context

HOUR_MS = 3_600_000
TIMER_MS = 210_000
"""Event time from a key's first row to its timer."""
TOTALS = "key string, count long, listed long, total long"


class Totals(StatefulProcessor):
    """Keeps a count, a list and a map for each key, and sets one timer on event time."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", "count long")
        self._numbers = handle.getListState("numbers", "n long")
        self._remainders = handle.getMapState("remainders", "remainder long", "total long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        values = [(int(row["n"]), row["at"]) for row in rows]
        if not self._count.exists():
            self._handle.registerTimer(int(values[0][1].timestamp()) // 60 * 60_000 + TIMER_MS)
        return iter([Row(**self._add(key, [number for number, _ in values]))])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        return iter([Row(key=key[0], count=-1, listed=expiredTimerInfo.getExpiryTimeInMs(), total=0)])

    def close(self) -> None:
        """Hold nothing outside of the state."""

    def _add(self, key: Any, numbers: list[int]) -> dict[str, Any]:
        known = self._count.get() if self._count.exists() else None
        count = len(numbers) + (known[0] if known is not None else 0)
        self._count.update((count,))
        self._numbers.appendList([(number,) for number in numbers])
        for number in numbers:
            remainder = (number % 4,)
            before = self._remainders.getValue(remainder) if self._remainders.containsKey(remainder) else None
            self._remainders.updateValue(remainder, ((before[0] if before is not None else 0) + number,))
        total = sum(value[0] for value in self._remainders.values())
        return {"key": key[0], "count": count, "listed": len(list(self._numbers.get())), "total": total}


class ExpiringTotals(Totals):
    """The same with pandas frames, and with a time to live instead of timers."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count long", HOUR_MS)
        self._numbers = handle.getListState("numbers", "n long", HOUR_MS)
        self._remainders = handle.getMapState("remainders", "remainder long", "total long", HOUR_MS)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        numbers = [int(number) for frame in rows for number in frame["n"]]
        return iter([pd.DataFrame([self._add(key, numbers)])])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        return iter([])


def transform(rows: DataFrame) -> DataFrame:
    keyed = rows.withWatermark("at", "10 seconds").groupBy("key")
    return keyed.transformWithState(Totals(), TOTALS, "Update", "EventTime")


def pandas(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").transformWithStateInPandas(ExpiringTotals(), TOTALS, "Update", "ProcessingTime")


def join(rows: DataFrame) -> DataFrame:
    """Join each number with the number of the next step that is greater by six."""
    left = rows.withWatermark("at", "10 seconds")
    right = left.select((F.col("n") - 6).alias("m"), F.col("at").alias("then"))
    return left.join(right, F.expr("n = m AND then >= at AND then <= at + INTERVAL 2 MINUTES")).select("n", "m", "key")


def write(batch: DataFrame, number: int) -> None:
    """Write the rows of a batch at once, so that readers never see a part of them."""
    lines = sorted(json.dumps(row.asDict()) for row in batch.collect())
    hidden = Path(ctx.args.output) / f".{number}"
    hidden.write_text("".join(f"{line}\n" for line in lines))
    hidden.rename(hidden.with_name(f"{number}.json"))


ctx = context()
provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
ctx.spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
ctx.spark.conf.set("spark.sql.streaming.join.stateFormatVersion", "3")
ctx.spark.conf.set("spark.sql.session.timeZone", "UTC")
reader = ctx.spark.readStream.schema("n long, key string, at timestamp").option("maxFilesPerTrigger", 1)
query, mode = {"transform": (transform, "update"), "pandas": (pandas, "update"), "join": (join, "append")}[ctx.args.kind]
rows = query(reader.json(ctx.args.input))
writer = rows.writeStream.queryName("totals").outputMode(mode).trigger(processingTime="1 second")
ctx.run(writer.foreachBatch(write).start())
