"""Jobs that cannot be read, started or recovered, and jobs that come back from the dead: none of them touches another one."""

import json
import os
import secrets
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.harness.cluster.command import Up, holdfast, refusal, started
from tests.harness.cluster.jobs import Jobs, until
from tests.harness.cluster.process_witness import Sightings, sweep
from tests.harness.cluster.streams import Feeder, Stream

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

MINUTE_S = 60.0
NO_ROOM = "waiting for room: it wants 2 slots, and no node has as many free"
ROOT = "/holdfast/default"
EXAMPLES = Path(__file__).parents[2] / "examples"
SLEEPER = "import time\ntime.sleep(3600)\n"


class Scene:
    """Two nodes of two slots each. Two healthy jobs hold one on each, so there is no room for the one that wants two."""

    def __init__(self, up: Up, jobs: Jobs, seen: Sightings, live: Stream) -> None:
        self.up = up
        self.jobs = jobs
        self.seen = seen
        self.live = live
        self.service = self.sleeper("service")
        until(lambda: {self.live.view["node"], self.jobs[self.service]["node"]} == {"n1", "n2"}, 60, "one job on each node")
        self._waiting: str | None = self.sleeper("waiting", "--slots", "2")
        self._waits_since = time.monotonic()

    def sleeper(self, name: str, *options: str) -> str:
        """A job that does nothing, of a script that no other job has."""
        return self.script(name, f"{SLEEPER}# {name} {secrets.token_hex(4)}\n", *options)

    def script(self, name: str, text: str, *options: str) -> str:
        file = self.jobs.directory / f"{name}.py"
        file.write_text(text)
        return self.jobs.submit(file, name, options=options, spark=False)

    def kill_leader(self) -> None:
        leader, epoch = until(lambda: self.jobs.leader() if self.jobs.leader()[0] else None, 60, "somebody leads")
        os.kill(self.up.node(leader)["agent_pid"], signal.SIGKILL)
        until(lambda: self.jobs.leader()[0] and self.jobs.leader()[1] > epoch, 60, "another leader")
        self.both_nodes()

    def both_nodes(self) -> None:
        until(lambda: len(self.jobs.nodes()) == 2 and self.jobs.leader()[0], 60, "both nodes are there, and one leads")

    def check_waiting(self) -> None:
        """It has waited for a minute, with one reason, and nothing was tried."""
        if self._waiting is None:
            return
        until(lambda: time.monotonic() > self._waits_since + MINUTE_S, MINUTE_S + 5, "a minute has passed")
        view = self.jobs[self._waiting]
        assert (view["phase"], view["reason"], view["attempt"], view["restarts"]) == ("PENDING", NO_ROOM, 0, 0)
        assert [event["reason"] for event in self.jobs.events(self._waiting)] == [NO_ROOM]
        assert not self.seen.lives(self._waiting)
        self.jobs.ok("cancel", self._waiting, "--wait")
        self._waiting = None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("broken")
    try:
        with (
            started(directory / "c", "--nodes", "2", "--slots", "2") as up,
            Sightings(directory) as seen,
            Feeder(directory / "in") as feeder,
            Jobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield Scene(up, jobs, seen, Stream(jobs, seen, feeder, "live"))
        assert not sweep(directory), "down leaves nothing running"
    finally:
        sweep(directory)


@pytest.fixture
def scene(cluster: Scene) -> Iterator[Scene]:
    cluster.both_nodes()
    cluster.live.well()
    yield cluster
    cluster.live.well()
    cluster.live.check_alone()
    cluster.live.check_contiguous()


@pytest.fixture
def operator(cluster: Scene) -> Iterator[KazooClient]:
    """Somebody with access to ZooKeeper and no respect for it."""
    client = KazooClient(cluster.up.description()["connect"], timeout=20)
    client.start(20)
    yield client
    client.stop()
    client.close()


class Backup:
    """Everything that a cluster keeps of a job, taken while it runs, and put back by hand when it is long over."""

    def __init__(self, scene: Scene, operator: KazooClient, job: str) -> None:
        self._operator = operator
        self._path = f"{ROOT}/jobs/{job}"
        parts = [part for part in operator.get_children(self._path) if part != "lease"]
        self._parts = {part: operator.get(f"{self._path}/{part}") for part in parts}
        node = scene.jobs[job]["node"]
        self._order = f"{ROOT}/orders/{node}/{job}", operator.get(f"{ROOT}/orders/{node}/{job}")[0]
        self._storage, self._copy = scene.jobs.storage, scene.jobs.directory / f"backup-{job}"
        shutil.copytree(self._storage, self._copy, ignore_dangling_symlinks=True, ignore=shutil.ignore_patterns(scene.live.id))

    def put_back(self) -> None:
        shutil.copytree(self._copy, self._storage, dirs_exist_ok=True)
        # At one blow, so that nobody sees a half of it.
        blow = self._operator.transaction()
        for part in self._operator.get_children(self._path):
            blow.delete(f"{self._path}/{part}")
        blow.delete(self._path)
        blow.create(self._path)
        for part, (data, stat) in self._parts.items():
            blow.create(f"{self._path}/{part}", data)
            for _ in range(stat.version):  # the numbers that no bytes can forge, forged all the same
                blow.set_data(f"{self._path}/{part}", data)
        if not self._operator.exists(self._order[0]):
            blow.create(*self._order)
        assert not [result for result in blow.commit() if isinstance(result, Exception)]


def test_a_job_that_ended_never_runs_again_whatever_is_put_back_and_the_living_keep_their_slots(
    scene: Scene, operator: KazooClient
) -> None:
    driver, service = scene.live.attempt().driver, scene.jobs[scene.service]
    old, older = scene.sleeper("old"), scene.sleeper("older")
    backups = []
    for job in (old, older):
        until(lambda job=job: scene.jobs[job]["driver_pid"], 60, "it runs")
        backups.append(Backup(scene, operator, job))
    for job in (old, older):
        scene.jobs.ok("cancel", job, "--wait")
    successor = scene.sleeper("old")
    seen = {job: len(scene.seen.lives(job)) for job in (old, older)}

    # One has a successor of the same name. Of the other, even what people had wanted of it is put back, and the end is not.
    backups[0].put_back()
    shutil.copytree(backups[1]._copy, scene.jobs.storage, dirs_exist_ok=True)
    operator.set(f"{ROOT}/jobs/{older}/desired", backups[1]._parts["desired"][0])
    scene.kill_leader()
    until(lambda: scene.jobs[old]["phase"] == "QUARANTINED", 60, "what was put back is set aside")
    reason = scene.jobs[old]["reason"]
    assert "its name belongs to another job" in reason or "put" in reason, reason
    assert scene.jobs[older]["phase"] == "CANCELLED"
    scene.kill_leader()
    until(lambda: scene.jobs[successor]["phase"] == "RUNNING", 60, "the job that has the name now runs")

    scene.check_waiting()
    assert {job: len(scene.seen.lives(job)) for job in (old, older)} == seen, "neither had a process again"
    assert scene.live.attempt().driver == driver
    assert scene.jobs[scene.service]["driver_pid"] == service["driver_pid"]
    for job in (successor, old):
        scene.jobs.ok("cancel", job, "--wait")


def test_a_name_belongs_to_one_live_job(scene: Scene) -> None:
    other = scene.jobs.directory / "other.py"
    other.write_text(SLEEPER)
    said = refusal(scene.jobs.run("submit", str(other), "--name", "live"))
    assert "'live'" in said
    assert scene.live.id in said


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
    # Longer than a node may take from an order to the lease: that time must not begin before there is an order.
    "killed": ("import os\nos.kill(os.getpid(), 9)\n", "fixed:1:31s", 2, "killed by SIGKILL"),
}
"""Scripts that fail by themselves: the restart strategy, how many attempts that makes, and the reason."""


def test_each_broken_job_ends_alone_with_its_own_reason_through_leaders_and_restarts(
    scene: Scene, operator: KazooClient
) -> None:
    driver = scene.live.attempt().driver
    reasons: dict[str, tuple[str, int, str]] = {}
    blobless = scene.sleeper("blobless")
    until(lambda: scene.jobs[blobless]["driver_pid"], 60, "it runs")
    blob = json.loads(operator.get(f"{ROOT}/jobs/{blobless}/spec")[0])["blob"]
    (scene.jobs.storage / "blobs" / blob).unlink()
    scene.jobs.ok("restart", blobless)
    reasons[blobless] = ("FAILED", 2, "its code is gone from the storage")
    garbled = scene.sleeper("garbled", "--slots", "2")
    operator.set(f"{ROOT}/jobs/{garbled}/spec", os.urandom(200))
    reasons[garbled] = ("QUARANTINED", 0, "its spec cannot be read")
    reasons[_wordcount(scene)] = ("FAILED", 1, "PATH_ALREADY_EXISTS")
    for name, (text, strategy, attempts, reason) in BROKEN_AT_ONCE.items():
        reasons[scene.script(name, text, "--restart", strategy)] = ("FAILED", attempts, reason)

    scene.kill_leader()
    for job, (phase, attempts, reason) in reasons.items():
        view = until(lambda job=job, phase=phase: _in(scene, job, phase), 240, f"{scene.jobs[job]['name']} is {phase}")
        assert reason in view["reason"], view
        assert view["attempt"] == attempts, scene.jobs.events(job)
    scene.kill_leader()
    assert scene.live.attempt().driver == driver

    before = {job: scene.jobs[job] for job in reasons}
    scene.check_waiting()
    assert holdfast("down", "--dir", str(scene.up.directory)).returncode == 0
    assert holdfast("up", "--dir", str(scene.up.directory), "--nodes", "2", "--slots", "2", "--detach").returncode == 0
    scene.both_nodes()
    scene.live.well()
    until(lambda: scene.jobs[scene.service]["phase"] == "RUNNING", 60, "the service is back")
    assert {job: scene.jobs[job] for job in reasons} == before
    told = scene.jobs.listed()
    assert all(told[job]["reason"] == view["reason"] for job, view in before.items())
    scene.jobs.ok("cancel", garbled, "--wait")


def _in(scene: Scene, job: str, phase: str) -> dict[str, Any] | None:
    view = scene.jobs[job]
    return view if view["phase"] == phase else None


def _wordcount(scene: Scene) -> str:
    """The output is there already."""
    output = scene.jobs.directory / "counts"
    output.mkdir()
    (output / "part-0.json").write_text("{}\n")
    arguments = ("--input", str(scene.jobs.directory / "in"), "--output", str(output))
    return scene.jobs.submit(EXAMPLES / "wordcount.py", "wordcount", *arguments, options=("--restart", "never"))
