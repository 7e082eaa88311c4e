"""Broken jobs and restored records of ended jobs: none of them affects another job."""

import json
import os
import secrets
import shutil
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.harness.cluster.command import RunningCluster, error_message, holdfast, start_cluster
from tests.harness.cluster.jobs import ClusterJobs, poll_until
from tests.harness.cluster.process_observer import ProcessObserver, kill_leftovers
from tests.harness.cluster.streams import Feeder, StreamJob

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

MINUTE_S = 60.0
NO_ROOM = "waiting for free slots: the job needs 2 slots, and no node has that many free"
ROOT = "/holdfast/default"
EXAMPLES = Path(__file__).parents[2] / "examples"
SLEEPER = "import time\ntime.sleep(3600)\n"


class BrokenJobsScene:
    """Cluster of two nodes with two slots. A healthy job on each leaves no room for a job that needs two slots."""

    def __init__(self, up: RunningCluster, jobs: ClusterJobs, observer: ProcessObserver, live: StreamJob) -> None:
        self.up = up
        self.jobs = jobs
        self.observer = observer
        self.live = live
        self.service = self.sleeper("service")
        poll_until(
            lambda: {self.live.view["node"], self.jobs[self.service]["node"]} == {"n1", "n2"}, 60, "one job on each node"
        )
        self._waiting: str | None = self.sleeper("waiting", "--slots", "2")
        self._waiting_since = time.monotonic()

    def sleeper(self, name: str, *options: str) -> str:
        """Submit a job that only sleeps, with a unique script."""
        return self.script(name, f"{SLEEPER}# {name} {secrets.token_hex(4)}\n", *options)

    def script(self, name: str, text: str, *options: str) -> str:
        file = self.jobs.directory / f"{name}.py"
        file.write_text(text)
        return self.jobs.submit(file, name, options=options, spark=False)

    def wait_for_driver(self, job: str) -> None:
        poll_until(lambda: self.jobs[job]["driver_pid"], 60, "the job runs")

    def kill_leader(self) -> None:
        leader, epoch = poll_until(lambda: self.jobs.leader() if self.jobs.leader()[0] else None, 60, "a node leads")
        os.kill(self.up.node(leader)["agent_pid"], signal.SIGKILL)
        poll_until(lambda: self.jobs.leader()[0] and self.jobs.leader()[1] > epoch, 60, "another node leads")
        self.wait_for_both_nodes()

    def wait_for_both_nodes(self) -> None:
        poll_until(
            lambda: len(self.jobs.nodes()) == 2 and self.jobs.leader()[0], 60, "both nodes are registered, and one leads"
        )

    def check_waiting(self) -> None:
        """Check that the waiting job had one reason and no attempt for a minute."""
        if self._waiting is None:
            return
        poll_until(lambda: time.monotonic() > self._waiting_since + MINUTE_S, MINUTE_S + 5, "a minute has passed")
        view = self.jobs[self._waiting]
        assert (view["phase"], view["reason"], view["attempt"], view["restarts"]) == ("PENDING", NO_ROOM, 0, 0)
        assert [event["reason"] for event in self.jobs.events(self._waiting)] == [NO_ROOM]
        assert not self.observer.processes(self._waiting)
        self.jobs.run_ok("cancel", self._waiting, "--wait")
        self._waiting = None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokenJobsScene]:
    directory = tmp_path_factory.mktemp("broken")
    try:
        with (
            start_cluster(directory / "c", "--nodes", "2", "--slots", "2") as up,
            ProcessObserver(directory) as observer,
            Feeder(directory / "in") as feeder,
            ClusterJobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield BrokenJobsScene(up, jobs, observer, StreamJob(jobs, observer, feeder, "live"))
        assert not kill_leftovers(directory), "down leaves nothing running"
    finally:
        kill_leftovers(directory)


@pytest.fixture
def scene(cluster: BrokenJobsScene) -> Iterator[BrokenJobsScene]:
    cluster.wait_for_both_nodes()
    cluster.live.wait_until_healthy()
    yield cluster
    cluster.live.wait_until_healthy()
    cluster.live.check_single_driver()
    cluster.live.check_contiguous_batches()


@pytest.fixture
def operator(cluster: BrokenJobsScene) -> Iterator[KazooClient]:
    """ZooKeeper client for manipulating znodes behind Holdfast's back."""
    client = cluster.up.zookeeper_client()
    client.start(20)
    yield client
    client.stop()
    client.close()


class Backup:
    """Copy of a job's znodes and files, made while it runs and restored after its end."""

    def __init__(self, scene: BrokenJobsScene, operator: KazooClient, job: str) -> None:
        self._operator = operator
        self._path = f"{ROOT}/jobs/{job}"
        parts = [part for part in operator.get_children(self._path) if part != "lease"]
        self._parts = {part: operator.get(f"{self._path}/{part}") for part in parts}
        node = scene.jobs[job]["node"]
        self._order = f"{ROOT}/orders/{node}/{job}", operator.get(f"{ROOT}/orders/{node}/{job}")[0]
        self._storage, self._copy = scene.jobs.storage, scene.jobs.directory / f"backup-{job}"
        shutil.copytree(self._storage, self._copy, ignore_dangling_symlinks=True, ignore=shutil.ignore_patterns(scene.live.id))

    def restore(self) -> None:
        shutil.copytree(self._copy, self._storage, dirs_exist_ok=True)
        # One transaction, so that no node sees a part of it.
        transaction = self._operator.transaction()
        for part in self._operator.get_children(self._path):
            transaction.delete(f"{self._path}/{part}")
        transaction.delete(self._path)
        transaction.create(self._path)
        for part, (data, stat) in self._parts.items():
            transaction.create(f"{self._path}/{part}", data)
            for _ in range(stat.version):  # restore the znode version too
                transaction.set_data(f"{self._path}/{part}", data)
        if not self._operator.exists(self._order[0]):
            transaction.create(*self._order)
        assert not [result for result in transaction.commit() if isinstance(result, Exception)]


@pytest.mark.incident
def test_restored_records_of_ended_jobs_never_run_and_running_jobs_keep_their_slots(
    scene: BrokenJobsScene, operator: KazooClient
) -> None:
    driver, service = scene.live.attempt().driver, scene.jobs[scene.service]
    replaced, cancelled = scene.sleeper("replaced"), scene.sleeper("cancelled")
    backups = []
    for job in (replaced, cancelled):
        scene.wait_for_driver(job)
        backups.append(Backup(scene, operator, job))
    for job in (replaced, cancelled):
        scene.jobs.run_ok("cancel", job, "--wait")
    successor = scene.sleeper("replaced")
    process_counts = {job: len(scene.observer.processes(job)) for job in (replaced, cancelled)}

    # One job has a successor of the same name. Of the other, files and the desired state are restored, but not its phase.
    backups[0].restore()
    shutil.copytree(backups[1]._copy, scene.jobs.storage, dirs_exist_ok=True)
    operator.set(f"{ROOT}/jobs/{cancelled}/desired", backups[1]._parts["desired"][0])
    scene.kill_leader()
    poll_until(lambda: scene.jobs[replaced]["phase"] == "QUARANTINED", 60, "the restored job is quarantined")
    reason = scene.jobs[replaced]["reason"]
    assert "its name belongs to another job" in reason or "restored by hand" in reason, reason
    assert scene.jobs[cancelled]["phase"] == "CANCELLED"
    scene.kill_leader()
    poll_until(lambda: scene.jobs[successor]["phase"] == "RUNNING", 60, "the successor runs")

    scene.check_waiting()
    assert {job: len(scene.observer.processes(job)) for job in (replaced, cancelled)} == process_counts, (
        "neither job had another process"
    )
    assert scene.live.attempt().driver == driver
    assert scene.jobs[scene.service]["driver_pid"] == service["driver_pid"]
    for job in (successor, replaced):
        scene.jobs.run_ok("cancel", job, "--wait")


def test_name_of_a_live_job_cannot_be_used_again(scene: BrokenJobsScene) -> None:
    other = scene.jobs.directory / "other.py"
    other.write_text(SLEEPER)
    message = error_message(scene.jobs.run("submit", str(other), "--name", "live"))
    assert "'live'" in message
    assert scene.live.id in message


GREEDY = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))
held = []
while True:
    held.append(bytearray(2**24))
"""
BROKEN_AT_ONCE = {
    "import": ("import a_module_that_nobody_has\n", "fixed:1:1s", 2, "No module named 'a_module_that_nobody_has'"),
    "memory": (GREEDY, "never", 1, "ran out of memory"),
    # A backoff longer than a node may take to start an attempt: that time must not start before the order.
    "killed": ("import os\nos.kill(os.getpid(), 9)\n", "fixed:1:31s", 2, "killed by SIGKILL"),
}
"""Failing scripts, with their restart strategy, number of attempts and expected reason."""


@pytest.mark.incident
def test_each_broken_job_ends_with_its_own_reason_and_affects_no_other_job(
    scene: BrokenJobsScene, operator: KazooClient
) -> None:
    driver = scene.live.attempt().driver
    reasons: dict[str, tuple[str, int, str]] = {}
    blobless = scene.sleeper("blobless")
    scene.wait_for_driver(blobless)
    blob = json.loads(operator.get(f"{ROOT}/jobs/{blobless}/spec")[0])["blob"]
    (scene.jobs.storage / "blobs" / blob).unlink()
    scene.jobs.run_ok("restart", blobless)
    reasons[blobless] = ("FAILED", 2, "the job's code is missing from the storage")
    garbled = scene.sleeper("garbled", "--slots", "2")
    operator.set(f"{ROOT}/jobs/{garbled}/spec", os.urandom(200))
    reasons[garbled] = ("QUARANTINED", 0, "its spec cannot be read")
    reasons[_wordcount(scene)] = ("FAILED", 1, "PATH_ALREADY_EXISTS")
    for name, (text, strategy, attempts, reason) in BROKEN_AT_ONCE.items():
        reasons[scene.script(name, text, "--restart", strategy)] = ("FAILED", attempts, reason)

    scene.kill_leader()
    for job, (phase, attempts, reason) in reasons.items():
        view = poll_until(partial(_view_in_phase, scene, job, phase), 240, f"{scene.jobs[job]['name']} is {phase}")
        assert reason in view["reason"], view
        assert view["attempt"] == attempts, scene.jobs.events(job)
    scene.kill_leader()
    assert scene.live.attempt().driver == driver

    before = {job: scene.jobs[job] for job in reasons}
    scene.check_waiting()
    assert holdfast("down", "--dir", str(scene.up.directory)).returncode == 0
    assert holdfast("up", "--dir", str(scene.up.directory), "--nodes", "2", "--slots", "2", "--detach").returncode == 0
    scene.wait_for_both_nodes()
    scene.live.wait_until_healthy()
    poll_until(lambda: scene.jobs[scene.service]["phase"] == "RUNNING", 60, "the service runs again")
    assert {job: scene.jobs[job] for job in reasons} == before
    listed = scene.jobs.list_jobs()
    assert all(listed[job]["reason"] == view["reason"] for job, view in before.items())
    scene.jobs.run_ok("cancel", garbled, "--wait")


def _view_in_phase(scene: BrokenJobsScene, job: str, phase: str) -> dict[str, Any] | None:
    view = scene.jobs[job]
    return view if view["phase"] == phase else None


def _wordcount(scene: BrokenJobsScene) -> str:
    """Submit an example whose output directory already exists."""
    output = scene.jobs.directory / "counts"
    output.mkdir()
    (output / "part-0.json").write_text("{}\n")
    arguments = ("--input", str(scene.jobs.directory / "in"), "--output", str(output))
    return scene.jobs.submit(EXAMPLES / "wordcount.py", "wordcount", *arguments, options=("--restart", "never"))
