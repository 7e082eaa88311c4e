"""Drivers for a standalone Spark cluster that does not give them what they need, yet or at all."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.driver.master_connection import PATIENCE_S
from holdfast.model.job import Ending
from holdfast.runner.classify import classify
from tests.harness.cluster.spark_standalone import LOOPBACK, Standalone
from tests.harness.drivers import CONF, WITHIN_S, Driver
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

COUNT = "from holdfast.job import context\nprint('COUNTED', context().spark.range(7).count())\n"
STREAM = """
from holdfast.job import context

ctx = context()
rows = ctx.spark.readStream.format("rate").load()
ctx.run(rows.writeStream.format("noop").option("checkpointLocation", ctx.checkpoint).trigger(processingTime="1 second").start())
"""
NO_RESOURCES = "Initial job has not accepted any resources"
"""What Spark says every 15 seconds."""


def on(master: str) -> str:
    return CONF.replace("local[2]", master).replace(
        "pyspark-shell", f"--conf spark.driver.host={LOOPBACK} --conf spark.executor.memory=512m pyspark-shell"
    )


@pytest.fixture
def silent() -> Iterator[str]:
    """Something that takes connections like a Master, and never says a word, like one that only stands by."""
    with socket.create_server((LOOPBACK, 0)) as server:
        yield f"spark://{LOOPBACK}:{server.getsockname()[1]}"


def test_a_driver_that_no_master_answers_is_lost_and_not_failed(driver: Driver, silent: str) -> None:
    code = driver.run(COUNT, PYSPARK_SUBMIT_ARGS=on(silent))
    outcome = classify(
        status=code << 8, end=driver.end(), tail=driver.output(), stop_asked=False, oom_kills=False, master=silent
    )
    assert outcome.ending is Ending.LOST, driver.output()[-3000:]
    assert outcome.reason == f"the Spark Master is away: none answered at {silent}, and Spark gave up"


def test_a_driver_that_waits_for_room_is_left_alone(driver: Driver, tmp_path: Path) -> None:
    """It has no executor for longer than one without a Master would be given, but its Master knows it."""
    with Standalone(tmp_path / "cluster", workers=0) as spark:
        driver.start(driver.put(COUNT), PYSPARK_SUBMIT_ARGS=on(spark.url))
        eventually(
            lambda: driver.output().count(NO_RESOURCES) >= 4 or not driver.alive(), WITHIN_S, "it has waited for a minute"
        )
        assert driver.alive(), driver.output()[-3000:]
        spark.start_worker()
        assert driver.wait() == 0, driver.output()[-3000:]
    assert "COUNTED 7" in driver.output()


def test_a_driver_goes_on_under_a_master_that_remembers_it(driver: Driver, tmp_path: Path) -> None:
    """It is given another executor by the new Master, so it has every reason to live on without one meanwhile."""
    with Standalone(tmp_path / "cluster", workers=1, recovery=True) as spark:
        driver.start(driver.put(STREAM), PYSPARK_SUBMIT_ARGS=on(spark.url))
        advances(driver)
        spark.kill_master()
        spark.start_master()
        assert spark.master is not None
        spark.master.until_logged("Recovery complete")
        spark.kill_worker(spark.workers[0])
        enough = time.monotonic() + 1.5 * PATIENCE_S
        eventually(lambda: time.monotonic() > enough or not driver.alive(), WITHIN_S, "it has had no executor for long")
        assert driver.alive(), driver.output()[-3000:]
        spark.start_worker()
        advances(driver)
        driver.ask_to_stop()
        assert driver.wait() == 0, driver.output()[-3000:]
    assert driver.end()["how"] == "stopped"


def advances(driver: Driver) -> None:
    def batch() -> int:
        assert driver.alive(), driver.output()[-3000:]
        return int((driver.progress() or {}).get("batch_id") or 0)

    last = batch()
    eventually(lambda: batch() > last + 2, WITHIN_S, f"batches after {last}")
