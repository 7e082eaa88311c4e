"""Outcome of an attempt whose driver is killed. The driver is a real process; the test sets its deadline."""

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import log
from holdfast.clock import SystemClock
from holdfast.errors import Unavailable
from holdfast.model.codec import encode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Ending, Outcome, Report, Spec
from holdfast.model.unreported_outcome import first_unreported_attempt
from holdfast.runner import process_file
from holdfast.runner.attempt_layout import PROCESSES_FILE
from holdfast.runner.execution.driver import LocalDriverExecution
from holdfast.runner.execution.driver_command import CHECKPOINT_CONF
from holdfast.runner.execution.watchdog_client import WatchdogClient
from holdfast.runner.lease import AttemptAssignment
from holdfast.runner.watchdog.isolation import NAMESPACE
from holdfast.storage import CheckpointClaim, Claims, Storage, checkpoint_location, open_storage
from holdfast.storage.location import parse_location
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


class StorageMountedLate(Storage):
    """Storage that is mounted on this node after the first fetch, as on a machine that has just been started."""

    def __init__(self, directory: Path) -> None:
        super().__init__(parse_location(str(directory)), in_subprocess=True, stall_timeout_s=TIMEOUT_S)
        self._directory = directory
        self._away = directory.rename(directory.with_name("unmounted"))
        directory.mkdir()

    def fetch(self, digest: str, to: Path) -> None:
        try:
            super().fetch(digest, to)
        except Unavailable:
            self._directory.rmdir()
            self._away.rename(self._directory)
            raise


class StoredJob:
    """Job whose first attempt has claimed its checkpoint. ZooKeeper has only learned that the attempt was lost."""

    first_report = Report(
        Attempt(1), NodeId("n2"), 0.0, outcome=Outcome(Ending.LOST, "its node is gone"), first_unreported=Attempt(1)
    )

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.location = directory / "storage"
        self.location.mkdir()
        (directory / "script").write_text(SLEEPER)
        self.spec = Spec("sleeper", "sleeper.py", open_storage(str(self.location)).put(directory / "script"))
        self.root = str(self.location / "checkpoints" / "j1")
        self.claims = Claims(checkpoint_location(self.root, str(self.location)))
        self.claims.claim(CheckpointClaim(cluster="c", job="j1", attempt=1, node="n2", nonce="first"))

    def execution(
        self, attempt: int, storage: Storage | None = None, *, job: str = "j1", version: int = 1
    ) -> LocalDriverExecution:
        execution = LocalDriverExecution(
            AttemptAssignment(JobId(job), Attempt(attempt), NodeId("n1"), secrets.token_hex(8), version=version),
            self._directory / f"{job}-{attempt}",
            cluster="c",
            storage=storage or open_storage(str(self.location)),
            ensemble=NO_ZOOKEEPER,
            clock=CLOCK,
            log=log.configure_logging(component="runner"),
            read_phase=lambda _job: None,
        )
        execution.set_deadline(CLOCK.boottime() + LONG_S)
        return execution

    async def run(self, execution: LocalDriverExecution, previous: Report | None, spec: Spec | None = None) -> Outcome | None:
        """Return the outcome of an attempt that starts no driver; None if it starts one, which is then killed."""
        running = asyncio.create_task(execution.run_driver(spec or self.spec, previous))
        await wait_until_async(lambda: execution.driver_pid or running.done(), TIMEOUT_S, "the attempt runs or has ended")
        driver_pid = execution.driver_pid
        running.cancel()
        await asyncio.wait({running})
        return running.result() if driver_pid is None else None


def finished_job(directory: Path) -> StoredJob:
    job = StoredJob(directory)
    job.claims.write_outcome(1, encode(Outcome(Ending.FINISHED, "the script ended")))
    return job


@pytest.mark.slow
def test_finished_job_does_not_run_again_if_the_storage_is_mounted_while_its_code_is_fetched(tmp_path: Path) -> None:
    """The first check for outcomes sees the empty mount point, and the fetch is repeated until the storage is there."""
    job = finished_job(tmp_path)

    async def test() -> None:
        outcome = await job.run(job.execution(2, StorageMountedLate(job.location)), job.first_report)
        assert outcome is not None and outcome.ending is Ending.FINISHED

    asyncio.run(test())


@pytest.mark.slow
def test_finished_job_does_not_run_again_after_a_stop_while_the_storage_was_not_mounted(tmp_path: Path) -> None:
    """The stopped attempt saw the empty mount point, so its end must not hide the outcome from the next attempt."""
    job = finished_job(tmp_path)

    async def test() -> None:
        away = job.location.rename(tmp_path / "unmounted")
        job.location.mkdir()
        stopped = job.execution(2)
        stopped.request_stop()
        outcome = await job.run(stopped, job.first_report)
        job.location.rmdir()
        away.rename(job.location)
        first = first_unreported_attempt(job.first_report)
        second_report = Report(Attempt(2), NodeId("n1"), 0.0, outcome=outcome, first_unreported=first)
        last = await job.run(job.execution(3), second_report)
        assert last is not None and last.ending is Ending.FINISHED

    asyncio.run(test())


def test_attempt_that_is_stopped_while_the_outcomes_cannot_be_read_is_lost(tmp_path: Path) -> None:
    job = StoredJob(tmp_path)
    claims = Path(job.root, "_holdfast")
    claims.rename(tmp_path / "claims")
    claims.touch()

    async def test() -> None:
        stopped = job.execution(2)
        stopped.request_stop()
        outcome = await job.run(stopped, job.first_report)
        assert outcome is not None and outcome.ending is Ending.LOST

    asyncio.run(test())


@pytest.mark.parametrize("version", [1, 2])
def test_unreported_failure_of_another_version_is_not_a_failure_of_this_version(tmp_path: Path, version: int) -> None:
    """Otherwise a version that corrects the failure would be rolled back without having run."""
    job = StoredJob(tmp_path)
    (tmp_path / "crasher").write_text(CRASHER.format(number=int(signal.SIGSEGV)))
    crasher = replace(job.spec, blob=open_storage(str(job.location)).put(tmp_path / "crasher"))
    first = first_unreported_attempt(job.first_report)
    second_report = Report(Attempt(2), NodeId("n1"), 0.0, outcome=Outcome(Ending.LOST, "lost"), first_unreported=first)

    async def test() -> None:
        execution = job.execution(2)
        failed = await asyncio.wait_for(execution.run_driver(crasher, job.first_report), TIMEOUT_S)
        await execution.save_outcome(failed)
        outcome = await job.run(job.execution(3, version=version), second_report)
        reason = f"attempt 2 ended without reporting its outcome to ZooKeeper: {failed.reason}"
        assert outcome == (Outcome(Ending.FAILED, reason) if version == 1 else None)

    asyncio.run(test())


def test_failure_of_a_job_before_it_claims_a_checkpoint_is_no_outcome_of_the_owner(tmp_path: Path) -> None:
    """A script may name the checkpoint of another job. The job that names it must not harm the owner."""
    job = StoredJob(tmp_path)
    other_spec = replace(job.spec, blob="0" * 64, conf=((CHECKPOINT_CONF, job.root),))

    async def test() -> None:
        other = job.execution(1, job="j2")
        outcome = await job.run(other, None, other_spec)
        assert outcome is not None and outcome.ending is Ending.UNSTARTABLE
        await other.save_outcome(outcome)
        assert await job.run(job.execution(2), job.first_report) is None, "the owner runs again"

    asyncio.run(test())
