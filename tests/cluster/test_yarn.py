"""Jobs in YARN, with state on HDFS, while daemons and containers are killed."""

import contextlib
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.zk.embedded import EmbeddedEnsemble, ServerSettings
from tests.harness.cluster.jobs import ClusterJobs, poll_until
from tests.harness.cluster.nodes import Node, start_node
from tests.harness.cluster.process_observer import kill_leftovers
from tests.harness.cluster.streams import Feeder
from tests.harness.hadoop.cluster import APPLICATION_MASTER, EXECUTOR, SPARK_CONF, HadoopCluster
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

SCRIPTS = Path(__file__).parents[1] / "harness" / "hadoop" / "scripts"
START_S = 400.0
"""Spark on YARN starts three JVMs one after the other."""
NO_RESTARTS = ("--restart", "never")
"""The first failure that counts against the restart budget ends the job."""


class YarnScene:
    """Two nodes, HDFS, and YARN with one NodeManager. Without a scheme, paths lead to HDFS."""

    def __init__(self, directory: Path, hadoop: HadoopCluster, nodes: dict[str, Node], jobs: ClusterJobs) -> None:
        self.directory = directory
        self.hadoop = hadoop
        self.nodes = nodes
        self.jobs = jobs

    def submit(self, script: str, name: str, *arguments: str, queue: str = "default") -> str:
        conf = {**SPARK_CONF, "spark.yarn.queue": queue, "spark.sql.shuffle.partitions": "2"}
        return self.jobs.submit(SCRIPTS / script, name, *arguments, conf=conf, options=NO_RESTARTS)

    def show(self, id: str) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads(self.jobs.run_ok("show", id, "--json"))
        return fields

    def wait_for_reason(self, id: str, text: str, timeout_s: float = START_S) -> dict[str, Any]:
        def view_with_reason() -> dict[str, Any] | None:
            view = self.jobs[id]
            return view if text in view["reason"] else None

        view: dict[str, Any] = poll_until(view_with_reason, timeout_s, f"the reason of {id} has '{text}'")
        return view


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnScene]:
    directory = tmp_path_factory.mktemp("yarn")
    try:
        with contextlib.ExitStack() as stack:
            hadoop = stack.enter_context(HadoopCluster(directory / "hadoop"))
            environment = stack.enter_context(pytest.MonkeyPatch.context())
            for name, value in hadoop.environment.items():
                environment.setenv(name, value)
            ensemble = EmbeddedEnsemble(directory / "zookeeper", size=1, settings=ServerSettings(tick_ms=1000))
            stack.callback(ensemble.stop)
            ensemble.start()
            ensemble.wait_ready(START_S)
            connect = ensemble.connect_string
            settings: dict[str, dict[str, Any]] = {
                "zookeeper": {"session_timeout_s": 20.0, "tick_s": 1.0, "sync_limit": 5},
                "timing": {"margin_s": 4.0, "stop_s": 20.0},
                "cluster": {"storage": str(directory / "storage")},
                "node": {"slots": 2},
            }
            nodes = {
                id: stack.enter_context(start_node(directory / id, connect, cluster="c", id=id, settings=settings))
                for id in ("n1", "n2")
            }
            jobs = ClusterJobs(directory, directory, "--connect", connect, "--cluster", "c")
            stack.enter_context(jobs)
            poll_until(lambda: len(jobs.nodes()) == 2 and jobs.leader()[0], START_S, "two nodes, and one of them leads")
            yield YarnScene(directory, hadoop, nodes, jobs)
    finally:
        kill_leftovers(directory)


class TotalsJob:
    """Stateful job that counts the lines of a feeder."""

    def __init__(self, scene: YarnScene, feeder: Feeder, file: Path) -> None:
        self._file = file
        paths = {
            "input": str(feeder.directory),
            "totals": str(file),
            "state": f"{scene.hadoop.root}/state-of-{file.parent.name}",
        }
        self.id = scene.submit(
            "totals.py", f"totals-of-{file.parent.name}", *(f"--{name}={path}" for name, path in paths.items())
        )

    def read(self) -> dict[str, Any]:
        try:
            fields: dict[str, Any] = json.loads(self._file.read_text())
            return fields
        except FileNotFoundError:
            return {"batch": -1, "counts": {}}

    def wait_for_batches(self, count: int = 2) -> None:
        last = self.read()["batch"]
        wait_until(lambda: self.read()["batch"] >= last + count, START_S, f"{count} batches after {last}")


def test_job_with_state_survives_leader_and_containers_and_waits_for_a_resource_manager(
    scene: YarnScene, tmp_path: Path
) -> None:
    hadoop, jobs = scene.hadoop, scene.jobs
    with Feeder(tmp_path / "in") as feeder:
        totals = TotalsJob(scene, feeder, tmp_path / "totals.json")
        totals.wait_for_batches()
        before = poll_until(lambda: (view := jobs[totals.id])["driver_pid"] and view, 60, "its driver is known")
        application = hadoop.applications()[0]["id"]

        leader, epoch = jobs.leader()
        agent = scene.nodes[str(leader)].agent_pid()
        assert agent is not None
        os.kill(agent, signal.SIGKILL)
        poll_until(lambda: jobs.leader()[0] and jobs.leader()[1] > epoch, 120, "another epoch begins")
        totals.wait_for_batches()

        hadoop.kill_container(EXECUTOR)
        totals.wait_for_batches()
        poll_until(lambda: scene.show(totals.id)["spark"]["executors_lost"] >= 1, 60, "the lost executor is shown")

        hadoop.kill_container(APPLICATION_MASTER)
        wait_until(lambda: hadoop.java_containers(APPLICATION_MASTER), START_S, "YARN starts the application master again")
        totals.wait_for_batches()

        hadoop.resourcemanager.kill()
        scene.wait_for_reason(totals.id, "YARN's ResourceManager does not answer")
        totals.wait_for_batches()
        hadoop.resourcemanager.start()
        hadoop.resourcemanager.wait_until_ready()
        totals.wait_for_batches()
        poll_until(lambda: "does not answer" not in jobs[totals.id]["reason"], START_S, "the reason says that it answers again")

        with feeder.pause() as rows:
            wait_until(lambda: Counter(totals.read()["counts"]) == rows, START_S, "each row was counted once")
    after = scene.show(totals.id)
    assert (after["driver_pid"], after["attempt"], after["restarts"]) == (before["driver_pid"], 1, 0)
    assert (after["spark"]["application"], after["spark"]["state"]) == (application, "RUNNING")
    jobs.run_ok("stop", totals.id, "--wait")
    wait_until(lambda: hadoop.application(application)["state"] == "FINISHED", START_S, "its application has finished")


def test_job_in_a_full_queue_waits_with_that_reason_and_uses_up_no_restarts(scene: YarnScene) -> None:
    hadoop, jobs = scene.hadoop, scene.jobs
    sleeper = hadoop.submit_sleeper("narrow", 2048)
    id = scene.submit("one_task.py", "waits", queue="narrow")
    first = scene.wait_for_reason(id, "is ACCEPTED in the queue")
    assert first["phase"] == "STARTING" and "narrow (" in first["reason"]
    application = str(scene.show(id)["spark"]["application"])

    jobs.run_ok("restart", id)
    poll_until(lambda: jobs[id]["attempt"] == 2, START_S, "a second attempt")
    second = scene.wait_for_reason(id, "is ACCEPTED in the queue")
    assert application not in second["reason"]
    wait_until(lambda: hadoop.application(application)["state"] == "KILLED", 60, "the first attempt's application is withdrawn")

    hadoop.kill_application(sleeper)
    jobs.wait_for_phase(id, "FINISHED", timeout_s=START_S)


def test_application_that_an_administrator_killed_is_a_failure_with_the_reason_of_yarn(
    scene: YarnScene, tmp_path: Path
) -> None:
    with Feeder(tmp_path / "in") as feeder:
        totals = TotalsJob(scene, feeder, tmp_path / "totals.json")
        totals.wait_for_batches(1)
        application = str(poll_until(lambda: scene.show(totals.id)["spark"], 60, "the application is known")["application"])
        scene.hadoop.kill_application(application)
        ended = scene.jobs.wait_for_phase(totals.id, "FAILED", timeout_s=START_S)
    assert f"YARN ended {application}: it is KILLED" in ended["reason"]


def test_job_waits_for_a_resource_manager_without_using_up_restarts(scene: YarnScene) -> None:
    hadoop = scene.hadoop
    hadoop.resourcemanager.kill()
    id = scene.submit("one_task.py", "early")
    unreachable = f"YARN is unreachable: no ResourceManager answers at 127.0.0.1:{hadoop.ports.resourcemanager}"
    assert scene.wait_for_reason(id, unreachable)["phase"] in ("BACKOFF", "PENDING", "STARTING")
    hadoop.resourcemanager.start()
    hadoop.resourcemanager.wait_until_ready()
    scene.jobs.wait_for_phase(id, "FINISHED", timeout_s=START_S)
