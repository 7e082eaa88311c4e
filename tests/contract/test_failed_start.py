"""A node that cannot start a runner reports it, so that the next attempt starts elsewhere at once."""

import asyncio
from typing import Any

from holdfast.errors import Conflict
from holdfast.model.identifiers import NodeId
from holdfast.model.job import Ending, Outcome, Progress
from holdfast.model.phase import Phase
from holdfast.model.versions import Versions
from holdfast.node.attempts import AttemptId, SpawnFailed
from holdfast.node.membership import Membership
from holdfast.node.order_executor import OrderExecutor
from holdfast.runner.lease import LeaseRefused
from holdfast.zk.records.cluster_view import read_cluster
from holdfast.zk.records.submission import submit
from tests.contract.backends import Backend, open_session, wait_for
from tests.contract.leader_scene import JOB, ContractCluster, ErrorRaisingLog, LoopClock, run_scene, start_attempt
from tests.contract.new_cluster import SPEC, register_node
from tests.harness.promise_stub import PromiseStub

REASON = "attempt {attempt} could not be started on n1: No space left on device"


class FullDiskAttempts:
    """Attempts of a node whose disk is full."""

    def __init__(self) -> None:
        self.spawned: list[AttemptId] = []

    def list_open(self) -> list[AttemptId]:
        return []

    def is_running(self, attempt_id: AttemptId) -> bool:
        return False

    async def spawn(self, attempt_id: AttemptId, versions: Versions) -> None:
        self.spawned.append(attempt_id)
        raise SpawnFailed("No space left on device")

    async def kill_tree(self, attempt_id: AttemptId) -> bool:
        return True

    def read_outcome(self, attempt_id: AttemptId) -> Outcome | None:
        return None

    async def close_session(self, attempt_id: AttemptId) -> bool:
        return True

    def mark_closed(self, attempt_id: AttemptId) -> None: ...


def make_executor(cluster: ContractCluster, attempts: Any) -> OrderExecutor:
    return OrderExecutor(
        cluster.paths,
        NodeId("n1"),
        attempts=attempts,
        promises=PromiseStub(),
        nonce=lambda: "nonce",
        wall=LoopClock().wall,
        log=ErrorRaisingLog(),
    )


def test_failed_start_is_reported_with_its_cause_and_the_next_attempt_starts_elsewhere(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await register_node(cluster.client, cluster.paths, "n2", 1)
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).node == "n1", "it has the most free slots"
        node, attempts = make_executor(cluster, FullDiskAttempts()), FullDiskAttempts()
        await make_executor(cluster, attempts).run_pass(cluster.client)
        assert len(attempts.spawned) == 1
        report = await cluster.report()
        assert report.dead and report.outcome == Outcome(Ending.LOST, REASON.format(attempt=1))
        try:
            await (await cluster.open_lease(1)).take(started_at=1.0, failsafe=())
            raise AssertionError("a runner has taken the lease of an attempt that is reported dead")
        except LeaseRefused:
            pass
        await node.run_pass(cluster.client)  # the order is still there, and nothing happens
        await cluster.run_passes_until_idle()
        state = await cluster.state()
        assert (state.phase, state.attempt, state.node, state.lost_on) == (Phase.STARTING, 2, "n2", ("n1",))
        assert REASON.format(attempt=1) in [event.reason for event in state.events]

    run_scene(backend, scene)


def test_failed_start_keeps_the_progress_of_the_previous_attempt(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        first = await start_attempt(cluster)
        await first.release(Outcome(Ending.LOST, "the machine was shut down"), Progress(batch_id=7))
        await cluster.run_passes_until_idle()
        await make_executor(cluster, FullDiskAttempts()).run_pass(cluster.client)
        report = await cluster.report()
        assert (report.attempt, report.dead, report.progress) == (2, True, Progress(batch_id=7))

    run_scene(backend, scene)


def test_failed_start_keeps_the_first_unreported_attempt(backend: Backend) -> None:
    """The outcome of attempt 1 may be in the checkpoint, although its certificate says LOST."""

    async def scene(cluster: ContractCluster) -> None:
        first = await start_attempt(cluster)
        await first.release(Outcome(Ending.LOST, "its node is gone"), None)
        await cluster.run_passes_until_idle()
        await make_executor(cluster, FullDiskAttempts()).run_pass(cluster.client)
        report = await cluster.report()
        assert (report.attempt, report.dead, report.first_unreported) == (2, True, 1)

    run_scene(backend, scene)


def test_failed_start_does_not_replace_the_report_of_an_attempt_that_may_be_alive(backend: Backend) -> None:
    """The report of that attempt names the nodes whose promises can keep it alive."""

    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        assert await hold.send_heartbeat(driver_pid=7, progress=None, failsafe=(NodeId("n1"),))
        before = await cluster.report()
        assert not before.dead
        await hold._client.close()
        while (await cluster.state()).attempt == 1:
            await cluster.run_passes_until_idle()
            await asyncio.sleep(0.05)
        await make_executor(cluster, FullDiskAttempts()).run_pass(cluster.client)
        assert await cluster.report() == before

    run_scene(backend, scene)


def test_node_writes_its_health_only_when_it_changes(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        client = await open_session(backend)
        record = (await read_cluster(cluster.client, cluster.paths)).nodes[0][1]
        membership = Membership(client, cluster.paths, NodeId("n2"), record)
        path = cluster.paths.node(NodeId("n2"))

        async def health_and_version() -> tuple[str, int]:
            await cluster.client.sync(path)
            nodes = dict((await read_cluster(cluster.client, cluster.paths)).nodes)
            return nodes[NodeId("n2")].health, (await cluster.client.get(path)).stat.version

        for health, version in (("", 0), ("", 0), ("its disk is full", 1), ("its disk is full", 1), ("", 2)):
            await membership.ensure_registered(health)
            assert await health_and_version() == (health, version)
        await client.close()

    run_scene(backend, scene)


def test_leader_learns_of_a_changed_health_through_a_watch(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        client = await open_session(backend)
        record = (await read_cluster(cluster.client, cluster.paths)).nodes[0][1]
        membership = Membership(client, cluster.paths, NodeId("n2"), record)
        await membership.ensure_registered("")
        await cluster.run_passes_until_idle()
        cluster.client.take_fired_paths()
        await membership.ensure_registered("its disk is full")
        changed = cluster.paths.node(NodeId("n2"))
        await wait_for(lambda: changed in cluster.client.take_fired_paths(), what=f"{changed} fired")
        cluster.leader.mark_changed([changed])
        await cluster.leader.run_pass()
        nodes = cluster.leader.observer.snapshot(cluster.leader._leadership.epoch).nodes
        assert nodes[NodeId("n2")].health == "its disk is full"
        await client.close()

    run_scene(backend, scene)


def test_node_that_restarts_registers_with_its_current_health(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        client = await open_session(backend)
        record = (await read_cluster(cluster.client, cluster.paths)).nodes[0][1]
        await Membership(client, cluster.paths, NodeId("n2"), record).ensure_registered("its disk is full")
        assert dict((await read_cluster(client, cluster.paths)).nodes)[NodeId("n2")].health == "its disk is full"
        other = await open_session(backend)
        try:
            await Membership(other, cluster.paths, NodeId("n2"), record).ensure_registered("")
            raise AssertionError("two sessions have registered the same node")
        except Conflict:
            pass
        await client.close()
        await other.close()

    run_scene(backend, scene)
