"""Track the sessions of users with state of arbitrary shape, and write each session when its timeout has passed."""

import argparse
from collections.abc import Iterable, Iterator

import pandas as pd  # type: ignore[import-untyped]  # pandas has no types
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

VERSION = 1
GAP_S = 300

parser = argparse.ArgumentParser()
parser.add_argument("--input", required=True)
parser.add_argument("--output", required=True)
args = parser.parse_args()


def track_sessions(key: tuple[str], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Extend the open session of a user, or close it if its timeout has passed or the next event comes too late."""
    closed = []
    if state.hasTimedOut:
        closed.append(state.get)
        state.remove()
    else:
        session = state.get if state.exists else None
        for at in sorted(int(time) for frame in frames for time in frame["time"]):
            if session is not None and at >= session[1] + GAP_S:
                closed.append(session)
                session = None
            first, _, count = session or (at, at, 0)
            session = (first, at, count + 1)
        assert session is not None
        state.update(session)
        state.setTimeoutTimestamp((session[1] + GAP_S) * 1000)
    if closed:
        rows = [(key[0], first, last + GAP_S, count) for first, last, count in closed]
        yield pd.DataFrame(rows, columns=["user", "start", "end", "count"])


spark = SparkSession.builder.appName("sessionization").getOrCreate()
events = spark.readStream.option("maxFilesPerTrigger", 1).schema("time long, user string").json(args.input)
timed = events.withColumn("at", F.timestamp_seconds("time")).withWatermark("at", "10 minutes")
sessions = timed.groupBy("user").applyInPandasWithState(
    track_sessions,
    "user string, start long, end long, count long",
    "first long, last long, count long",
    "append",
    GroupStateTimeout.EventTimeTimeout,
)
result = sessions.withColumn("version", F.lit(VERSION))
result.writeStream.outputMode("append").format("json").option("path", args.output).start().awaitTermination()
