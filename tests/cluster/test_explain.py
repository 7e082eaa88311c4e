"""`holdfast explain --from-cluster` on a real cluster with a job that keeps failing and a healthy one."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.command import HOLDFAST, RunningCluster, error_message, start_cluster
from tests.harness.cluster.command import holdfast as run
from tests.harness.cluster.jobs import ClusterJobs, poll_until
from tests.harness.cluster.process_observer import kill_leftovers
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(300)]

FAILING = """print("about to fail", flush=True)
raise ValueError('the column "amount" is not there')
"""
HEALTHY = """import time
while True:
    time.sleep(0.1)
"""


class ExplainScene:
    def __init__(self, up: RunningCluster, jobs: ClusterJobs, directory: Path) -> None:
        self.up = up
        self.jobs = jobs
        self.copies = directory / "temporary"
        self.copies.mkdir()
        for name, text in (("clicks", FAILING), ("healthy_job", HEALTHY)):
            (directory / f"{name}.py").write_text(text)
        self.healthy_job = jobs.submit(directory / "healthy_job.py", "healthy_job", spark=False)

    def command(self, *arguments: str) -> list[str]:
        """Return the command line, with a private directory for temporary copies."""
        return ["env", f"TMPDIR={self.copies}", *HOLDFAST, "explain", *arguments]

    def answer(self, *arguments: str) -> dict[str, Any]:
        done = subprocess.run(self.command(*arguments, "--json", "-"), capture_output=True, text=True, timeout=150, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        self.check_no_copies_left()
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def check_no_copies_left(self) -> None:
        assert [entry.name for entry in self.copies.iterdir() if entry.name.startswith("holdfast")] == []


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExplainScene]:
    directory = tmp_path_factory.mktemp("explained")
    try:
        with (
            start_cluster(directory / "c", "--nodes", "2", "--zookeepers", "1") as up,
            ClusterJobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield ExplainScene(up, jobs, directory)
    finally:
        kill_leftovers(directory)


def signatures(answer: dict[str, Any]) -> set[str]:
    """Return the diagnosed signatures, except those that a busy machine may cause."""
    return {one["signature"] for one in answer["diagnoses"]} - {"zk-disk-stall", "gc-pause"}


def kill_leader(scene: ExplainScene) -> tuple[str, str]:
    """Kill the leader. Return the old and the new leader."""
    before, epoch = scene.up.leader()
    os.kill(scene.up.node(str(before))["agent_pid"], signal.SIGKILL)
    after = poll_until(lambda: (led := scene.up.leader())[1] > epoch and led[0], 60, "another node leads")
    wait_until(lambda: scene.up.node(str(before))["agent_pid"], 30, "a new agent runs")
    return str(before), after


def test_explain_finds_a_restart_loop_and_a_leader_change(
    scene: ExplainScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.jobs.wait_for_phase(scene.healthy_job, "RUNNING")
    healthy_report = scene.answer("--from-cluster", "--dir", str(scene.up.directory))
    assert signatures(healthy_report) == set(), healthy_report["summary"]
    assert {"node n1", "node n2", "job healthy_job"} <= {one["name"] for one in healthy_report["components"]}

    clicks = scene.jobs.submit(scene.copies.parent / "clicks.py", "clicks", spark=False, options=("--restart", "exponential"))
    poll_until(lambda: scene.jobs[clicks]["attempt"] >= 4, 60, "the job has failed three times")
    before, after = kill_leader(scene)
    local_report = scene.answer("--from-cluster", "--dir", str(scene.up.directory))
    assert signatures(local_report) == {"restart-loop", "leadership-moved"}
    diagnoses = {one["signature"]: one for one in local_report["diagnoses"]}
    assert diagnoses["leadership-moved"]["title"].startswith(f"node {before} lost leadership, and node {after} became leader")
    loop = diagnoses["restart-loop"]
    assert loop["title"] == f"job clicks ({clicks}) restarts repeatedly"
    assert 'ValueError: the column "amount" is not there (line 2 of clicks.py)' in loop["explanation"]
    assert loop["evidence"][0]["file"] == "events of the cluster"
    assert local_report["notes"] == []

    other = tmp_path / "zk.log"
    other.write_text("2026-03-04 13:00:00,000 [myid:1] - INFO  [main:QuorumPeer@1] - LOOKING\n")
    connect = scene.up.description()["connect"]
    monkeypatch.setenv("HOLDFAST_AUTH_FILE", str(scene.up.directory / "zookeeper.auth"))
    remote_report = scene.answer("--from-cluster", "--connect", connect, str(other))
    assert signatures(remote_report) == {"restart-loop"}, "from the logs that nodes serve and one more file"
    printed = sum(len(log.read_bytes()) for log in scene.up.directory.glob("nodes/*/attempts/*/*/driver.log"))
    assert remote_report["counts"]["bytes"] > printed + other.stat().st_size
    scene.jobs.run_ok("cancel", clicks)


def test_ctrl_c_removes_the_copies(scene: ExplainScene) -> None:
    command = scene.command("--from-cluster", "--dir", str(scene.up.directory))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: list(scene.copies.glob("holdfast-explain-*/*.log")), 60, "logs are being copied")
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    scene.check_no_copies_left()


def test_unreachable_cluster_is_reported() -> None:
    message = error_message(run("explain", "--from-cluster", "--connect", "127.0.0.1:1"))
    assert "ZooKeeper at 127.0.0.1:1 does not answer" in message
    assert run("explain").returncode == 2
    assert "does not answer" in error_message(run("explain", "--cluster", "prod", "--connect", "127.0.0.1:1"))
