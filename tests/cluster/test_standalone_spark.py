"""Jobs on a standalone Spark cluster, while its Workers and its Master are killed."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.zk.embedded.ports import LOOPBACK
from tests.harness.cluster.command import RunningCluster, start_cluster
from tests.harness.cluster.jobs import FIRST_BATCH_S, ClusterJobs, poll_until
from tests.harness.cluster.process_observer import ProcessObserver, kill_leftovers
from tests.harness.cluster.spark_standalone import StandaloneCluster
from tests.harness.cluster.streams import Feeder, StreamJob, read_committed_lines
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

RETRY_S_MAX = 120.0
"""A job whose Master was unreachable retries at least once a minute."""


CONF = {
    "spark.driver.host": LOOPBACK,
    "spark.cores.max": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.decommission.enabled": "true",
}
DYNAMIC_ALLOCATION = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "1",
    "spark.dynamicAllocation.executorIdleTimeout": "3s",
}
NO_RESTARTS = ("--restart", "never")
"""The first failure that counts against the restart budget ends the job."""
SCRIPT = """
import sys
from holdfast.job import context

def read_on_executor(_):
    import brought
    return brought.WHERE

with open(sys.argv[1], "w") as file:
    file.write(context().spark.sparkContext.parallelize([0], 1).map(read_on_executor).first())
"""
BURST = """
import os, sys, time
from holdfast.job import context

context().spark.sparkContext.parallelize([0], 1).map(lambda _: time.sleep(8)).count()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.2)
"""


class StandaloneScene:
    """Cluster of two nodes, a Spark cluster with two Workers, and a streaming job with one executor."""

    def __init__(
        self, up: RunningCluster, spark: StandaloneCluster, jobs: ClusterJobs, feeder: Feeder, stream: StreamJob
    ) -> None:
        self.up = up
        self.spark = spark
        self.jobs = jobs
        self.feeder = feeder
        self.stream = stream

    def leader(self) -> str:
        leader: str = poll_until(lambda: self.jobs.leader()[0], 60, "a node leads")
        return leader

    def executors(self, id: str) -> dict[str, Any]:
        """Return what `show` says about the executors of a job; zeros before its driver has reported them."""
        fields: dict[str, Any] = json.loads(self.jobs.run_ok("show", id, "--json"))
        return fields["spark"] or {"executors": 0, "executors_lost": 0, "executors_decommissioned": 0}

    def wait_for_each_row_once(self) -> None:
        with self.feeder.pause() as rows:
            poll_until(lambda: read_committed_lines(self.stream.output) == rows, FIRST_BATCH_S, "each row was copied once")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneScene]:
    directory = tmp_path_factory.mktemp("masters")
    try:
        with (
            StandaloneCluster(directory / "spark-cluster") as spark,
            start_cluster(directory / "c", "--nodes", "2") as up,
            ProcessObserver(directory) as observer,
            Feeder(directory / "in") as feeder,
            ClusterJobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            stream = StreamJob(jobs, observer, feeder, "remote", conf={"spark.master": spark.url, **CONF}, options=NO_RESTARTS)
            yield StandaloneScene(up, spark, jobs, feeder, stream)
    finally:
        kill_leftovers(directory)


@pytest.fixture(autouse=True)
def check_stream(scene: StandaloneScene) -> Iterator[None]:
    scene.stream.wait_until_healthy()
    yield
    scene.stream.check_single_driver()
    scene.stream.check_contiguous_batches()


def test_driver_on_a_spark_cluster_survives_the_loss_of_the_leader(scene: StandaloneScene) -> None:
    driver, leader = scene.stream.attempt().driver, scene.leader()
    agent = scene.up.node(leader)["agent_pid"]
    os.kill(agent, signal.SIGKILL)
    wait_until(lambda: scene.up.node(leader)["agent_pid"] not in (agent, None), 30, "a new agent runs")
    scene.stream.wait_for_batches(2)
    scene.stream.wait_until_healthy()
    assert scene.stream.attempt().driver == driver


def test_py_files_are_available_on_executors(scene: StandaloneScene, tmp_path: Path) -> None:
    script, brought, output = tmp_path / "script.py", tmp_path / "brought.py", tmp_path / "output"
    script.write_text(SCRIPT)
    brought.write_text("WHERE = 'brought along'\n")
    conf, options = {"spark.master": scene.spark.url, **CONF}, ("--py-files", str(brought), *NO_RESTARTS)
    id = scene.jobs.submit(script, "brings", str(output), conf=conf, options=options)
    scene.jobs.wait_for_phase(id, "FINISHED", timeout_s=FIRST_BATCH_S)
    assert output.read_text() == "brought along"


def test_job_continues_after_the_worker_with_its_executor_dies(scene: StandaloneScene) -> None:
    driver = scene.stream.attempt().driver
    (victim,) = scene.spark.workers_with_executors()
    scene.spark.kill_worker(victim)
    scene.stream.wait_for_batches(2)
    assert scene.spark.workers_with_executors(), "the job has an executor on the other Worker"
    assert scene.stream.attempt().driver == driver
    lost = poll_until(lambda: (now := scene.executors(scene.stream.id))["executors_lost"] > 0 and now, 60, "the loss is shown")
    assert lost["executors"] == 1 and lost["last_loss"] and lost["state"] is None
    scene.wait_for_each_row_once()
    scene.spark.start_worker()


def test_job_continues_while_the_worker_with_its_executor_is_decommissioned(scene: StandaloneScene) -> None:
    driver, before = scene.stream.attempt().driver, scene.executors(scene.stream.id)
    (leaving,) = scene.spark.workers_with_executors()
    scene.spark.decommission_worker(leaving)

    def has_moved() -> bool:
        now = scene.executors(scene.stream.id)
        return bool(now["executors_decommissioned"] > before["executors_decommissioned"] and now["executors"] == 1)

    poll_until(has_moved, FIRST_BATCH_S, "the decommissioned executor is shown, and another one is alive")
    scene.stream.wait_for_batches(2)
    assert scene.stream.attempt().driver == driver
    assert scene.executors(scene.stream.id)["executors_lost"] == before["executors_lost"], "it was not lost"
    scene.wait_for_each_row_once()
    scene.spark.kill_worker(leaving)
    scene.spark.start_worker()


def test_executor_that_dynamic_allocation_releases_is_not_lost(scene: StandaloneScene, tmp_path: Path) -> None:
    script, end = tmp_path / "script.py", tmp_path / "end"
    script.write_text(BURST)
    conf = {"spark.master": scene.spark.url, **CONF, **DYNAMIC_ALLOCATION}
    id = scene.jobs.submit(script, "burst", str(end), conf=conf, options=NO_RESTARTS)
    poll_until(lambda: scene.executors(id)["executors"] == 1, FIRST_BATCH_S, "an executor is added")
    poll_until(lambda: scene.executors(id)["executors"] == 0, FIRST_BATCH_S, "the idle executor is released")
    assert scene.executors(id)["executors_lost"] == 0
    end.touch()
    scene.jobs.wait_for_phase(id, "FINISHED", timeout_s=FIRST_BATCH_S)


def test_job_survives_its_master_and_waits_for_one_after_a_restart(scene: StandaloneScene) -> None:
    stream, driver = scene.stream, scene.stream.attempt().driver
    scene.spark.kill_master()
    stream.wait_for_batches(2)
    assert stream.attempt().driver == driver, "a driver with executors needs no Master"

    scene.jobs.run_ok("restart", stream.id)
    unreachable = f"the Spark Master is unreachable: no Master answers at {scene.spark.url}"
    waiting = poll_until(
        lambda: (view := stream.view)["phase"] == "BACKOFF" and unreachable in view["reason"] and view, 60, unreachable
    )
    assert "times in a row, next attempt in" in waiting["reason"]
    assert unreachable in scene.jobs.run_ok("show", stream.id)
    assert any(unreachable in event["reason"] for event in scene.jobs.events(stream.id))

    scene.spark.start_master()
    stream.wait_until_healthy(timeout_s=RETRY_S_MAX + FIRST_BATCH_S)
    scene.wait_for_each_row_once()


def test_job_unknown_to_a_restarted_master_is_restarted(scene: StandaloneScene) -> None:
    """The Workers register with the new Master, which kills the executors of unknown applications."""
    stream, driver = scene.stream, scene.stream.attempt().driver
    scene.spark.kill_master()
    scene.spark.start_master()
    stream.wait_until_gone(driver, timeout_s=FIRST_BATCH_S)
    last_event = [event for event in scene.jobs.events(stream.id) if event["attempt"] == driver.attempt][-1]
    assert last_event["phase"] in ("PENDING", "BACKOFF")
    assert "the Spark Master was lost while the job was running" in last_event["reason"]
    stream.wait_until_healthy()
    scene.wait_for_each_row_once()
