"""Jobs on a standalone Spark cluster, which has faults of its own: a Worker dies, the Master goes away and comes back."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.command import Up, started
from tests.harness.cluster.jobs import FIRST_BATCH_S, Jobs, until
from tests.harness.cluster.process_witness import Sightings, sweep
from tests.harness.cluster.spark_standalone import LOOPBACK, Standalone
from tests.harness.cluster.streams import Feeder, Stream, output_of
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

BACK_S = 120.0
"""A job whose Master was away looks again after a minute at the latest."""


CONF = {
    "spark.driver.host": LOOPBACK,
    "spark.cores.max": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
NO_BUDGET = ("--restart", "never")
"""The first failure that counts against the job is its end."""
SCRIPT = """
import sys
from holdfast.job import context

def on_an_executor(_):
    import brought
    return brought.WHERE

with open(sys.argv[1], "w") as file:
    file.write(context().spark.sparkContext.parallelize([0], 1).map(on_an_executor).first())
"""


class Scene:
    """Two nodes, a Spark cluster with two Workers, and a streaming job whose one executor is on one of them."""

    def __init__(self, up: Up, spark: Standalone, jobs: Jobs, feeder: Feeder, stream: Stream) -> None:
        self.up = up
        self.spark = spark
        self.jobs = jobs
        self.feeder = feeder
        self.stream = stream

    def leader(self) -> str:
        leader: str = until(lambda: self.jobs.leader()[0], 60, "somebody leads")
        return leader

    def each_row_once(self) -> None:
        with self.feeder.resting() as rows:
            until(lambda: output_of(self.stream.output) == rows, FIRST_BATCH_S, "each row is there once")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("masters")
    try:
        with (
            Standalone(directory / "spark-cluster") as spark,
            started(directory / "c", "--nodes", "2") as up,
            Sightings(directory) as seen,
            Feeder(directory / "in") as feeder,
            Jobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            stream = Stream(jobs, seen, feeder, "remote", conf={"spark.master": spark.url, **CONF}, options=NO_BUDGET)
            yield Scene(up, spark, jobs, feeder, stream)
    finally:
        sweep(directory)


@pytest.fixture(autouse=True)
def well(scene: Scene) -> Iterator[None]:
    scene.stream.well()
    yield
    scene.stream.check_alone()
    scene.stream.check_contiguous()


def test_a_driver_on_a_spark_cluster_does_not_notice_the_loss_of_the_leader(scene: Scene) -> None:
    driver, leader = scene.stream.attempt().driver, scene.leader()
    agent = scene.up.node(leader)["agent_pid"]
    os.kill(agent, signal.SIGKILL)
    eventually(lambda: scene.up.node(leader)["agent_pid"] not in (agent, None), 30, "another agent")
    scene.stream.advances(2)
    scene.stream.well()
    assert scene.stream.attempt().driver == driver


def test_code_that_a_job_brings_is_there_on_the_executors(scene: Scene, tmp_path: Path) -> None:
    script, brought, seen = tmp_path / "script.py", tmp_path / "brought.py", tmp_path / "seen"
    script.write_text(SCRIPT)
    brought.write_text("WHERE = 'brought along'\n")
    conf, options = {"spark.master": scene.spark.url, **CONF}, ("--py-files", str(brought), *NO_BUDGET)
    id = scene.jobs.submit(script, "brings", str(seen), conf=conf, options=options)
    scene.jobs.in_phase(id, "FINISHED", within_s=FIRST_BATCH_S)
    assert seen.read_text() == "brought along"


def test_a_job_goes_on_when_the_worker_with_its_executor_dies(scene: Scene) -> None:
    driver = scene.stream.attempt().driver
    (victim,) = scene.spark.working()
    scene.spark.kill_worker(victim)
    scene.stream.advances(2)
    assert scene.spark.working(), "it has an executor on the other Worker"
    assert scene.stream.attempt().driver == driver
    scene.each_row_once()
    scene.spark.start_worker()


def test_a_job_outlives_its_master_and_waits_for_one_when_it_is_started_again(scene: Scene) -> None:
    stream, driver = scene.stream, scene.stream.attempt().driver
    scene.spark.kill_master()
    stream.advances(2)
    assert stream.attempt().driver == driver, "a driver needs no Master as long as it has executors"

    scene.jobs.ok("restart", stream.id)
    away = f"the Spark Master is away: nobody answers at {scene.spark.url}"
    waiting = until(lambda: (view := stream.view)["phase"] == "BACKOFF" and away in view["reason"] and view, 60, away)
    assert "times in a row, again in" in waiting["reason"]
    assert away in scene.jobs.ok("show", stream.id)
    assert any(away in event["reason"] for event in scene.jobs.events(stream.id))

    scene.spark.start_master()
    stream.well(within_s=BACK_S + FIRST_BATCH_S)
    scene.each_row_once()


def test_a_job_that_a_new_master_does_not_know_is_started_again(scene: Scene) -> None:
    """The Workers come back to the new Master, which ends the executors of an application that it has never heard of."""
    stream, driver = scene.stream, scene.stream.attempt().driver
    scene.spark.kill_master()
    scene.spark.start_master()
    stream.gone(driver, within_s=FIRST_BATCH_S)
    lost = [event for event in scene.jobs.events(stream.id) if event["attempt"] == driver.attempt][-1]
    assert lost["phase"] in ("PENDING", "BACKOFF")
    assert "its Spark Master went away while it ran" in lost["reason"]
    stream.well()
    scene.each_row_once()
