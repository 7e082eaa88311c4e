"""Jobs on a schedule, on a simulated and on a real ZooKeeper: runs follow each other, whichever leader decides."""

import asyncio
import json
from dataclasses import replace

import pytest

from holdfast.errors import Refused
from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import SCHEMA, NewerSchema, decode, encode
from holdfast.model.identifiers import NodeId
from holdfast.model.job import Desired, Ending, JobState, Outcome, Spec
from holdfast.model.phase import Phase
from holdfast.model.schedule.due_times import Schedule
from holdfast.model.schedule.runs import RunOutcome
from holdfast.runner.lease import LeaseHolder
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.submission import hash_spec, set_desired, submit
from holdfast.zk.records.upgrade import upgrade
from holdfast.zk.session.client import Client, Create
from tests.contract.backends import Backend
from tests.contract.leader_scene import JOB, ContractCluster, run_scene
from tests.contract.new_cluster import SPEC

SCHEDULED = replace(SPEC, schedule=Schedule(every_s=1.0))


async def run_to_its_end(cluster: ContractCluster, attempt: int, ending: Ending = Ending.FINISHED) -> LeaseHolder:
    hold = await cluster.open_lease(attempt)
    await hold.take(started_at=1.0, failsafe=())
    await cluster.run_passes_until_idle()
    await hold.release(Outcome(ending, f"it {ending}"), None)
    await cluster.run_passes_until_idle()
    return hold


async def wait_for_attempt(cluster: ContractCluster, attempt: int) -> JobState:
    """Run passes until the attempt is assigned. On the simulated backend, the pauses take no time."""
    for _ in range(200):
        await cluster.run_passes_until_idle()
        if (await cluster.state()).attempt == attempt:
            break
        await asyncio.sleep(0.05)
    return await cluster.state()


def test_runs_follow_each_other_under_changing_leaders_and_the_job_keeps_its_name(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        client, paths = cluster.client, cluster.paths
        await submit(client, paths, SCHEDULED, job=JOB, request="r1")
        await cluster.run_passes_until_idle()
        due: list[float] = []
        for attempt in (1, 2, 3):
            state = await wait_for_attempt(cluster, attempt)
            assert state.runs is not None and state.runs.run is not None
            due.append(state.runs.run.due)
            cluster.leader = cluster.new_leader()
            await run_to_its_end(cluster, attempt)
            state = await cluster.state()
            assert state.runs is not None and state.runs.last is not None
            assert state.runs.last.number == attempt, "a run ends with its attempt"
            assert await client.exists(paths.name(SPEC.name)) is not None
        assert due == sorted(set(due))
        assert state.runs is not None
        assert [(run.number, run.outcome) for run in state.runs.ended] == [
            (number, RunOutcome.FINISHED) for number in (1, 2, 3)
        ]

    run_scene(backend, scene)


def test_waiting_job_has_no_order_and_a_cancel_is_final(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        client, paths = cluster.client, cluster.paths
        await submit(client, paths, replace(SPEC, schedule=Schedule(3600.0)), job=JOB, request="r1")
        await cluster.run_passes_until_idle()
        await run_to_its_end(cluster, 1, Ending.UNSTARTABLE)
        assert (await cluster.state()).phase is Phase.SCHEDULED
        assert await client.exists(paths.order(NodeId("n1"), JOB)) is None
        await set_desired(client, paths, JOB, Desired.CANCEL)
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).phase is Phase.CANCELLED
        assert await client.exists(paths.name(SPEC.name)) is None

    run_scene(backend, scene)


def test_restart_of_a_waiting_job_starts_a_run_at_once_and_an_upgrade_does_not(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        client, paths = cluster.client, cluster.paths
        await submit(client, paths, replace(SPEC, schedule=Schedule(3600.0)), job=JOB, request="r1")
        await cluster.run_passes_until_idle()
        await run_to_its_end(cluster, 1)
        assert await upgrade(client, paths, JOB, lambda spec: replace(spec, script="other.py"), trial_s=1.0) == 2
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).phase is Phase.SCHEDULED
        await set_desired(client, paths, JOB, Desired.RUN, repeat=True, run_now=True)
        await cluster.run_passes_until_idle()
        state = await cluster.state()
        assert (state.phase, state.attempt, state.versions.current) == (Phase.STARTING, 2, 2)

    run_scene(backend, scene)


@pytest.mark.parametrize("request_of_user", ["stop", "restart", "restart --force"])
def test_run_that_may_have_finished_stays_open_whatever_the_user_requests(backend: Backend, request_of_user: str) -> None:
    """Its outcome may be in the checkpoint. The next attempt belongs to the same run, and looks for it."""

    async def scene(cluster: ContractCluster) -> None:
        client, paths = cluster.client, cluster.paths
        await submit(client, paths, SCHEDULED, job=JOB, request="r1")
        await cluster.run_passes_until_idle()
        hold = await cluster.open_lease(1)
        await hold.take(started_at=1.0, failsafe=())
        await cluster.run_passes_until_idle()
        if request_of_user == "stop":
            await set_desired(client, paths, JOB, Desired.STOP)
        else:
            force = request_of_user == "restart --force"
            await set_desired(client, paths, JOB, Desired.RUN, repeat=True, force=force, run_now=True)
        await hold.release(Outcome(Ending.LOST, "its node is gone"), None)
        await asyncio.sleep(2.0)  # the next run is due
        await cluster.run_passes_until_idle()
        if request_of_user == "stop":
            assert (await cluster.state()).phase is Phase.PARKED
            await set_desired(client, paths, JOB, Desired.RUN, run_now=True)
        state = await wait_for_attempt(cluster, 2)
        assert state.runs is not None and state.runs.run is not None
        assert (state.runs.run.number, state.runs.run.attempts, state.runs.ended) == (1, 2, ())
        hold = await cluster.open_lease(2)
        await hold.take(started_at=1.0, failsafe=())
        assert (await cluster.report()).first_unreported == 1
        await hold.release(Outcome(Ending.FINISHED, "attempt 1 ended without reporting its outcome"), None)
        state = await wait_for_attempt(cluster, 3)
        assert state.runs is not None and state.runs.run is not None
        assert (state.runs.run.number, [run.attempts for run in state.runs.ended]) == (2, [2])
        await (await cluster.open_lease(3)).take(started_at=1.0, failsafe=())
        assert (await cluster.report()).first_unreported == 3, "the end of run 1 says nothing about run 2"

    run_scene(backend, scene)


# Earlier releases


async def register_earlier_release(client: Client, paths: Paths) -> None:
    record = NodeRecord(slots=4, address="http://n0", version="0", newest_schema=SCHEMA - 1)
    await client.commit([Create(paths.node(NodeId("n0")), encode(record), ephemeral=True)])


def test_schedule_is_refused_while_a_node_of_an_earlier_release_is_registered(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        client, paths = cluster.client, cluster.paths
        await register_earlier_release(client, paths)
        with pytest.raises(Refused, match="node n0, or a runner on it, has a release of Holdfast without schedules"):
            await submit(client, paths, SCHEDULED, job=JOB, request="r1")
        assert await client.children(paths.jobs) == []
        await submit(client, paths, SPEC, job=JOB, request="r1")
        with pytest.raises(Refused, match="without schedules"):
            await upgrade(client, paths, JOB, lambda spec: replace(spec, schedule=Schedule(60.0)), trial_s=1.0)

    run_scene(backend, scene)


def test_earlier_release_sets_a_scheduled_job_aside_even_if_it_joins_later(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        client, paths = cluster.client, cluster.paths
        await submit(client, paths, SCHEDULED, job=JOB, request="r1")
        await register_earlier_release(client, paths)
        await cluster.run_passes_until_idle()
        for part, kind in (("spec", Spec), ("state", JobState)):
            data = (await client.get(paths.job(JOB, part))).data
            with pytest.raises(NewerSchema):
                decode(kind, data, where=part, newest=SCHEMA - 1)

    run_scene(backend, scene)


def test_records_of_jobs_without_a_schedule_stay_in_the_common_schema(backend: Backend) -> None:
    """A rollback must not set aside jobs that have no schedule."""

    async def scene(cluster: ContractCluster) -> None:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        await cluster.run_passes_until_idle()
        for part in ("spec", "state", "desired"):
            assert json.loads((await cluster.client.get(cluster.paths.job(JOB, part))).data)["schema"] == SCHEMA - 1

    run_scene(backend, scene)


def test_hash_of_a_spec_without_a_schedule_is_that_of_earlier_releases() -> None:
    """A submission that is repeated after the upgrade must be recognized."""
    spec = Spec("words", "words.py", "0" * 64)
    assert hash_spec(spec) == "f8fb5d3271484138ee34622056bb4c1aaa12c4f5d0063e2bcb639f714dee6cb0"
    assert hash_spec(replace(spec, schedule=Schedule(60.0))) != hash_spec(spec)
