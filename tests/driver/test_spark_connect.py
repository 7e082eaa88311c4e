"""Scripts that use Spark Connect under the bootstrap: with a server in the driver's JVM, and with a separate server."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.driver.server_watch import JVM_LOST_TIMEOUT_S, SERVER_LOST_TIMEOUT_S
from holdfast.driver_protocol.exit_record import CONNECT_SERVER_LOST, parse_exit_record
from holdfast.model.job import Ending
from holdfast.runner.execution.classify import classify_exit
from tests.harness.connect_server import ConnectServer
from tests.harness.drivers import DRIVER_TIMEOUT_S, SUBMIT_ARGUMENTS, DriverProcess, list_batches
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]
REACTION_S = 15.0
"""Time for the driver to notice a loss and to end, on a busy machine."""
LOCAL_ARGUMENTS = SUBMIT_ARGUMENTS.replace("--master local[2] ", "")

# The script polls, and stops Spark when its query has ended, like many scripts.
STREAM = """
import json, sys, time
from pyspark.sql import SparkSession
from holdfast.driver.kafka.sources import list_kafka_sources

KAFKA = "kafka"
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
def topic(name):
    return spark.readStream.format(KAFKA).option("kafka.bootstrap.servers", "b:1").option("subscribe", name).load()
rate = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
union = rate.select("timestamp").union(topic("one").select("timestamp")).join(topic("two").select("timestamp"), "timestamp")
print("SOURCES", json.dumps(list_kafka_sources(union.writeStream)))
query = rate.writeStream.format("noop").queryName("clicks").start()
while query.isActive:
    time.sleep(0.2)
print("ENDED")
spark.stop()
"""


def java_child(driver: DriverProcess) -> int:
    children = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
    (java,) = [int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text().strip() == "java"]
    return java


def wait_for_batch(driver: DriverProcess, batch: int = 1) -> None:
    def has_committed() -> bool:
        assert driver.alive(), driver.output()[-3000:]
        reported = (driver.progress() or {}).get("batch_id")
        return reported is not None and reported >= batch

    wait_until(has_committed, 2 * DRIVER_TIMEOUT_S, f"batch {batch} is reported")


def test_two_drivers_share_a_node_and_one_stops_at_a_batch_boundary_while_the_jvm_of_the_other_dies(tmp_path: Path) -> None:
    with contextlib.ExitStack() as ending:
        drivers = [DriverProcess(tmp_path / name, name=name) for name in ("stopped", "killed")]
        for driver in drivers:
            ending.callback(driver.kill)
            driver.start(driver.write_script(STREAM), "local[2]", PYSPARK_SUBMIT_ARGS=LOCAL_ARGUMENTS)
        for driver in drivers:
            wait_for_batch(driver)
        stopped, killed = drivers

        stopped.request_stop()
        assert stopped.wait() == 0, stopped.output()[-3000:]
        assert stopped.exit_record()["reason"] == "the job stopped at a batch boundary, as requested"
        assert "ENDED" in stopped.output()
        query = stopped.checkpoint / "clicks"
        assert list_batches(query / "offsets") == list_batches(query / "commits") != []

        (sources,) = [line for line in stopped.output().splitlines() if line.startswith("SOURCES ")]
        assert [(source["number"], source["folder"], source["options"]["subscribe"]) for source in json.loads(sources[8:])] == [
            (1, 1, "one"),
            (2, 2, "two"),
        ]

        os.kill(java_child(killed), signal.SIGKILL)
        assert killed.wait(JVM_LOST_TIMEOUT_S + REACTION_S) == 1
        record = killed.exit_record()
        assert (record["how"], record["java_status"]) == ("failed", -signal.SIGKILL)
        assert record["reason"].startswith("the JVM was killed by SIGKILL")


def test_query_of_a_separate_server_is_stopped_there_and_the_death_of_the_server_ends_the_driver(
    attempts: Callable[[], DriverProcess], tmp_path: Path
) -> None:
    with ConnectServer(tmp_path / "server") as server:
        first = attempts()
        first.start(first.write_script(STREAM), server.url)
        wait_for_batch(first)
        (entry,) = json.loads((first.control / "queries.json").read_text())["queries"]
        assert "runs in a Spark Connect server outside of the driver" in entry["note"]
        first.request_stop()
        assert first.wait() == 0, first.output()[-3000:]
        assert first.exit_record()["how"] == "stopped" and "ENDED" in first.output()
        committed = list_batches(first.checkpoint / "clicks" / "commits")

        second = attempts()
        second.start(second.write_script(STREAM), server.url)
        wait_for_batch(second, committed[-1] + 1)
        began = time.monotonic()
        server.kill()
        assert second.wait(SERVER_LOST_TIMEOUT_S + REACTION_S) == 1, second.output()[-3000:]
        assert time.monotonic() - began < SERVER_LOST_TIMEOUT_S + REACTION_S
        record = parse_exit_record(second.exit_record())
        assert record is not None and record.condition == CONNECT_SERVER_LOST
        outcome = classify_exit(
            status=1 << 8, record=record, output_tail="", stop_requested=False, kernel_killed_for_memory=False
        )
        assert outcome.ending is Ending.LOST
        assert outcome.reason == f"the Spark Connect server at {server.url[5:]} was lost while the job was running"
