"""Outcomes of earlier attempts that ZooKeeper may lack. Drivers are real processes; the test plays the leader."""

import asyncio
import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.model.codec import encode
from holdfast.model.identifiers import Attempt, NodeId
from holdfast.model.job import Ending, Outcome, Report
from holdfast.model.schedule.due_times import Schedule
from holdfast.model.unreported_outcome import first_unreported_attempt
from holdfast.runner.execution.driver_command import CHECKPOINT_CONF
from holdfast.storage import open_storage
from tests.harness.stored_job import CRASHER, TIMEOUT_S, StorageMountedLate, StoredJob, finished_job


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
        first = first_unreported_attempt(job.first_report, is_scheduled=False)
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
    first = first_unreported_attempt(job.first_report, is_scheduled=False)
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


FINISHED = Outcome(Ending.FINISHED, "the script ended")
INVALID_LOCATION = "s3n://bucket/checkpoint"


def test_finished_job_is_not_unstartable_because_a_new_version_names_an_invalid_location(tmp_path: Path) -> None:
    """After the roll-back of the new version, the previous one would run again."""
    job = finished_job(tmp_path)
    report = replace(job.first_report, checkpoint=job.root)

    async def test() -> None:
        spec = replace(job.spec, conf=((CHECKPOINT_CONF, INVALID_LOCATION),))
        outcome = await job.run(job.execution(2, version=2), report, spec)
        assert outcome is not None and outcome.ending is Ending.FINISHED
        unread = await job.run(job.execution(2, version=2), job.first_report, spec)
        assert unread is not None and unread.ending is Ending.LOST
        first = await job.run(job.execution(1, version=1), None, spec)
        assert first is not None and first.ending is Ending.UNSTARTABLE

    asyncio.run(test())


@pytest.mark.slow
def test_finished_job_is_not_unstartable_because_its_code_is_missing_in_a_storage_that_is_mounted_late(tmp_path: Path) -> None:
    job = finished_job(tmp_path)
    spec = replace(job.spec, blob="0" * 64)

    async def test() -> None:
        outcome = await job.run(job.execution(2, StorageMountedLate(job.location)), job.first_report, spec)
        assert outcome is not None and outcome.ending is Ending.FINISHED

    asyncio.run(test())


def test_attempt_that_cannot_read_the_outcomes_parks_the_job_and_covers_none(tmp_path: Path) -> None:
    job = finished_job(tmp_path)
    claims = Path(job.root, "_holdfast")
    claims.rename(tmp_path / "claims")
    claims.touch()

    def repair() -> None:
        claims.unlink()
        (tmp_path / "claims").rename(claims)

    async def test() -> None:
        outcome = await job.run(job.execution(2), job.first_report)
        assert outcome is not None and outcome.ending is Ending.CHECKPOINT_DAMAGED
        repair()
        first = first_unreported_attempt(job.first_report, is_scheduled=False)
        last = await job.run(job.execution(3), Report(Attempt(2), NodeId("n1"), 0.0, outcome=outcome, first_unreported=first))
        assert last is not None and last.ending is Ending.FINISHED

    asyncio.run(test())


def test_finished_job_does_not_run_again_after_an_upgrade_to_another_location(tmp_path: Path) -> None:
    job = finished_job(tmp_path)
    report = replace(job.first_report, checkpoint=job.root)
    spec = replace(job.spec, conf=((CHECKPOINT_CONF, str(tmp_path / "elsewhere")),))

    async def test() -> None:
        outcome = await job.run(job.execution(2, version=2), report, spec)
        assert outcome is not None and outcome.ending is Ending.FINISHED

    asyncio.run(test())


def test_job_whose_end_was_reported_after_the_decision_to_restart_it_does_not_run_again(tmp_path: Path) -> None:
    """The node of the attempt may certify the end after a user has forced a restart. No outcome is left in the checkpoint."""
    job = StoredJob(tmp_path)

    async def test() -> None:
        assert await job.run(job.execution(2), replace(job.first_report, outcome=FINISHED)) == FINISHED

    asyncio.run(test())


@pytest.mark.slow
def test_attempt_is_lost_if_the_storage_with_the_claimed_checkpoint_is_not_mounted(tmp_path: Path) -> None:
    """Another node may have mounted it, so the job is not parked."""
    job = StoredJob(tmp_path)
    failed = replace(job.first_report, outcome=Outcome(Ending.FAILED, "KeyError"), checkpoint=job.root)
    job.location.rename(tmp_path / "unmounted")
    job.location.mkdir()

    async def test() -> None:
        outcome = await job.run(job.execution(2), failed)
        assert outcome is not None and outcome.ending is Ending.LOST

    asyncio.run(test())


@pytest.mark.parametrize("was_scheduled", [False, True])
@pytest.mark.parametrize("is_scheduled", [False, True])
def test_end_of_a_run_does_not_end_a_job_without_a_schedule(tmp_path: Path, was_scheduled: bool, is_scheduled: bool) -> None:
    """An upgrade may add or remove the schedule. The first run of the new schedule, or the new program, must not be skipped."""
    job = StoredJob(tmp_path)
    job.claims.write_outcome(1, {**json.loads(encode(FINISHED)), "version": 1, "scheduled": was_scheduled})
    spec = replace(job.spec, schedule=Schedule(every_s=60.0) if is_scheduled else None)

    async def test() -> None:
        outcome = await job.run(job.execution(2, version=2), job.first_report, spec)
        assert (outcome is not None) == (was_scheduled == is_scheduled)

    asyncio.run(test())


@pytest.mark.parametrize("outcome", [FINISHED, None], ids=["finished", "lost"])
def test_claimed_checkpoint_that_is_not_mounted_parks_the_job(tmp_path: Path, outcome: Outcome | None) -> None:
    """A batch program reports no progress. Without its claims, the mount point looks like that of a job that never ran."""
    job = StoredJob(tmp_path, root=tmp_path / "mount" / "j1")
    if outcome is not None:
        job.claims.write_outcome(1, encode(outcome))
    report = replace(job.first_report, checkpoint=job.root)
    away = (tmp_path / "mount").rename(tmp_path / "unmounted")
    (tmp_path / "mount").mkdir()

    async def test() -> None:
        for attempt in (2, 3):
            parked = await job.run(job.execution(attempt), report)
            assert parked is not None and parked.ending is Ending.CHECKPOINT_DAMAGED, "the empty mount point stays empty"
            assert "it no longer exists, but an earlier attempt has used it" in parked.reason
        (tmp_path / "mount").rmdir()
        away.rename(tmp_path / "mount")
        parked_report = replace(report, attempt=Attempt(3), outcome=parked)
        last = await job.run(job.execution(4), parked_report)
        assert (last.ending if last is not None else None) == (outcome.ending if outcome is not None else None)

    asyncio.run(test())
