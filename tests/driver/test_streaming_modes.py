"""Streaming modes other than micro-batches, and sources that cannot be resumed: progress, stop, and the next attempt."""

import json
import shlex
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.drivers import DRIVER_TIMEOUT_S, SUBMIT_ARGUMENTS, DriverProcess, list_batches
from tests.harness.kafka.brokers import kraft_brokers
from tests.harness.kafka.jars import connector_jars
from tests.harness.kafka.topic import Topic
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

HEAD = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rate = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
"""
CONTINUOUS = (
    HEAD
    + """
rate.writeStream.format("console").queryName("q").trigger(continuous="1 second").start().awaitTermination()
"""
)
ASYNCHRONOUS = (
    HEAD
    + """
write = rate.writeStream.format("noop").queryName("q").option("asyncProgressTrackingEnabled", "true")
write.option("asyncProgressTrackingCheckpointIntervalMs", "5000").start().awaitTermination()
"""
)
SOCKET = (
    HEAD
    + """
lines = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", sys.argv[1]).load()
lines.writeStream.format("noop").queryName("q").start()
"""
)
REAL_TIME = (
    HEAD
    + """
rows = spark.readStream.format("kafka").option("kafka.bootstrap.servers", sys.argv[1]).option("subscribe", sys.argv[2])
rows = rows.option("startingOffsets", "earliest").load().selectExpr("CAST(value AS STRING)")
write = rows.writeStream.format("console").outputMode("update").queryName("q")
write.trigger(realTime=sys.argv[3]).start().awaitTermination()
"""
)


def reported_batch(driver: DriverProcess) -> int | None:
    assert driver.alive(), driver.output()[-3000:]
    batch: int | None = (driver.progress() or {}).get("batch_id")
    return batch


def wait_for_batch(driver: DriverProcess, batch: int) -> None:
    def has_committed() -> bool:
        reported = reported_batch(driver)
        return reported is not None and reported >= batch

    wait_until(has_committed, 2 * DRIVER_TIMEOUT_S, f"batch {batch} is reported")


def started_query(driver: DriverProcess) -> dict[str, object]:
    (entry,) = json.loads((driver.control / "queries.json").read_text())["queries"]
    assert isinstance(entry, dict)
    return entry


def test_continuous_query_reports_its_epochs_and_continues_after_them(attempts: Callable[[], DriverProcess]) -> None:
    first = attempts()
    first.start(first.write_script(CONTINUOUS))
    wait_for_batch(first, 1)
    progress = first.progress()
    assert progress is not None and isinstance(progress["offsets"][0], dict) and progress["rows_per_second"] is None
    assert "writes the rows of its last epoch again" in str(started_query(first)["note"])
    first.request_stop()
    assert first.wait() == 0, first.output()[-3000:]
    assert first.exit_record()["reason"] == "the job stopped as requested, but possibly within a batch, which then runs again"
    commits = list_batches(first.checkpoint / "q" / "commits")
    last = first.progress()
    assert last is not None and last["batch_id"] <= commits[-1]

    second = attempts()
    second.start(second.write_script(CONTINUOUS))
    wait_for_batch(second, commits[-1] + 1)


def test_asynchronous_query_reports_only_batches_that_its_checkpoint_has(attempts: Callable[[], DriverProcess]) -> None:
    first = attempts()
    first.start(first.write_script(ASYNCHRONOUS))
    wait_for_batch(first, 3)
    first.kill()
    killed_at = first.progress()
    commits = list_batches(first.checkpoint / "q" / "commits")
    assert killed_at is not None and killed_at["batch_id"] <= commits[-1]
    assert commits != list(range(commits[-1] + 1)), "Spark does not commit every batch, or this test proves nothing"

    second = attempts()
    second.start(second.write_script(ASYNCHRONOUS))
    wait_for_batch(second, commits[-1] + 1)
    assert "writes its last rows again" in str(started_query(second)["note"])
    second.request_stop()
    assert second.wait() == 0, second.output()[-3000:]
    stopped_at = second.progress()
    assert stopped_at is not None and stopped_at["batch_id"] <= list_batches(second.checkpoint / "q" / "commits")[-1]


@pytest.fixture
def lines() -> Iterator[int]:
    """Server that sends a line every tenth of a second to each client. Returns its port."""
    ended = threading.Event()

    def send(client: socket.socket) -> None:
        with client:
            while not ended.wait(0.1):
                try:
                    client.sendall(b"a line\n")
                except OSError:
                    return

    def accept(server: socket.socket) -> None:
        while not ended.is_set():
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=send, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, args=(server,), daemon=True).start()
        yield server.getsockname()[1]
        ended.set()


def test_query_that_reads_a_socket_starts_over_and_leaves_no_checkpoint(
    attempts: Callable[[], DriverProcess], lines: int
) -> None:
    for driver in (attempts(), attempts()):
        scratch = driver.directory / "tmp"
        scratch.mkdir()
        driver.start(driver.write_script(SOCKET), str(lines), TMPDIR=str(scratch))
        wait_for_batch(driver, 0)
        entry = started_query(driver)
        assert entry["location"] == "" and "cannot be resumed (socket)" in str(entry["note"])
        assert not (driver.checkpoint / "q").exists()
        assert len(list(scratch.glob("checkpoint-*/commits"))) == 1
        driver.kill()


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topic]:
    with kraft_brokers(tmp_path_factory.mktemp("brokers"), size=1) as brokers:
        topic = Topic(brokers)
        topic.create([1])
        yield topic


def test_real_time_query_ends_its_batch_after_a_stop_request_and_continues_after_it(
    attempts: Callable[[], DriverProcess], topic: Topic
) -> None:
    jars = ",".join(str(jar) for jar in connector_jars())
    arguments = SUBMIT_ARGUMENTS.replace("pyspark-shell", f"--conf spark.jars={shlex.quote(jars)} pyspark-shell")
    first = attempts()
    topic.write(3)
    first.start(first.write_script(REAL_TIME), topic.bootstrap, topic.name, "10 seconds", PYSPARK_SUBMIT_ARGS=arguments)
    wait_for_batch(first, 0)
    assert started_query(first)["batch_s"] == 10.0
    first.request_stop()
    assert first.wait() == 0, first.output()[-3000:]
    assert first.exit_record()["reason"] == "the job stopped at a batch boundary, as requested"
    committed = list_batches(first.checkpoint / "q" / "commits")
    assert committed == list_batches(first.checkpoint / "q" / "offsets")
    last = first.progress()
    assert last is not None and last["batch_id"] == committed[-1]
    assert set(console_rows(first)) <= {"0", "1", "2"}

    topic.write(2)
    second = attempts()
    second.start(second.write_script(REAL_TIME), topic.bootstrap, topic.name, "10 seconds", PYSPARK_SUBMIT_ARGS=arguments)
    wait_until(lambda: "4" in console_rows(second), 2 * DRIVER_TIMEOUT_S, "the last row is written")
    assert sorted(console_rows(first) + console_rows(second)) == ["0", "1", "2", "3", "4"]


def console_rows(driver: DriverProcess) -> list[str]:
    """Return the rows that the console sink has printed."""
    cells = [line.strip("|").strip() for line in Path(driver.log).read_text().splitlines() if line.startswith("|")]
    return [cell for cell in cells if cell.isdigit()]
