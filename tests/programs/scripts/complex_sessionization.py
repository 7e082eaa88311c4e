"""Track sessions with several states and timers. Each event carries its own gap, and a logout closes the session at once."""

import argparse
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

VERSION = 1

parser = argparse.ArgumentParser()
parser.add_argument("--input", required=True)
parser.add_argument("--output", required=True)
args = parser.parse_args()


class Sessions(StatefulProcessor):
    """Open session of a user: its bounds in a value, its pages in a list, the number of events per kind in a map."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._bounds = handle.getValueState("bounds", "start long, expires long")
        self._pages = handle.getListState("pages", "page string")
        self._kinds = handle.getMapState("kinds", "kind string", "count long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        closed = []
        for event in sorted(rows, key=lambda row: row["time"]):
            bounds = self._read_bounds()
            if bounds is not None and event["time"] >= bounds[1]:
                closed.append(self._close_session(key[0], "timeout"))
                bounds = None
            start, expires = bounds or (event["time"], 0)
            self._bounds.update((start, max(expires, event["time"] + event["gap_s"])))
            self._pages.appendValue((event["page"],))
            kind = (event["kind"],)
            count = self._kinds.getValue(kind) if self._kinds.containsKey(kind) else None
            self._kinds.updateValue(kind, ((count[0] if count is not None else 0) + 1,))
            if event["kind"] == "logout":
                closed.append(self._close_session(key[0], "logout"))
        bounds = self._read_bounds()
        if bounds is not None:
            self._handle.registerTimer(bounds[1] * 1000)
        return iter(closed)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        bounds = self._read_bounds()
        if bounds is not None and bounds[1] * 1000 <= expiredTimerInfo.getExpiryTimeInMs():
            yield self._close_session(key[0], "timeout")

    def close(self) -> None:
        """Hold nothing outside of the state."""

    def _read_bounds(self) -> tuple[int, int] | None:
        bounds = self._bounds.get() if self._bounds.exists() else None
        return (bounds[0], bounds[1]) if bounds is not None else None

    def _close_session(self, user: str, end: str) -> Row:
        bounds = self._read_bounds()
        assert bounds is not None
        pages = " ".join(row[0] for row in self._pages.get())
        kinds = " ".join(f"{kind[0]}={count[0]}" for kind, count in sorted(self._kinds.iterator()))
        for state in (self._bounds, self._pages, self._kinds):
            state.clear()
        return Row(user=user, start=bounds[0], end=end, pages=pages, kinds=kinds)


spark = SparkSession.builder.appName("complex sessionization").getOrCreate()
spark.conf.set(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)
schema = "time long, user string, kind string, page string, gap_s long"
events = spark.readStream.option("maxFilesPerTrigger", 1).schema(schema).json(args.input)
timed = events.withColumn("at", F.timestamp_seconds("time")).withWatermark("at", "10 minutes")
sessions = timed.groupBy("user").transformWithState(
    Sessions(), "user string, start long, end string, pages string, kinds string", "append", "EventTime"
)
result = sessions.withColumn("version", F.lit(VERSION))
result.writeStream.outputMode("append").format("json").option("path", args.output).start().awaitTermination()
