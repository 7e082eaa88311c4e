"""`holdfast explain --cluster` on a real cluster, in which a job fails again and again beside one that is well."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.command import HOLDFAST, Up, refusal, started
from tests.harness.cluster.command import holdfast as run
from tests.harness.cluster.jobs import Jobs, until
from tests.harness.cluster.process_witness import sweep
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(300)]

FAILING = """print("about to fail", flush=True)
raise ValueError('the column "amount" is not there')
"""
WELL = """import time
while True:
    time.sleep(0.1)
"""


class Scene:
    def __init__(self, up: Up, jobs: Jobs, directory: Path) -> None:
        self.up = up
        self.jobs = jobs
        self.copies = directory / "temporary"
        self.copies.mkdir()
        for name, text in (("clicks", FAILING), ("well", WELL)):
            (directory / f"{name}.py").write_text(text)
        self.well = jobs.submit(directory / "well.py", "well", spark=False)

    def command(self, *arguments: str) -> list[str]:
        """With a place of its own for what it copies."""
        return ["env", f"TMPDIR={self.copies}", *HOLDFAST, "explain", *arguments]

    def answer(self, *arguments: str) -> dict[str, Any]:
        done = subprocess.run(self.command(*arguments, "--json", "-"), capture_output=True, text=True, timeout=150, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        self.check_tidy()
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def check_tidy(self) -> None:
        assert [entry.name for entry in self.copies.iterdir() if entry.name.startswith("holdfast")] == []


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("explained")
    try:
        with (
            started(directory / "c", "--nodes", "2", "--zookeepers", "1") as up,
            Jobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield Scene(up, jobs, directory)
    finally:
        sweep(directory)


def signatures(answer: dict[str, Any]) -> set[str]:
    """Without what a machine brings about that has a lot to do."""
    return {one["signature"] for one in answer["diagnoses"]} - {"zk-disk-stall", "gc-pause"}


def kill_the_leader(scene: Scene) -> tuple[str, str]:
    """Who led, and who leads."""
    before, epoch = scene.up.leader()
    os.kill(scene.up.node(str(before))["agent_pid"], signal.SIGKILL)
    after = until(lambda: (led := scene.up.leader())[1] > epoch and led[0], 60, "somebody leads")
    eventually(lambda: scene.up.node(str(before))["agent_pid"], 30, "another agent")
    return str(before), after


def test_a_healthy_cluster_is_said_to_be_well_and_what_happens_to_one_is_found(scene: Scene, tmp_path: Path) -> None:
    """A job that fails again and again, and a leader that is killed."""
    scene.jobs.in_phase(scene.well, "RUNNING")
    healthy = scene.answer("--cluster", "--dir", str(scene.up.directory))
    assert signatures(healthy) == set(), healthy["summary"]
    assert {"node n1", "node n2", "job well"} <= {one["name"] for one in healthy["components"]}

    clicks = scene.jobs.submit(scene.copies.parent / "clicks.py", "clicks", spark=False)
    until(lambda: scene.jobs[clicks]["attempt"] >= 4, 60, "it has failed three times")
    before, after = kill_the_leader(scene)
    here = scene.answer("--cluster", "--dir", str(scene.up.directory))
    assert signatures(here) == {"restart-loop", "leadership-moved"}
    found = {one["signature"]: one for one in here["diagnoses"]}
    assert found["leadership-moved"]["title"].startswith(f"node {before} led no longer, and node {after} became leader")
    loop = found["restart-loop"]
    assert loop["title"] == f"job clicks ({clicks}) restarts again and again"
    assert 'ValueError: the column "amount" is not there (line 2 of clicks.py)' in loop["explanation"]
    assert loop["evidence"][0]["file"] == "events of the cluster"
    assert here["notes"] == []

    other = tmp_path / "zk.log"
    other.write_text("2026-03-04 13:00:00,000 [myid:1] - INFO  [main:QuorumPeer@1] - LOOKING\n")
    connect = scene.up.description()["connect"]
    there = scene.answer("--cluster", "--connect", connect, str(other))
    assert signatures(there) == {"restart-loop"}, "with what nodes serve, and a file beside it"
    printed = sum(len(log.read_bytes()) for log in scene.up.directory.glob("nodes/*/attempts/*/*/driver.log"))
    assert there["counts"]["bytes"] > printed + other.stat().st_size
    scene.jobs.ok("cancel", clicks)


def test_ctrl_c_leaves_nothing_behind(scene: Scene) -> None:
    command = scene.command("--cluster", "--dir", str(scene.up.directory))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        eventually(lambda: list(scene.copies.glob("holdfast-explain-*/*.log")), 60, "copies")
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    scene.check_tidy()


def test_a_cluster_that_is_not_there_is_one_sentence() -> None:
    said = refusal(run("explain", "--cluster", "--connect", "127.0.0.1:1"))
    assert "ZooKeeper at 127.0.0.1:1 does not answer" in said
    assert run("explain").returncode == 2
    mistaken = run("explain", "--cluster", "prod", "--connect", "127.0.0.1:1")
    assert mistaken.returncode == 2
    assert "--cluster-name" in mistaken.stderr
