"""Outcome of an attempt whose driver is killed. The driver is a real process; the test sets its deadline."""

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast import log
from holdfast.clock import SystemClock
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Ending, Outcome, Spec
from holdfast.runner import process_file
from holdfast.runner.attempt_layout import PROCESSES_FILE
from holdfast.runner.execution.driver import LocalDriverExecution
from holdfast.runner.execution.watchdog_client import WatchdogClient
from holdfast.runner.lease import AttemptAssignment
from holdfast.runner.watchdog.isolation import NAMESPACE
from holdfast.storage import open_storage
from holdfast.zk.session.connection_settings import ConnectionSettings
from tests.harness.waiting import wait_until_async

CLOCK = SystemClock()
NO_ZOOKEEPER = ConnectionSettings((("127.0.0.1", 1),))
TIMEOUT_S = 60.0
LONG_S = 600.0
SLEEPER = "import time\ntime.sleep(600)\n"
CRASHER = "import os\nos.kill(os.getpid(), {number})\n"


class RunningAttempt:
    """Attempt whose driver has been started."""

    def __init__(self, execution: LocalDriverExecution, outcome_task: "asyncio.Task[Outcome]") -> None:
        self.execution = execution
        self.outcome_task = outcome_task

    @property
    def watchdog(self) -> WatchdogClient:
        assert self.execution._watchdog is not None
        return self.execution._watchdog

    async def outcome(self) -> Outcome:
        return await asyncio.wait_for(self.outcome_task, TIMEOUT_S)


@asynccontextmanager
async def running_attempt(directory: Path, script: str = SLEEPER) -> AsyncIterator[RunningAttempt]:
    (directory / "storage").mkdir()
    (directory / "attempt").mkdir()
    (directory / "script").write_text(script)
    storage = open_storage(str(directory / "storage"))
    spec = Spec("sleeper", "sleeper.py", storage.put(directory / "script"))
    assignment = AttemptAssignment(JobId("j1"), Attempt(1), NodeId("n1"), secrets.token_hex(8))
    logger = log.configure_logging(component="runner")
    execution = LocalDriverExecution(
        assignment,
        directory / "attempt",
        cluster="c",
        storage=storage,
        ensemble=NO_ZOOKEEPER,
        clock=CLOCK,
        log=logger,
        read_phase=lambda _job: None,
    )
    execution.set_deadline(CLOCK.boottime() + LONG_S)
    outcome_task = asyncio.create_task(execution.run_driver(spec, None))
    try:
        await wait_until_async(lambda: execution.driver_pid or outcome_task.done(), TIMEOUT_S, "the driver runs")
        yield RunningAttempt(execution, outcome_task)
    finally:
        outcome_task.cancel()
        await asyncio.wait({outcome_task})


def test_driver_killed_at_deadline_is_lost_even_if_the_lease_is_confirmed_afterwards(tmp_path: Path) -> None:
    """The outcome depends on the deadline at the time of death. With the later deadline the kill would seem unexplained."""

    async def test() -> None:
        async with running_attempt(tmp_path) as attempt:
            attempt.execution.set_deadline(CLOCK.boottime() - 1)
            await asyncio.wait_for(asyncio.shield(attempt.watchdog.driver_exited), TIMEOUT_S)
            attempt.execution.set_deadline(CLOCK.boottime() + LONG_S)
            outcome = await attempt.outcome()
        assert outcome == Outcome(Ending.LOST, "the lease could not be confirmed before its deadline, so the driver was killed")

    asyncio.run(test())


def test_processes_and_isolation_level_are_recorded_before_the_driver_runs(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_attempt(tmp_path) as attempt:
            assert attempt.execution.isolation == attempt.watchdog.isolation == NAMESPACE
            recorded = tmp_path / "attempt" / PROCESSES_FILE
            assert process_file.kill_processes(recorded, timeout_s=TIMEOUT_S)
            assert await attempt.outcome() == Outcome(Ending.LOST, "the watchdog was killed, and the driver with it")

    asyncio.run(test())


def test_killed_driver_has_the_outcome_that_the_kill_was_requested_with(tmp_path: Path) -> None:
    cause = Outcome(Ending.STOPPED, "a user cancelled the job")

    async def test() -> None:
        async with running_attempt(tmp_path) as attempt:
            attempt.execution.kill(cause)
            assert await attempt.outcome() == cause

    asyncio.run(test())


@pytest.mark.parametrize("crash", [signal.SIGSEGV, signal.SIGABRT], ids=["SIGSEGV", "SIGABRT"])
def test_script_that_crashes_has_failed(tmp_path: Path, crash: signal.Signals) -> None:
    async def test() -> None:
        async with running_attempt(tmp_path, CRASHER.format(number=int(crash))) as attempt:
            assert await attempt.outcome() == Outcome(Ending.FAILED, f"the driver crashed with {crash.name}")

    asyncio.run(test())


def test_driver_that_is_killed_from_outside_was_killed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_attempt(tmp_path) as attempt:
            assert attempt.execution.driver_pid is not None
            os.kill(attempt.execution.driver_pid, signal.SIGKILL)
            assert await attempt.outcome() == Outcome(Ending.KILLED, "the driver was killed by SIGKILL")

    asyncio.run(test())
