"""The attempts of a node, with real processes: who lives is told by a lock that the kernel keeps."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.model.codec import encode
from holdfast.model.identifiers import Attempt, JobId
from holdfast.model.job import FIRST_VERSIONS, Ending, Outcome
from holdfast.node.attempts import KEPT_PER_JOB, AttemptName, Attempts
from holdfast.node.drain import evacuate, holder
from tests.harness.waiting import eventually, soon

NAME = AttemptName(JobId("j1"), Attempt(1), "nonce-1")
DEAF = "import signal; signal.signal(15, signal.SIG_IGN); "
HOLD = "import fcntl, sys, time; f = open(sys.argv[1], 'a+'); fcntl.flock(f, 2); print('held', flush=True); time.sleep(60)"


def hold(lock: Path, program: str = HOLD) -> "subprocess.Popen[bytes]":
    lock.parent.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen([sys.executable, "-c", program, str(lock)], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"held\n"
    lock.write_text(str(process.pid))
    process.stdout.close()
    return process


def test_a_runner_that_was_started_and_died_is_found_dead_and_the_bell_rings(tmp_path: Path) -> None:
    async def test() -> None:
        rung: list[bool] = []
        attempts = Attempts(tmp_path, tmp_path / "no-such-config.toml", lambda: rung.append(True))
        await attempts.spawn(NAME, FIRST_VERSIONS)  # it cannot run without its configuration, and ends
        await soon(lambda: rung, 30, "the agent is told")
        assert not attempts.running(NAME)
        assert attempts.present() == [NAME]
        attempts.bury(NAME)
        assert attempts.present() == []
        attempts.close()

    asyncio.run(test())


def test_an_agent_that_is_started_again_finds_the_living_and_the_dead(tmp_path: Path) -> None:
    async def test() -> None:
        for attempt in (1, 2):
            directory = tmp_path / "attempts" / "j1" / str(attempt)
            directory.mkdir(parents=True)
            run = {"job": "j1", "attempt": attempt, "nonce": f"nonce-{attempt}", "config": "x"}
            (directory / "run.json").write_text(json.dumps(run))
        process = hold(tmp_path / "attempts" / "j1" / "2" / "runner.lock")
        try:
            rung: list[bool] = []
            attempts = Attempts(tmp_path, tmp_path / "x", lambda: rung.append(True))
            first, second = attempts.present()
            assert (first.nonce, second.nonce) == ("nonce-1", "nonce-2")
            assert not attempts.running(first)
            assert attempts.running(second)
            process.kill()
            await soon(lambda: rung, 30, "the agent is told of a death that is not its child's")
            assert not attempts.running(second)
            attempts.close()
        finally:
            process.kill()
            process.wait()

    asyncio.run(test())


def test_noise_in_the_directory_is_passed_over(tmp_path: Path) -> None:
    for place, content in (("j1/1", b"noise"), ("j1/x", b"{}"), ("j2/1", b'{"job": "../x", "attempt": 1, "nonce": "n"}')):
        directory = tmp_path / "attempts" / place
        directory.mkdir(parents=True)
        (directory / "run.json").write_bytes(content)
    assert Attempts(tmp_path, tmp_path / "x", lambda: None).present() == []


def test_an_outcome_that_a_runner_left_is_found_and_noise_is_not_taken_for_one(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, tmp_path / "x", lambda: None)
    file = tmp_path / "attempts" / "j1" / "1" / "outcome.json"
    file.parent.mkdir(parents=True)
    assert attempts.left_behind(NAME) is None
    file.write_bytes(encode(Outcome(Ending.FINISHED, "done")))
    assert attempts.left_behind(NAME) == Outcome(Ending.FINISHED, "done")
    file.write_bytes(b"noise")
    assert attempts.left_behind(NAME) is None


def test_a_job_whose_id_would_leave_the_directory_is_not_started(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, tmp_path / "x", lambda: None)
    with pytest.raises(Refused):
        asyncio.run(attempts.spawn(AttemptName(JobId("../x"), Attempt(1), "n"), FIRST_VERSIONS))


def test_what_is_left_of_a_dead_runner_is_killed_by_its_nonce(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, tmp_path / "x", lambda: None)
    orphan = subprocess.Popen(["sleep", "60"], env={**os.environ, "HOLDFAST_NONCE": NAME.nonce})
    other = subprocess.Popen(["sleep", "60"], env={**os.environ, "HOLDFAST_NONCE": "another"})
    try:
        assert asyncio.run(attempts.end_tree(NAME))
        assert orphan.wait(60) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_of_buried_attempts_only_the_last_ones_are_kept(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, tmp_path / "x", lambda: None)
    for attempt in range(1, 12):
        directory = tmp_path / "attempts" / "j1" / str(attempt)
        directory.mkdir(parents=True)
        if attempt != 2:
            (directory / "buried").touch()
    attempts._prune(JobId("j1"))
    left = sorted(int(path.name) for path in (tmp_path / "attempts" / "j1").iterdir())
    assert left == [2, *range(12 - KEPT_PER_JOB, 12)]
    assert attempts.newest(JobId("j1")) == 11


def test_what_a_driver_needed_only_while_it_lived_goes_with_it_and_its_log_stays(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, tmp_path / "x", lambda: None)
    directory = tmp_path / "attempts" / "j1" / "1"
    (directory / "tmp" / "blockmgr-1").mkdir(parents=True)
    (directory / "tmp" / "blockmgr-1" / "shuffle").write_bytes(b"x" * 1000)
    (directory / "driver.log").write_text("said")
    attempts.bury(NAME)
    eventually(lambda: not (directory / "tmp").exists(), 60, "it is removed")
    assert (directory / "driver.log").read_text() == "said"


def test_an_agent_that_died_while_it_cleared_up_does_so_when_it_is_back(tmp_path: Path) -> None:
    for attempt, buried in ((1, True), (2, False)):
        directory = tmp_path / "attempts" / "j1" / str(attempt)
        (directory / "tmp").mkdir(parents=True)
        if buried:
            (directory / "buried").touch()
    Attempts(tmp_path, tmp_path / "x", lambda: None)
    eventually(lambda: not (tmp_path / "attempts" / "j1" / "1" / "tmp").exists(), 60, "it is removed")
    assert (tmp_path / "attempts" / "j1" / "2" / "tmp").exists(), "nobody knows yet whether that one is dead"


def test_an_evacuation_asks_and_then_ends_every_runner(tmp_path: Path) -> None:
    lock = tmp_path / "attempts" / "j1" / "1" / "runner.lock"
    process = hold(lock)
    try:
        assert holder(lock) == process.pid
        assert evacuate(tmp_path, within_s=60) == 1
        assert process.wait(60) == -signal.SIGTERM
        assert holder(lock) is None
        assert evacuate(tmp_path, within_s=60) == 0
    finally:
        process.kill()
        process.wait()


def test_a_runner_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    lock = tmp_path / "attempts" / "j1" / "1" / "runner.lock"
    process = hold(lock, DEAF + HOLD)
    try:
        assert evacuate(tmp_path, within_s=0.2) == 1
        assert eventually(process.poll, 60, "it is dead") == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()
