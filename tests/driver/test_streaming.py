"""Streaming scripts under the bootstrap, with a real Spark: checkpoints that last, progress, and stops at a batch boundary."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.driver.checkpoint_placement import directory_of
from tests.harness.drivers import Driver, batches

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

# Does not know Holdfast. Its batches are slow, so that a stop would hit one in the middle; it looks whether a query is active,
# as many do, it is done when the first one is, and it takes that for a failure.
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
print("ended:", not named.isActive, named.awaitTermination(1), "while the slow one goes on:", slow.isActive)
spark.stop()
raise RuntimeError("my query has ended")
"""

# Starts a query and falls off its end; the class is pickled by name after that.
FALLS_OFF = """
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


def committed(query: Path) -> list[int]:
    """The query's batches, none of which was begun and not committed."""
    begun = batches(query / "offsets")
    assert begun == batches(query / "commits")
    return begun


def test_a_script_that_knows_nothing_keeps_its_place_and_stops_at_a_batch_boundary(attempts: Callable[[], Driver]) -> None:
    first = attempts()
    first.put("def shift(value, offset):\n    return value + offset\n", "sibling.py")
    first.start(first.put(SLOW, "streams ü.py"))
    first.until_printed("batch 2 written")
    progress = first.progress()
    assert progress is not None and progress["batch_id"] >= 1 and progress["rows_per_second"] > 0
    assert len(progress["offsets"]) == 4 and isinstance(progress["offsets"][0], int)
    assert {"clicks/α", "in_memory"} < {query["name"] for query in progress["queries"]}

    noted = json.loads((first.control / "queries.json").read_text())["queries"]
    assert [(note["name"], note["format"], note["location"].removeprefix(f"{first.checkpoint}/")) for note in noted] == [
        ("", "foreachBatch", "query-1"),
        ("clicks/α", "console", directory_of("clicks/α")),
        ("", "noop", "query-2"),
        ("in_memory", "memory", ""),
    ]

    first.ask_to_stop()
    assert first.wait() == 1
    end = first.end()
    assert end["how"] == "stopped"
    assert end["reason"].startswith(
        "it stopped at a batch boundary, as asked; its script failed: RuntimeError: my query has ended"
    )
    assert "ended: True True" in first.output()
    queries = {path.name for path in first.checkpoint.iterdir()}
    (clicks,) = queries - {"query-1", "query-2"}
    assert clicks.startswith("clicks-α~")
    done = committed(first.checkpoint / "query-1")
    assert [f"batch {number} written" in first.output() for number in (*done, done[-1] + 1)] == [True] * len(done) + [False]
    assert committed(first.checkpoint / "query-2") and committed(first.checkpoint / clicks) == [0]
    last = first.progress()
    assert last is not None and last["batch_id"] == done[-1]

    second = attempts()
    second.start(second.put(FALLS_OFF))
    second.until_printed(f"batch {done[-1] + 2} written by attempt 2")
    assert f"batch {done[-1]} written" not in second.output(), "it goes on where the first attempt has stopped"
    os.kill(second.pid, signal.SIGTERM)
    assert second.wait() == 0
    assert second.end()["how"] == "stopped"
    assert committed(second.checkpoint / "query-1") == list(range(done[-1] + 1 + second.output().count("written by")))


# Streams are told to stop at moments that are spread over their first batches, which is when they plan most of the time.
STOPS = """
import os, sys, time
from pyspark.sql import SparkSession
from holdfast.driver import spark_query as one

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
    query = one.of(stream)
    commits = os.path.join(os.environ["HOLDFAST_CHECKPOINT"], name, "commits")
    while number >= len(kinds) and not os.path.exists(commits + "/0"):
        time.sleep(0.005)
    time.sleep(0.037 * number)
    while not query.ended():
        query.tell()
        query.wake()
        time.sleep(0.01)
    print("STREAM", number, "failed" if query.failed() else "ended", "abruptly" if query.abrupt else "well")
"""


def test_a_stream_stops_between_two_batches_whatever_it_is_at(driver: Driver) -> None:
    assert driver.run(STOPS) == 0, driver.output()[-3000:]
    lines = [line for line in driver.output().splitlines() if line.startswith("STREAM")]
    assert lines == [f"STREAM {number} ended well" for number in range(16)]
    for number in range(16):
        committed(driver.checkpoint / f"stream{number}")
