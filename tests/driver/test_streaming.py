"""Streaming scripts under the bootstrap with real Spark: checkpoints, progress, and stops at a batch boundary."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.driver.queries.checkpoint_placement import checkpoint_directory_name
from tests.harness.drivers import DriverProcess, list_batches

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

# Script without any Holdfast API. Its batches are slow, so a stop request arrives within a batch. Like many scripts, it polls
# `isActive`, ends with the first of its queries, and raises an error then.
SLOW = """
import time
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf
import sibling

spark = SparkSession.builder.getOrCreate()
OFFSET = 1000

@udf("long")
def shifted(value):
    return sibling.shift(value, OFFSET)

class Collected:
    def __init__(self):
        self.rows = 0

    def __call__(self, batch, batch_id):
        rows = batch.collect()
        assert all(row.value >= OFFSET for row in rows)
        time.sleep(1.2)
        print(f"batch {batch_id} written with {len(rows)} rows")

rate = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
slow = rate.select(shifted(col("value")).alias("value")).writeStream.foreachBatch(Collected()).start()
named = rate.writeStream.format("console").queryName("clicks/α").trigger(processingTime="1 hour").start()
unnamed = rate.groupBy().count().writeStream.outputMode("complete").format("noop").start()
memory = rate.writeStream.format("memory").queryName("in_memory").start()
while not named.awaitTermination(1):
    assert named.isActive
print("ended:", not named.isActive, named.awaitTermination(1), "while the slow query is active:", slow.isActive)
spark.stop()
raise RuntimeError("my query has ended")
"""

# Script that starts a query and reaches its last line. The class is pickled by name afterwards.
ENDS_EARLY = """
import pickle, time
from holdfast.job import context

ctx = context()

class Mine:
    pass

def slowly(batch, batch_id):
    pickle.loads(pickle.dumps(Mine()))
    time.sleep(1.2)
    print(f"batch {batch_id} written by attempt {ctx.attempt}")

ctx.spark.readStream.format("rate").load().writeStream.foreachBatch(slowly).start()
print("the last line")
"""


def read_committed_batches(query: Path) -> list[int]:
    """Return the batches of a query, after checking that every planned batch is committed."""
    planned = list_batches(query / "offsets")
    assert planned == list_batches(query / "commits")
    return planned


def test_unmodified_script_gets_checkpoints_and_stops_at_a_batch_boundary(
    attempts: Callable[[], DriverProcess],
) -> None:
    first = attempts()
    first.write_script("def shift(value, offset):\n    return value + offset\n", "sibling.py")
    first.start(first.write_script(SLOW, "streams ü.py"))
    first.wait_for_output("batch 2 written")
    progress = first.progress()
    assert progress is not None and progress["batch_id"] >= 1 and progress["rows_per_second"] > 0
    assert len(progress["offsets"]) == 4 and isinstance(progress["offsets"][0], int)
    assert {"clicks/α", "in_memory"} < {query["name"] for query in progress["queries"]}

    registered = json.loads((first.control / "queries.json").read_text())["queries"]
    assert [
        (entry["name"], entry["format"], entry["location"].removeprefix(f"{first.checkpoint}/")) for entry in registered
    ] == [
        ("", "foreachBatch", "query-1"),
        ("clicks/α", "console", checkpoint_directory_name("clicks/α")),
        ("", "noop", "query-2"),
        ("in_memory", "memory", ""),
    ]

    first.request_stop()
    assert first.wait() == 1
    end = first.exit_record()
    assert end["how"] == "stopped"
    assert end["reason"].startswith(
        "the job stopped at a batch boundary, as requested; the script failed: RuntimeError: my query has ended"
    )
    assert "ended: True True" in first.output()
    queries = {path.name for path in first.checkpoint.iterdir()}
    (clicks,) = queries - {"query-1", "query-2"}
    assert clicks.startswith("clicks-α~")
    done = read_committed_batches(first.checkpoint / "query-1")
    assert [f"batch {number} written" in first.output() for number in (*done, done[-1] + 1)] == [True] * len(done) + [False]
    assert read_committed_batches(first.checkpoint / "query-2") and read_committed_batches(first.checkpoint / clicks) == [0]
    last = first.progress()
    assert last is not None and last["batch_id"] == done[-1]

    second = attempts()
    second.start(second.write_script(ENDS_EARLY))
    second.wait_for_output(f"batch {done[-1] + 2} written by attempt 2")
    assert f"batch {done[-1]} written" not in second.output(), "the second attempt continues after the last batch of the first"
    os.kill(second.pid, signal.SIGTERM)
    assert second.wait() == 0
    assert second.exit_record()["how"] == "stopped"
    assert read_committed_batches(second.checkpoint / "query-1") == list(
        range(done[-1] + 1 + second.output().count("written by"))
    )


# Stop requests at moments spread over the first batches, in which streams spend most of their time planning.
STOPS = """
import os, sys, time
from pyspark.sql import SparkSession
from holdfast.driver.queries.query_wrapper import wrap_query

spark = SparkSession.builder.getOrCreate()
rate = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
kinds = [
    rate.writeStream.format("noop"),
    rate.writeStream.foreachBatch(lambda batch, batch_id: batch.count()),
    rate.groupBy().count().writeStream.outputMode("complete").format("noop"),
    rate.writeStream.format("noop").trigger(processingTime="1 second"),
]
for number in range(16):
    name = f"stream{number}"
    stream = kinds[number % len(kinds)].queryName(name).start()
    query = wrap_query(stream)
    commits = os.path.join(os.environ["HOLDFAST_CHECKPOINT"], name, "commits")
    while number >= len(kinds) and not os.path.exists(commits + "/0"):
        time.sleep(0.005)
    time.sleep(0.037 * number)
    while not query.has_ended():
        query.request_stop()
        query.stop_if_idle()
        time.sleep(0.01)
    print("STREAM", number, "failed" if query.has_failed() else "ended", "abruptly" if query.stopped_abruptly else "well")
"""


def test_stream_stops_between_batches_at_any_moment(driver: DriverProcess) -> None:
    assert driver.run(STOPS) == 0, driver.output()[-3000:]
    lines = [line for line in driver.output().splitlines() if line.startswith("STREAM")]
    assert lines == [f"STREAM {number} ended well" for number in range(16)]
    for number in range(16):
        read_committed_batches(driver.checkpoint / f"stream{number}")
