"""What people hand over arrives as it was, and what cannot be done now is said at once."""

import contextlib
import json
import os
import signal
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.command import Up, holdfast, paused, refusal, started
from tests.harness.cluster.jobs import SCRIPTS, Jobs, until
from tests.harness.cluster.process_witness import sweep
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]

ANSWER_S = 5.0
"""Beside what Python needs to start."""
TRIES = 5


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("in put")
    try:
        with started(directory / "c", "--slots", "8") as up:
            yield up
    finally:
        sweep(directory)


@pytest.fixture
def jobs(up: Up, tmp_path: Path) -> Iterator[Jobs]:
    with Jobs(tmp_path, up.directory / "storage", "--dir", str(up.directory)) as jobs:
        until(lambda: jobs.leader()[0], 60, "somebody leads")
        yield jobs


def test_arguments_settings_and_code_arrive_as_they_were_given(jobs: Jobs, tmp_path: Path) -> None:
    beside = tmp_path / "beside_it.py"
    beside.write_text("WHERE = 'beside it'\n")
    archive, wheel = tmp_path / "some code.zip", tmp_path / "in_a_wheel-1.0-py3-none-any.whl"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("in_a_zip/__init__.py", "WHERE = 'in a zip'\n")
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("in_a_wheel.py", "WHERE = 'in a wheel'\n")
        file.writestr("in_a_wheel-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: in-a-wheel\nVersion: 1.0\n")
    arrived = tmp_path / "arrived.json"
    odd = ["two words", "größer 😀", "--flag", "-x=--", "", "'\"$HOME`", "new\nline", "*"]
    setting = "a value, with 'quotes' and = and größer"
    id = jobs.submit(
        SCRIPTS / "arrival.py",
        "arrival",
        str(arrived),
        *odd,
        options=(
            *(part for file in (beside, archive, wheel) for part in ("--py-files", str(file))),
            *("--conf", f"spark.holdfast.test.setting={setting}", "--restart", "never"),
        ),
    )
    jobs.in_phase(id, "FINISHED", within_s=240)
    assert json.loads(arrived.read_text()) == {
        "arguments": odd,
        "conf": setting,
        "driver": ["beside it", "in a zip", "in a wheel"],
        "worker": ["beside it", "in a zip", "in a wheel"],
    }


@contextlib.contextmanager
def without_nodes(up: Up) -> Iterator[None]:
    """`up` would start them again, so it is paused too."""
    with paused(up.description()["supervisor"]["pid"]):
        node = up.description()["nodes"][0]
        os.kill(node["pid"], signal.SIGTERM)
        eventually(lambda: not _lives(node["agent_pid"]), 30, "the agent has stopped")
        yield


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").exists() and bool(Path(f"/proc/{pid}/cmdline").read_bytes())


def test_a_job_submitted_while_nobody_leads_is_accepted_and_waits(up: Up, jobs: Jobs, tmp_path: Path) -> None:
    script = tmp_path / "proof.py"
    script.write_text("import sys\nopen(sys.argv[1], 'w').close()\n")
    proof = tmp_path / "proof"
    with without_nodes(up):
        answer = jobs.run("submit", str(script), "--name", "proof", "--", str(proof))
        assert answer.returncode == 0
        assert "no node leads" in answer.stderr
        id = answer.stdout.split()[0]
        view = jobs.listed()[id]
        assert (view["phase"], view["attempt"]) == ("PENDING", 0)
        assert not proof.exists()
    jobs.in_phase(id, "FINISHED", within_s=120)
    assert proof.exists()


@pytest.mark.parametrize("how", ["killed", "paused"])
@pytest.mark.parametrize("command", ["submit", "ls", "cancel"])
def test_a_zookeeper_that_is_down_is_said_in_a_sentence_and_in_time(
    up: Up, jobs: Jobs, tmp_path: Path, how: str, command: str
) -> None:
    script = tmp_path / "never.py"
    script.write_text("")
    arguments = {"submit": ("submit", str(script), "--name", "never"), "ls": ("ls",), "cancel": ("cancel", "never")}[command]
    with without_zookeeper(up, jobs, how):
        took_s: list[float] = []
        while not took_s or took_s[-1] > ANSWER_S:  # a busy machine spoils some of the tries
            assert len(took_s) < TRIES, took_s
            took_s.append(_refused_after_s(jobs, arguments))


def _refused_after_s(jobs: Jobs, arguments: tuple[str, ...]) -> float:
    """Where the machine is busy everything takes longer, so what Python needs to start is measured beside it."""
    began = time.monotonic()
    holdfast("submit", "--help")
    started = time.monotonic()
    assert "does not answer" in refusal(jobs.run(*arguments))
    return time.monotonic() - started - (started - began)


@contextlib.contextmanager
def without_zookeeper(up: Up, jobs: Jobs, how: str) -> Iterator[None]:
    server = up.description()["zookeepers"][0]
    if how == "paused":
        with paused(server["pid"]):
            yield
    else:
        with paused(up.description()["supervisor"]["pid"]):
            os.kill(server["pid"], signal.SIGKILL)
            yield
    until(jobs.leader, 60, "it serves again")
