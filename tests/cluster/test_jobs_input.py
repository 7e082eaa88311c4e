"""Submitted arguments, settings and code reach the driver unchanged; commands fail fast while ZooKeeper is down."""

import contextlib
import json
import os
import signal
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.command import RunningCluster, error_message, holdfast, pause_process, start_cluster
from tests.harness.cluster.jobs import SCRIPTS, ClusterJobs, poll_until
from tests.harness.cluster.process_observer import kill_leftovers
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]

ANSWER_TIMEOUT_S = 5.0
"""Limit without the start time of Python."""
TRIES = 5


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    directory = tmp_path_factory.mktemp("in put")
    try:
        with start_cluster(directory / "c", "--slots", "8") as up:
            yield up
    finally:
        kill_leftovers(directory)


@pytest.fixture
def jobs(up: RunningCluster, tmp_path: Path) -> Iterator[ClusterJobs]:
    with ClusterJobs(tmp_path, up.directory / "storage", "--dir", str(up.directory)) as jobs:
        poll_until(lambda: jobs.leader()[0], 60, "a node leads")
        yield jobs


def test_arguments_settings_and_code_reach_driver_and_workers_unchanged(jobs: ClusterJobs, tmp_path: Path) -> None:
    beside = tmp_path / "beside_it.py"
    beside.write_text("WHERE = 'beside it'\n")
    archive, wheel = tmp_path / "some code.zip", tmp_path / "in_a_wheel-1.0-py3-none-any.whl"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("in_a_zip/__init__.py", "WHERE = 'in a zip'\n")
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("in_a_wheel.py", "WHERE = 'in a wheel'\n")
        file.writestr("in_a_wheel-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: in-a-wheel\nVersion: 1.0\n")
    arrived = tmp_path / "arrived.json"
    arguments = ["two words", "größer 😀", "--flag", "-x=--", "", "'\"$HOME`", "new\nline", "*"]
    setting = "a value, with 'quotes' and = and größer"
    id = jobs.submit(
        SCRIPTS / "arrival.py",
        "arrival",
        str(arrived),
        *arguments,
        options=(
            *(part for file in (beside, archive, wheel) for part in ("--py-files", str(file))),
            *("--conf", f"spark.holdfast.test.setting={setting}", "--restart", "never"),
        ),
    )
    jobs.wait_for_phase(id, "FINISHED", timeout_s=240)
    assert json.loads(arrived.read_text()) == {
        "arguments": arguments,
        "conf": setting,
        "driver": ["beside it", "in a zip", "in a wheel"],
        "worker": ["beside it", "in a zip", "in a wheel"],
    }


@contextlib.contextmanager
def without_nodes(up: RunningCluster) -> Iterator[None]:
    """Stop the node until the end of the block. Pause `up`, which would restart it."""
    with pause_process(up.description()["supervisor"]["pid"]):
        node = up.description()["nodes"][0]
        os.kill(node["pid"], signal.SIGTERM)
        wait_until(lambda: not _is_alive(node["agent_pid"]), 30, "the agent has stopped")
        yield


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").exists() and bool(Path(f"/proc/{pid}/cmdline").read_bytes())


def test_job_submitted_without_a_leader_waits(up: RunningCluster, jobs: ClusterJobs, tmp_path: Path) -> None:
    script = tmp_path / "proof.py"
    script.write_text("import sys\nopen(sys.argv[1], 'w').close()\n")
    proof = tmp_path / "proof"
    with without_nodes(up):
        answer = jobs.run("submit", str(script), "--name", "proof", "--", str(proof))
        assert answer.returncode == 0
        assert "no node leads" in answer.stderr
        id = answer.stdout.split()[0]
        view = jobs.list_jobs()[id]
        assert (view["phase"], view["attempt"]) == ("PENDING", 0)
        assert not proof.exists()
    jobs.wait_for_phase(id, "FINISHED", timeout_s=120)
    assert proof.exists()


@pytest.mark.parametrize("how", ["killed", "paused"])
@pytest.mark.parametrize("command", ["submit", "ls", "cancel"])
def test_commands_report_an_unavailable_zookeeper_in_time(
    up: RunningCluster, jobs: ClusterJobs, tmp_path: Path, how: str, command: str
) -> None:
    script = tmp_path / "never.py"
    script.write_text("")
    arguments = {"submit": ("submit", str(script), "--name", "never"), "ls": ("ls",), "cancel": ("cancel", "never")}[command]
    with without_zookeeper(up, jobs, how):
        took_s: list[float] = []
        while not took_s or took_s[-1] > ANSWER_TIMEOUT_S:  # on a busy machine some tries are slow
            assert len(took_s) < TRIES, took_s
            took_s.append(_time_to_error_s(jobs, arguments))


def _time_to_error_s(jobs: ClusterJobs, arguments: tuple[str, ...]) -> float:
    """Return the time to the error message, without the start time of Python, which is measured separately."""
    started_at = time.monotonic()
    holdfast("submit", "--help")
    started = time.monotonic()
    assert "does not answer" in error_message(jobs.run(*arguments))
    return time.monotonic() - started - (started - started_at)


@contextlib.contextmanager
def without_zookeeper(up: RunningCluster, jobs: ClusterJobs, how: str) -> Iterator[None]:
    server = up.description()["zookeepers"][0]
    if how == "paused":
        with pause_process(server["pid"]):
            yield
    else:
        with pause_process(up.description()["supervisor"]["pid"]):
            os.kill(server["pid"], signal.SIGKILL)
            yield
    poll_until(jobs.leader, 60, "ZooKeeper serves again")
