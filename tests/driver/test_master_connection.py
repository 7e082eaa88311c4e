"""Drivers on a standalone Spark cluster without a Master or without executors."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.driver.master_connection import NO_EXECUTORS_TIMEOUT_S
from holdfast.driver_protocol.exit_record import parse_exit_record
from holdfast.model.job import Ending
from holdfast.runner.execution.classify import classify_exit
from holdfast.zk.embedded.ports import LOOPBACK
from tests.harness.cluster.spark_standalone import StandaloneCluster
from tests.harness.drivers import DRIVER_TIMEOUT_S, SUBMIT_ARGUMENTS, DriverProcess
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

COUNT = "from holdfast.job import context\nprint('COUNTED', context().spark.range(7).count())\n"
STREAM = """
from holdfast.job import context

ctx = context()
rows = ctx.spark.readStream.format("rate").load()
ctx.run(rows.writeStream.format("noop").option("checkpointLocation", ctx.checkpoint).trigger(processingTime="1 second").start())
"""
NO_RESOURCES = "Initial job has not accepted any resources"
"""Warning that Spark logs every 15 seconds."""


def submit_arguments(master: str) -> str:
    return SUBMIT_ARGUMENTS.replace("local[2]", master).replace(
        "pyspark-shell", f"--conf spark.driver.host={LOOPBACK} --conf spark.executor.memory=512m pyspark-shell"
    )


@pytest.fixture
def silent() -> Iterator[str]:
    """Address that accepts connections but never replies, like a standby Master."""
    with socket.create_server((LOOPBACK, 0)) as server:
        yield f"spark://{LOOPBACK}:{server.getsockname()[1]}"


def test_driver_without_a_reachable_master_is_lost_not_failed(driver: DriverProcess, silent: str) -> None:
    code = driver.run(COUNT, PYSPARK_SUBMIT_ARGS=submit_arguments(silent))
    outcome = classify_exit(
        status=code << 8,
        record=parse_exit_record(driver.exit_record()),
        output_tail=driver.output(),
        stop_requested=False,
        kernel_killed_for_memory=False,
        master=silent,
    )
    assert outcome.ending is Ending.LOST, driver.output()[-3000:]
    assert outcome.reason == f"the Spark Master is unreachable: none answered at {silent}, and Spark gave up"


def test_registered_driver_without_executors_keeps_waiting(driver: DriverProcess, tmp_path: Path) -> None:
    """The driver has no executor for longer than the timeout, but its Master still knows it."""
    with StandaloneCluster(tmp_path / "cluster", workers=0) as spark:
        driver.start(driver.write_script(COUNT), PYSPARK_SUBMIT_ARGS=submit_arguments(spark.url))
        wait_until(
            lambda: driver.output().count(NO_RESOURCES) >= 4 or not driver.alive(),
            DRIVER_TIMEOUT_S,
            "the driver waits for a minute",
        )
        assert driver.alive(), driver.output()[-3000:]
        spark.start_worker()
        assert driver.wait() == 0, driver.output()[-3000:]
    assert "COUNTED 7" in driver.output()


def test_driver_survives_a_master_restart_with_recovery(driver: DriverProcess, tmp_path: Path) -> None:
    """The recovered Master assigns a new executor, so the driver must survive the time without one."""
    with StandaloneCluster(tmp_path / "cluster", workers=1, recovery=True) as spark:
        driver.start(driver.write_script(STREAM), PYSPARK_SUBMIT_ARGS=submit_arguments(spark.url))
        wait_for_batches(driver)
        spark.kill_master()
        spark.start_master()
        assert spark.master is not None
        spark.master.wait_until_logged("Recovery complete")
        spark.kill_worker(spark.workers[0])
        enough = time.monotonic() + 1.5 * NO_EXECUTORS_TIMEOUT_S
        wait_until(
            lambda: time.monotonic() > enough or not driver.alive(),
            DRIVER_TIMEOUT_S,
            "the driver has no executor for longer than the timeout",
        )
        assert driver.alive(), driver.output()[-3000:]
        spark.start_worker()
        wait_for_batches(driver)
        driver.request_stop()
        assert driver.wait() == 0, driver.output()[-3000:]
    assert driver.exit_record()["how"] == "stopped"


def wait_for_batches(driver: DriverProcess) -> None:
    def batch() -> int:
        assert driver.alive(), driver.output()[-3000:]
        return int((driver.progress() or {}).get("batch_id") or 0)

    last = batch()
    wait_until(lambda: batch() > last + 2, DRIVER_TIMEOUT_S, f"batches after {last}")
