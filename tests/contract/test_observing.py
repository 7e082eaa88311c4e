"""Observer of the leader with many jobs, on a simulated and on a real ZooKeeper."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from holdfast.errors import Unavailable
from holdfast.leader.observer import JOBS_PER_READ, Observer
from holdfast.model.identifiers import Epoch, JobId
from holdfast.model.job import Ending, Outcome
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, ConnectionState, Create, Read, ReadResult
from tests.contract.backends import Backend, wait_for
from tests.contract.leader_scene import JOB, ContractCluster, LoopClock, run_scene, start_attempt

JOBS = 3 * JOBS_PER_READ
TRANSACTION_OPERATIONS_MAX = 100


async def create_empty_jobs(client: Client, paths: Paths) -> list[JobId]:
    """Create jobs without any part, which an observer reads like all others. Return them in order."""
    jobs = [JobId(f"job-{number:04}") for number in range(JOBS)]
    for first in range(0, JOBS, TRANSACTION_OPERATIONS_MAX):
        await client.commit([Create(paths.job(job)) for job in jobs[first : first + TRANSACTION_OPERATIONS_MAX]])
    await client.sync(paths.jobs)
    return jobs


class FailingReads:
    """Client whose first batched read of one job fails, and which delays all other batched reads until `released`."""

    def __init__(self, client: Client, failing_path: str) -> None:
        self._client = client
        self._failing_path = failing_path
        self._has_failed = False
        self.released = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def read_many(self, reads: Sequence[Read]) -> list[ReadResult]:
        if not self._has_failed and any(read.path == self._failing_path for read in reads):
            self._has_failed = True
            raise Unavailable("the connection was lost")
        await self.released.wait()
        return await self._client.read_many(reads)


def test_refresh_that_fails_ends_after_all_its_reads(backend: Backend) -> None:
    """A read that continues in the background could replace the observation of the next refresh by an older one."""

    async def scene(cluster: ContractCluster) -> None:
        jobs = await create_empty_jobs(cluster.client, cluster.paths)
        client = FailingReads(cluster.client, cluster.paths.job(jobs[0], "state"))
        observer = Observer(cast(Client, client), cluster.paths, LoopClock())
        refresh = asyncio.ensure_future(observer.refresh())
        await wait_for(lambda: observer.jobs_read == JOBS, what="all groups are being read")
        await backend.advance(0.1)
        assert not refresh.done()
        client.released.set()
        with pytest.raises(Unavailable):
            await refresh
        assert observer.count_jobs() == (JOBS - JOBS_PER_READ, 0)
        await observer.refresh()
        assert observer.count_jobs() == (JOBS, 0)
        assert observer.jobs_read == JOBS + JOBS_PER_READ, "only the group that failed is read again"

    run_scene(backend, scene)


def test_all_jobs_are_observed_although_the_connection_is_lost_during_the_first_refresh(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        client = cluster.client
        await create_empty_jobs(client, cluster.paths)
        observer = Observer(client, cluster.paths, LoopClock())
        refresh = asyncio.ensure_future(observer.refresh())
        await wait_for(lambda: observer.jobs_read > 0 or refresh.done(), what="the first groups are being read")
        connections = client.connection_count
        await backend.drop_connections()
        with pytest.raises(Unavailable):
            await refresh
        await wait_for(
            lambda: client.connection_count > connections and client.state is ConnectionState.CONNECTED, what="connected again"
        )
        await observer.refresh()
        assert observer.count_jobs() == (JOBS, 0)

    run_scene(backend, scene)


def test_only_the_time_of_its_end_is_kept_of_an_ended_job(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        observer = cluster.leader.observer
        assert set(observer.snapshot(Epoch(0)).jobs) == {JOB} and not observer.ended_at
        await hold.release(Outcome(Ending.FINISHED, "the script ended"), None)
        await cluster.run_passes_until_idle()
        assert not observer.snapshot(Epoch(0)).jobs and observer.observation(JOB) is None
        assert observer.ended_at == {JOB: (await cluster.state()).events[-1].wall}
        assert observer.count_jobs() == (1, 0)

    run_scene(backend, scene)
