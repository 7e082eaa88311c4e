"""Reports: progress across attempts, and notes that become events."""

import json
from dataclasses import replace

import pytest

from holdfast.model.checkpoint_trust import CheckpointTrust
from holdfast.model.job import Desired, Ending, Outcome, Progress
from holdfast.model.phase import Phase
from holdfast.model.schedule.due_times import Schedule
from holdfast.runner.lease import LeaseHolder
from holdfast.zk.records.submission import set_desired, submit
from holdfast.zk.session.client import Committed, SetData
from tests.contract.backends import Backend
from tests.contract.leader_scene import JOB, ContractCluster, run_scene, start_attempt
from tests.contract.new_cluster import SPEC

LOST = Outcome(Ending.LOST, "the machine was shut down")
FAILED = Outcome(Ending.FAILED, "KeyError: 'word'")


def test_report_keeps_the_progress_of_the_previous_attempt_until_there_is_newer_progress(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        first = await start_attempt(cluster)
        await first.release(LOST, Progress(batch_id=7))
        second = await start_attempt(cluster, attempt=2)
        assert (await cluster.report()).progress == Progress(batch_id=7)
        await second.release(LOST, Progress(offsets=("0",)))
        assert (await cluster.report()).progress == Progress(batch_id=7)

    run_scene(backend, scene)


def test_first_batch_is_reported_even_if_the_runner_is_killed_afterwards(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        for batch in (None, 0, 1):
            assert await hold.send_heartbeat(driver_pid=7, progress=Progress(batch_id=batch), failsafe=())
        assert (await cluster.report()).progress == Progress(batch_id=0)

    run_scene(backend, scene)


def test_first_batch_of_an_attempt_replaces_the_progress_of_earlier_attempts(backend: Backend) -> None:
    """After a loss of batches that a user has accepted, an attempt begins with smaller batch ids."""

    async def scene(cluster: ContractCluster) -> None:
        first = await start_attempt(cluster)
        await first.release(LOST, Progress(batch_id=7))
        second = await start_attempt(cluster, attempt=2)
        for batch, reported in ((None, 7), (0, 0), (1, 0)):
            progress = Progress(batch_id=batch)
            assert await second.send_heartbeat(driver_pid=7, progress=progress, failsafe=(), proven=batch is not None)
            await cluster.client.sync(cluster.paths.jobs)
            assert (await cluster.report()).progress == Progress(batch_id=reported)

    run_scene(backend, scene)


def test_report_names_the_first_unreported_attempt_until_an_outcome_is_reported(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        for attempt, outcome, first_unreported in ((1, LOST, 1), (2, LOST, 1), (3, FAILED, 1), (4, LOST, 4)):
            hold = await start_attempt(cluster, attempt)
            assert (await cluster.report()).first_unreported == first_unreported
            await hold.release(outcome, None)
            await cluster.run_passes_until_idle()
            while (await cluster.state()).phase is Phase.BACKOFF:
                await cluster.backend.advance(0.5)
                await cluster.run_passes_until_idle()

    run_scene(backend, scene)


def test_report_names_the_claimed_checkpoint_until_another_one_is_claimed(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        for attempt, in_heartbeat, at_end, reported in ((1, "/a", "/a", "/a"), (2, "", "", "/a"), (3, "", "/b", "/b")):
            hold = await start_attempt(cluster, attempt)
            assert await hold.send_heartbeat(driver_pid=7, progress=None, failsafe=(), checkpoint=in_heartbeat)
            await hold.release(LOST, None, checkpoint=at_end)
            await cluster.client.sync(cluster.paths.jobs)
            assert (await cluster.report()).checkpoint == reported
            await cluster.run_passes_until_idle()
            while (await cluster.state()).phase is Phase.BACKOFF:
                await cluster.backend.advance(0.5)
                await cluster.run_passes_until_idle()

    run_scene(backend, scene)


@pytest.mark.parametrize(("is_scheduled", "first_unreported"), [(False, 1), (True, 2)])
def test_outcome_of_any_attempt_may_be_missing_after_a_certificate_of_an_earlier_release(
    backend: Backend, is_scheduled: bool, first_unreported: int
) -> None:
    """A node of an earlier release does not know the field, so its certificate lacks it."""

    async def scene(cluster: ContractCluster) -> None:
        spec = replace(SPEC, schedule=Schedule(every_s=3600.0) if is_scheduled else None)
        await submit(cluster.client, cluster.paths, spec, job=JOB, request="r1")
        for attempt in (1, 2):
            hold = await take_next_lease(cluster, attempt)
            await hold.release(LOST, None)
        path = cluster.paths.job(JOB, "report")
        await cluster.client.sync(path)
        report = await cluster.client.get(path)
        fields = json.loads(report.data)
        del fields["first_unreported"]
        result = await cluster.client.commit([SetData(path, json.dumps(fields).encode(), report.stat.version)])
        assert isinstance(result, Committed)
        await take_next_lease(cluster, 3)
        assert (await cluster.report()).first_unreported == first_unreported

    run_scene(backend, scene)


async def take_next_lease(cluster: ContractCluster, attempt: int) -> LeaseHolder:
    """Wait until the leader has assigned the attempt, and take its lease."""
    await cluster.run_passes_until_idle()
    while (await cluster.state()).phase is Phase.BACKOFF:
        await cluster.backend.advance(0.5)
        await cluster.run_passes_until_idle()
    hold = await cluster.open_lease(attempt)
    await hold.take(started_at=1.0, failsafe=())
    return hold


def test_note_of_an_attempt_becomes_exactly_one_event(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        cluster.client.take_fired_paths()
        for _ in range(2):
            assert await hold.send_heartbeat(driver_pid=7, progress=None, failsafe=(), note="offsets/7 was set aside")
            await cluster.client.sync(cluster.paths.jobs)
            cluster.leader.mark_changed(cluster.client.take_fired_paths())  # read only changed, watched znodes
            await cluster.leader.run_pass()
        state = await cluster.state()
        assert (state.phase, state.reason) == (Phase.RUNNING, "attempt 1 runs on n1; offsets/7 was set aside")
        assert [event.phase for event in state.events] == [Phase.STARTING, Phase.RUNNING, Phase.RUNNING]
        assert [event.reason for event in state.events].count(state.reason) == 1

    run_scene(backend, scene)


def test_damaged_checkpoint_parks_the_job_with_the_finding_as_reason(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        await hold.release(Outcome(Ending.CHECKPOINT_DAMAGED, "offsets/7 is empty"), None)
        await cluster.run_passes_until_idle()
        state = await cluster.state()
        assert (state.phase, state.reason) == (Phase.PARKED, "offsets/7 is empty")

    run_scene(backend, scene)


def test_trust_in_a_damaged_checkpoint_is_an_event_and_reaches_the_next_attempt(backend: Backend) -> None:
    trust = CheckpointTrust("ada@laptop", "the backup cut off commits/2", 1000.0, ("a1",))

    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        await hold.release(Outcome(Ending.CHECKPOINT_DAMAGED, "offsets/7 is empty", trust.findings), None)
        await cluster.run_passes_until_idle()
        await set_desired(cluster.client, cluster.paths, JOB, Desired.RUN, repeat=True, trust=trust)
        await cluster.run_passes_until_idle()
        reasons = [event.reason for event in (await cluster.state()).events]
        assert f"a user resumed the job; {trust}" in reasons
        taken = await (await cluster.open_lease(2)).take(started_at=1.0, failsafe=())
        assert taken.trust == trust

    run_scene(backend, scene)
