"""Upgrades of a job, on a simulated and on a real ZooKeeper: trial and rollback."""

from dataclasses import replace

import pytest

from holdfast.errors import Refused
from holdfast.model.identifiers import Attempt, NodeId
from holdfast.model.job import Desired, Ending, Outcome, Progress
from holdfast.model.phase import Phase
from holdfast.model.versions import Versions
from holdfast.runner.lease import AttemptAssignment, LeaseHolder, TakenLease
from holdfast.zk.records.submission import set_desired, submit
from holdfast.zk.records.upgrade import SpecChange, read_versions, upgrade
from tests.contract.backends import Backend, open_session
from tests.contract.leader_scene import JOB, ContractCluster, run_scene, start_attempt
from tests.contract.new_cluster import SPEC

STOPPED = Outcome(Ending.STOPPED, "the job stopped at a batch boundary, as requested")
BROKEN = Outcome(Ending.FAILED, "KeyError: 'word'")
PROGRESS = Progress(batch_id=7)


def change_blob(blob: str) -> SpecChange:
    return lambda spec: replace(spec, script=f"{blob}.py", blob=blob, by="ada@laptop")


async def upgrade_to(cluster: ContractCluster, blob: str) -> int | None:
    return await upgrade(cluster.client, cluster.paths, JOB, change_blob(blob), trial_s=30.0)


async def start_next_attempt(cluster: ContractCluster) -> tuple[LeaseHolder, TakenLease]:
    """Let the leader assign the next attempt and take its lease, as the node would."""
    await cluster.run_passes_until_idle()
    state = await cluster.state()
    assert state.phase is Phase.STARTING, state.reason
    versions = state.versions
    run = AttemptAssignment(JOB, state.attempt, NodeId("n1"), "x", version=versions.current, on_trial=versions.on_trial)
    hold = LeaseHolder(await open_session(cluster.backend), cluster.paths, run)
    taken = await hold.take(started_at=1.0, failsafe=())
    await cluster.run_passes_until_idle()
    return hold, taken


def test_next_attempt_runs_the_new_version_on_trial_and_the_event_names_its_author(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        assert await upgrade_to(cluster, "b2") == 2
        await hold.release(STOPPED, PROGRESS)
        _, taken = await start_next_attempt(cluster)
        assert (taken.spec.blob, taken.trial_timeout_s) == ("b2", 30.0)
        state = await cluster.state()
        assert state.versions == Versions(2, fallback=1)
        assert any(
            "attempt 2 was assigned to n1, with version 2: b2.py, by ada@laptop" in event.reason for event in state.events
        )
        versions = await read_versions(cluster.client, cluster.paths, JOB)
        assert [(version.number, version.spec and version.spec.blob) for version in versions] == [(1, SPEC.blob), (2, "b2")]

    run_scene(backend, scene)


def test_version_that_fails_before_its_first_batch_is_rolled_back(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        await upgrade_to(cluster, "b2")
        await hold.release(STOPPED, PROGRESS)
        hold, _ = await start_next_attempt(cluster)
        await hold.release(BROKEN, None)
        hold, taken = await start_next_attempt(cluster)
        assert taken.spec.blob == SPEC.blob
        state = await cluster.state()
        assert state.versions == Versions(1, rejected=2)
        assert state.failures.in_a_row == 0
        assert any(
            event.reason == "version 2 failed before its first batch: KeyError: 'word'; rolled back to version 1"
            for event in state.events
        )
        # A restart keeps the rejected version rejected; a newer version gets its own trial.
        await set_desired(cluster.client, cluster.paths, JOB, Desired.RUN, repeat=True)
        await hold.release(STOPPED, PROGRESS)
        hold, taken = await start_next_attempt(cluster)
        assert taken.spec.blob == SPEC.blob
        assert await upgrade_to(cluster, "b3") == 3
        await hold.release(STOPPED, PROGRESS)
        _, taken = await start_next_attempt(cluster)
        assert (taken.spec.blob, (await cluster.state()).versions) == ("b3", Versions(3, fallback=1))

    run_scene(backend, scene)


def test_version_that_committed_its_first_batch_is_kept_after_a_failure(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        await upgrade_to(cluster, "b2")
        await hold.release(STOPPED, PROGRESS)
        hold, _ = await start_next_attempt(cluster)
        assert await hold.send_heartbeat(driver_pid=1, progress=PROGRESS, failsafe=(), proven=True)
        await hold.release(BROKEN, PROGRESS, proven=True)
        await cluster.run_passes_until_idle()
        state = await cluster.state()
        assert (state.phase, state.versions) == (Phase.BACKOFF, Versions(2))
        assert state.failures.in_a_row == 1

    run_scene(backend, scene)


def test_lost_attempt_does_not_end_the_trial(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        await upgrade_to(cluster, "b2")
        await hold.release(STOPPED, PROGRESS)
        hold, _ = await start_next_attempt(cluster)
        await hold.release(Outcome(Ending.LOST, "the machine was shut down"), None)
        _, taken = await start_next_attempt(cluster)
        assert (taken.spec.blob, (await cluster.state()).versions) == ("b2", Versions(2, fallback=1))

    run_scene(backend, scene)


def test_upgrade_of_a_stopped_job_takes_effect_when_it_is_resumed(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        await set_desired(cluster.client, cluster.paths, JOB, Desired.STOP)
        await hold.release(STOPPED, PROGRESS)
        await cluster.run_passes_until_idle()
        assert await upgrade_to(cluster, "b2") == 2
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).phase is Phase.PARKED
        await set_desired(cluster.client, cluster.paths, JOB, Desired.RUN)
        _, taken = await start_next_attempt(cluster)
        assert taken.spec.blob == "b2"

    run_scene(backend, scene)


def test_identical_spec_creates_no_version_and_an_ended_job_cannot_be_upgraded(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        assert await upgrade_to(cluster, "b2") == 2
        assert await upgrade_to(cluster, "b2") is None
        await set_desired(cluster.client, cluster.paths, JOB, Desired.CANCEL)
        with pytest.raises(Refused, match="has ended or was cancelled"):
            await upgrade_to(cluster, "b3")
        await cluster.run_passes_until_idle()
        with pytest.raises(Refused, match="has ended"):
            await upgrade_to(cluster, "b3")

    run_scene(backend, scene)


def test_concurrent_upgrades_get_different_version_numbers(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        other = await open_session(cluster.backend)
        first = await upgrade_to(cluster, "b2")
        second = await upgrade(other, cluster.paths, JOB, change_blob("b3"), trial_s=30.0)
        assert (first, second) == (2, 3)
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).versions == Versions(3)
        assert (await cluster.state()).attempt == Attempt(1)

    run_scene(backend, scene)
