"""Scenes with a leader, one node, and leases that the test takes in place of a runner."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.leader.loop import Leader, LeaderTiming
from holdfast.log import Log
from holdfast.model.codec import decode
from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import JobState, Report
from holdfast.runner.lease import AttemptAssignment, LeaseHolder
from holdfast.zk.leadership.leadership import Leadership
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.submission import submit
from holdfast.zk.session.client import Client
from holdfast.zk.session.timing import SteadyContact
from tests.contract.backends import Backend, open_session
from tests.contract.new_cluster import SPEC, connect_to_new_cluster, register_node

JOB = JobId("j1")
MARGIN_S = 0.2


class ErrorRaisingLog:
    """Log that fails the test on an error."""

    def info(self, *_: object, **__: object) -> None: ...
    def warning(self, *_: object, **__: object) -> None: ...
    def error(self, event: str, **context: object) -> None:
        raise AssertionError(f"{event}: {context}")


class LoopClock:
    """Clock that follows the event loop of the backend."""

    def boottime(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return 1_800_000_000.0 + self.boottime()


class ContractCluster:
    """Cluster with one node and one leader, whose passes the test starts. The test also plays the runners."""

    def __init__(self, backend: Backend, client: Client, paths: Paths) -> None:
        self.backend = backend
        self.client = client
        self.paths = paths
        self.leader = self.new_leader()

    def new_leader(self, log: Log | None = None) -> Leader:
        leadership = Leadership(self.client, self.paths, node=NodeId("n1"), epoch=Epoch(0), contender="c-x-0000000000")
        contact = SteadyContact(gap_s_max=3600.0)
        contact.record(LoopClock().boottime())
        return Leader(
            self.client,
            self.paths,
            leadership,
            clock=LoopClock(),
            timing=LeaderTiming(MARGIN_S, start_s=60.0),
            contact=contact,
            log=log or ErrorRaisingLog(),
        )

    async def run_passes_until_idle(self) -> None:
        """Run passes until one executes no command."""
        await self.client.sync(self.paths.jobs)
        self.leader.mark_changed({""})
        for _ in range(10):
            if not await self.leader.run_pass():
                return
        raise AssertionError("the leader still executes commands after 10 passes")

    async def state(self, job: JobId = JOB) -> JobState:
        return decode(JobState, (await self.client.get(self.paths.job(job, "state"))).data, where="state")

    async def report(self) -> Report:
        return decode(Report, (await self.client.get(self.paths.job(JOB, "report"))).data, where="report")

    async def open_lease(self, attempt: int, nonce: str = "x") -> LeaseHolder:
        client = await open_session(self.backend)
        return LeaseHolder(client, self.paths, AttemptAssignment(JOB, Attempt(attempt), NodeId("n1"), nonce))


def run_scene(
    backend: Backend, scene: Callable[[ContractCluster], Awaitable[None]], *, slots: int = 4, ends_attempts: bool = False
) -> None:
    """Run the scene on a new cluster of the backend."""

    async def test() -> None:
        client, paths = await connect_to_new_cluster(backend)
        await register_node(client, paths, "n1", slots, ends_attempts=ends_attempts)
        await scene(ContractCluster(backend, client, paths))

    backend.run(test())


async def start_attempt(
    cluster: ContractCluster, attempt: int = 1, *, ready: bool = True, started_at: float = 1.0
) -> LeaseHolder:
    """Let the leader assign the attempt and take its lease. Submit the job first if it is the first attempt.

    With `ready`, the driver has Spark at the end, so the job is RUNNING.
    """
    if attempt == 1:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
    await cluster.run_passes_until_idle()
    hold = await cluster.open_lease(attempt)
    await hold.take(started_at=started_at, failsafe=())
    if ready:
        assert await hold.send_heartbeat(driver_pid=None, progress=None, failsafe=())
    await cluster.run_passes_until_idle()
    return hold
