"""Attempts of a node, with real processes and real file locks."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.model.codec import SCHEMA, encode
from holdfast.model.identifiers import Attempt, JobId
from holdfast.model.job import INITIAL_VERSIONS, Ending, Outcome
from holdfast.node.attempts import CLOSED_ATTEMPTS_KEPT, AttemptId, NodeAttempts
from holdfast.node.drain import drain_runners, kill_lock_holder, lock_holder_pid
from holdfast.runner import process_file
from holdfast.runner.attempt_layout import CLOSED_MARKER, PROCESSES_FILE
from holdfast.runner.watchdog.isolation import CGROUP, NAMESPACE, SCAN
from holdfast.runner.watchdog.pid_namespace import NamespaceIdentity
from holdfast.runner.watchdog.proc_filesystem import read_process
from tests.harness.driver_with_daemons import driver_with_daemons
from tests.harness.waiting import wait_until, wait_until_async

ATTEMPT = AttemptId(JobId("j1"), Attempt(1), "nonce-1")
IGNORE_SIGTERM = "import signal; signal.signal(15, signal.SIG_IGN); "
HOLD_LOCK = "import fcntl, sys, time; f = open(sys.argv[1], 'a+'); fcntl.flock(f, 2); print('held', flush=True); time.sleep(60)"


def start_lock_holder(lock: Path, program: str = HOLD_LOCK) -> "subprocess.Popen[bytes]":
    lock.parent.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen([sys.executable, "-c", program, str(lock)], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"held\n"
    lock.write_text(str(process.pid))
    process.stdout.close()
    return process


@pytest.mark.slow
def test_exit_of_a_started_runner_is_reported(tmp_path: Path) -> None:
    async def test() -> None:
        exits: list[bool] = []
        attempts = NodeAttempts(tmp_path, tmp_path / "no-such-config.toml", lambda: exits.append(True))
        await attempts.spawn(ATTEMPT, INITIAL_VERSIONS)  # the runner exits because its configuration is missing
        await wait_until_async(lambda: exits, 30, "the exit is reported")
        assert not attempts.is_running(ATTEMPT)
        assert attempts.list_open() == [ATTEMPT]
        attempts.mark_closed(ATTEMPT)
        assert attempts.list_open() == []
        attempts.close()

    asyncio.run(test())


def test_restarted_agent_finds_running_and_dead_runners(tmp_path: Path) -> None:
    async def test() -> None:
        for attempt in (1, 2):
            directory = tmp_path / "attempts" / "j1" / str(attempt)
            directory.mkdir(parents=True)
            run = {"job": "j1", "attempt": attempt, "nonce": f"nonce-{attempt}", "config": "x"}
            (directory / "run.json").write_text(json.dumps(run))
        process = start_lock_holder(tmp_path / "attempts" / "j1" / "2" / "runner.lock")
        try:
            exits: list[bool] = []
            attempts = NodeAttempts(tmp_path, tmp_path / "x", lambda: exits.append(True))
            first, second = attempts.list_open()
            assert (first.nonce, second.nonce) == ("nonce-1", "nonce-2")
            assert not attempts.is_running(first)
            assert attempts.is_running(second)
            process.kill()
            await wait_until_async(lambda: exits, 30, "the exit of a runner that is not a child is reported")
            assert not attempts.is_running(second)
            attempts.close()
        finally:
            process.kill()
            process.wait()

    asyncio.run(test())


def test_stopped_runner_is_killed(tmp_path: Path) -> None:
    lock = tmp_path / "attempts" / "j1" / "1" / "runner.lock"
    process = start_lock_holder(lock)
    try:
        process.send_signal(signal.SIGSTOP)
        attempts = NodeAttempts(tmp_path, tmp_path / "x", lambda: None)
        assert asyncio.run(attempts.kill_runner(ATTEMPT))
        assert process.wait(10) == -signal.SIGKILL
        assert asyncio.run(attempts.kill_runner(ATTEMPT)), "a dead runner needs no kill"
    finally:
        process.kill()
        process.wait()


def test_process_that_does_not_hold_the_lock_is_not_killed(tmp_path: Path) -> None:
    """The pid in the lock may belong to another process after the runner has died."""
    lock = tmp_path / "attempts" / "j1" / "1" / "runner.lock"
    lock.parent.mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        lock.write_text(str(other.pid))
        assert kill_lock_holder(lock, 1.0)
        assert other.poll() is None
        other.kill()


def test_lock_without_a_pid_is_not_taken_for_a_dead_runner(tmp_path: Path) -> None:
    """The node writes the pid just after it has started the runner."""
    lock = tmp_path / "runner.lock"
    process = start_lock_holder(lock)
    try:
        lock.write_text("")
        assert not kill_lock_holder(lock, 0.1)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("fields", "alive", "announced"), [({}, True, 1), ({"schema": 0}, True, 0), ({"schema": 0}, False, SCHEMA)]
)
def test_node_announces_the_newest_schema_that_its_live_runners_read(
    tmp_path: Path, fields: dict[str, int], alive: bool, announced: int
) -> None:
    """Schema 0 stands for the schema of an earlier version, whose runner survived the upgrade of the agent."""

    async def test() -> None:
        directory = tmp_path / "attempts" / "j1" / "1"
        directory.mkdir(parents=True)
        run = {"job": "j1", "attempt": 1, "nonce": "nonce-1", "config": "x", **fields}
        (directory / "run.json").write_text(json.dumps(run))
        process = start_lock_holder(directory / "runner.lock")
        try:
            if not alive:
                process.kill()
                process.wait()
            attempts = NodeAttempts(tmp_path, tmp_path / "x", lambda: None)
            assert attempts.newest_schema() == announced
            attempts.close()
        finally:
            process.kill()
            process.wait()

    asyncio.run(test())


def test_malformed_attempt_directories_are_ignored(tmp_path: Path) -> None:
    for path, content in (("j1/1", b"noise"), ("j1/x", b"{}"), ("j2/1", b'{"job": "../x", "attempt": 1, "nonce": "n"}')):
        directory = tmp_path / "attempts" / path
        directory.mkdir(parents=True)
        (directory / "run.json").write_bytes(content)
    assert NodeAttempts(tmp_path, tmp_path / "x", lambda: None).list_open() == []


def test_read_outcome_ignores_malformed_files(tmp_path: Path) -> None:
    attempts = NodeAttempts(tmp_path, tmp_path / "x", lambda: None)
    file = tmp_path / "attempts" / "j1" / "1" / "outcome.json"
    file.parent.mkdir(parents=True)
    assert attempts.read_outcome(ATTEMPT) is None
    file.write_bytes(encode(Outcome(Ending.FINISHED, "done")))
    assert attempts.read_outcome(ATTEMPT) == Outcome(Ending.FINISHED, "done")
    file.write_bytes(b"noise")
    assert attempts.read_outcome(ATTEMPT) is None


def test_job_id_with_path_separators_is_refused(tmp_path: Path) -> None:
    attempts = NodeAttempts(tmp_path, tmp_path / "x", lambda: None)
    with pytest.raises(Refused):
        asyncio.run(attempts.spawn(AttemptId(JobId("../x"), Attempt(1), "n"), INITIAL_VERSIONS))


def test_kill_tree_kills_only_processes_with_the_nonce_of_the_attempt(tmp_path: Path) -> None:
    attempts = NodeAttempts(tmp_path, tmp_path / "x", lambda: None)
    orphan = subprocess.Popen(["sleep", "60"], env={**os.environ, "HOLDFAST_NONCE": ATTEMPT.nonce})
    other = subprocess.Popen(["sleep", "60"], env={**os.environ, "HOLDFAST_NONCE": "another"})
    try:
        assert asyncio.run(attempts.kill_tree(ATTEMPT))
        assert orphan.wait(60) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.slow
@pytest.mark.parametrize("level", [NAMESPACE, CGROUP])
def test_kill_tree_kills_unmarked_daemons_of_a_paused_watchdog(tmp_path: Path, level: str) -> None:
    """The killer of a cgroup is dead. Where the system grants no cgroup, the agent finds only the daemon with the mark."""
    attempts = NodeAttempts(tmp_path, tmp_path / "x", lambda: None)
    with driver_with_daemons(tmp_path / "driver", level) as driver:
        watchdog = read_process(driver.watchdog.process.pid)
        namespace = NamespaceIdentity.read(driver.watchdog.init) if driver.watchdog.init is not None else None
        assert watchdog is not None
        attempt_id = AttemptId(JobId("j1"), Attempt(1), driver.watchdog.nonce)
        directory = tmp_path / "attempts" / "j1" / "1"
        directory.mkdir(parents=True)
        process_file.save(directory / PROCESSES_FILE, watchdog, namespace or driver.watchdog.cgroup)
        if driver.watchdog.level == CGROUP:
            driver.watchdog.killer().send_signal(signal.SIGKILL)
        driver.pause()
        assert asyncio.run(attempts.kill_tree(attempt_id))
        assert driver.is_working("unmarked") == (driver.watchdog.level == SCAN)
        assert not driver.is_working("driver") and not driver.is_working("marked")
        assert driver.watchdog.process.wait(30) == -signal.SIGKILL
        assert driver.watchdog.cgroup is None or not Path(driver.watchdog.cgroup.path).exists()


def test_processes_recorded_before_a_restart_of_the_machine_are_not_killed(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        recorded = read_process(process.pid)
        assert recorded is not None
        process_file.save(tmp_path / "processes.json", recorded, None)
        fields = json.loads((tmp_path / "processes.json").read_text())
        (tmp_path / "processes.json").write_text(json.dumps({**fields, "boot": "another"}))
        assert process_file.kill_processes(tmp_path / "processes.json", timeout_s=5)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("content", [b"", b"noise", b"[]", b'{"watchdog": 5}', b'{"boot": "x", "watchdog": ["a", 1]}'])
def test_malformed_process_file_is_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "processes.json").write_bytes(content)
    assert process_file.kill_processes(tmp_path / "processes.json", timeout_s=5)


def test_only_the_newest_closed_attempts_are_kept(tmp_path: Path) -> None:
    attempts = NodeAttempts(tmp_path, tmp_path / "x", lambda: None)
    for attempt in range(1, 12):
        directory = tmp_path / "attempts" / "j1" / str(attempt)
        directory.mkdir(parents=True)
        if attempt != 2:
            (directory / CLOSED_MARKER).touch()
    attempts._prune(JobId("j1"))
    kept = sorted(int(path.name) for path in (tmp_path / "attempts" / "j1").iterdir())
    assert kept == [2, *range(12 - CLOSED_ATTEMPTS_KEPT, 12)]
    assert attempts.newest_attempt(JobId("j1")) == 11


def test_closing_an_attempt_removes_scratch_files_and_keeps_the_log(tmp_path: Path) -> None:
    attempts = NodeAttempts(tmp_path, tmp_path / "x", lambda: None)
    directory = tmp_path / "attempts" / "j1" / "1"
    (directory / "tmp" / "blockmgr-1").mkdir(parents=True)
    (directory / "tmp" / "blockmgr-1" / "shuffle").write_bytes(b"x" * 1000)
    (directory / "driver.log").write_text("output")
    attempts.mark_closed(ATTEMPT)
    wait_until(lambda: not (directory / "tmp").exists(), 60, "the scratch directory is removed")
    assert (directory / "driver.log").read_text() == "output"


def test_restarted_agent_finishes_the_removal_of_scratch_files(tmp_path: Path) -> None:
    for attempt, closed in ((1, True), (2, False)):
        directory = tmp_path / "attempts" / "j1" / str(attempt)
        (directory / "tmp").mkdir(parents=True)
        if closed:
            (directory / CLOSED_MARKER).touch()
    NodeAttempts(tmp_path, tmp_path / "x", lambda: None)
    wait_until(lambda: not (tmp_path / "attempts" / "j1" / "1" / "tmp").exists(), 60, "the scratch directory is removed")
    assert (tmp_path / "attempts" / "j1" / "2" / "tmp").exists(), "the attempt is not closed yet"


def test_drain_stops_every_runner_with_sigterm(tmp_path: Path) -> None:
    lock = tmp_path / "attempts" / "j1" / "1" / "runner.lock"
    process = start_lock_holder(lock)
    try:
        assert lock_holder_pid(lock) == process.pid
        assert drain_runners(tmp_path, timeout_s=60) == 1
        assert process.wait(60) == -signal.SIGTERM
        assert lock_holder_pid(lock) is None
        assert drain_runners(tmp_path, timeout_s=60) == 0
    finally:
        process.kill()
        process.wait()


def test_drain_kills_a_runner_that_ignores_sigterm(tmp_path: Path) -> None:
    lock = tmp_path / "attempts" / "j1" / "1" / "runner.lock"
    process = start_lock_holder(lock, IGNORE_SIGTERM + HOLD_LOCK)
    try:
        assert drain_runners(tmp_path, timeout_s=0.2) == 1
        assert wait_until(process.poll, 60, "the runner is dead") == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()
