"""Orders to end an attempt, and certificates of death, on a simulated and on a real ZooKeeper."""

import json
from dataclasses import replace

import pytest

from holdfast.model.codec import encode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Desired, Ending, Order, Outcome
from holdfast.model.phase import Phase
from holdfast.model.versions import Versions
from holdfast.node.attempts import AttemptId
from holdfast.node.order_executor import OrderExecutor
from holdfast.runner.lease import LeaseLost, LeaseRefused
from holdfast.zk.records.submission import set_desired
from holdfast.zk.session.client import Create, Delete, SetData
from tests.contract.backends import Backend
from tests.contract.leader_scene import JOB, MARGIN_S, ContractCluster, ErrorRaisingLog, run_scene, start_attempt
from tests.contract.new_cluster import register_node
from tests.harness.promise_stub import PromiseStub

N1, N2 = NodeId("n1"), NodeId("n2")
FIRST = AttemptId(JOB, Attempt(1), "x")


class RecordedAttempts:
    """Attempts of a node. Every runner counts as alive until it is killed."""

    def __init__(self, *open: AttemptId) -> None:
        self.open = list(open)
        self.running = set(open)
        self.actions: list[str] = []
        self.survives = False
        self.damaged: set[AttemptId] = set()
        """Attempts whose processes cannot even be looked for."""

    def list_open(self) -> list[AttemptId]:
        return sorted(self.open)

    def is_running(self, attempt_id: AttemptId) -> bool:
        return attempt_id in self.running

    async def spawn(self, attempt_id: AttemptId, versions: Versions) -> None:
        self.actions.append(f"start {attempt_id.attempt}")
        self.open.append(attempt_id)
        self.running.add(attempt_id)

    async def kill_runner(self, attempt_id: AttemptId) -> bool:
        self.actions.append(f"kill runner {attempt_id.attempt}")
        if not self.survives:
            self.running.discard(attempt_id)
        return not self.survives

    async def kill_tree(self, attempt_id: AttemptId) -> bool:
        if attempt_id in self.damaged:
            raise ValueError("embedded null byte")
        self.actions.append(f"kill tree {attempt_id.nonce}")
        return True

    def read_outcome(self, attempt_id: AttemptId) -> Outcome | None:
        return None

    async def close_session(self, attempt_id: AttemptId) -> bool:
        return True

    def mark_closed(self, attempt_id: AttemptId) -> None:
        self.open.remove(attempt_id)


class TolerantLog(ErrorRaisingLog):
    def error(self, event: str, **context: object) -> None: ...


def make_executor(
    cluster: ContractCluster, attempts: RecordedAttempts, promises: PromiseStub | None = None, *, node: NodeId = N1
) -> OrderExecutor:
    return OrderExecutor(
        cluster.paths,
        node,
        attempts=attempts,
        promises=promises or PromiseStub(),
        nonce=lambda: "y",
        wall=lambda: 1.0,
        log=TolerantLog(),
    )


async def lose_lease(cluster: ContractCluster) -> None:
    """Start the first attempt, end its session, and let the leader wait for a margin."""
    hold = await start_attempt(cluster)
    await hold._client.close()
    await cluster.run_passes_until_idle()
    await cluster.backend.advance(MARGIN_S + 0.1)
    await cluster.run_passes_until_idle()


async def read_order(cluster: ContractCluster) -> dict[str, object]:
    fields: dict[str, object] = json.loads((await cluster.client.get(cluster.paths.order(N1, JOB))).data)
    return fields


def test_leader_orders_the_end_once_and_waits_for_the_certificate(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await lose_lease(cluster)
        state, order = await cluster.state(), await read_order(cluster)
        assert (state.phase, state.attempt, state.node) == (Phase.RUNNING, 1, N1)
        assert state.reason == "waiting for n1 to confirm that attempt 1 has ended"
        assert (order["attempt"], order["end"], order["event"]) == (1, True, state.events[-1].number)
        created = (await cluster.client.get(cluster.paths.order(N1, JOB))).stat.created_zxid
        await cluster.backend.advance(5 * MARGIN_S)
        await cluster.run_passes_until_idle()
        assert await cluster.state() == state, "no further event"
        assert (await cluster.client.get(cluster.paths.order(N1, JOB))).stat.created_zxid == created

    run_scene(backend, scene, ends_attempts=True)


def test_node_kills_and_certifies_and_the_next_attempt_starts(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await lose_lease(cluster)
        attempts = RecordedAttempts(FIRST)
        executor = make_executor(cluster, attempts)
        await executor.run_pass(cluster.client)
        assert attempts.actions == ["kill runner 1", "kill tree x"]
        assert attempts.open == []
        assert (await cluster.report()).dead
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).attempt == 2
        executor.on_watch_events([cluster.paths.node_orders(N1)])
        await executor.run_pass(cluster.client)
        assert attempts.actions[2:] == ["start 2"]

    run_scene(backend, scene, ends_attempts=True)


def test_node_without_the_attempts_directory_kills_by_nonce_and_certifies(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await lose_lease(cluster)
        attempts = RecordedAttempts()
        await make_executor(cluster, attempts).run_pass(cluster.client)
        assert attempts.actions == ["kill tree x"]
        assert (await cluster.report()).dead

    run_scene(backend, scene, ends_attempts=True)


@pytest.mark.parametrize("is_running", [False, True], ids=["dead runner", "older attempt"])
def test_node_ends_attempts_although_the_processes_of_another_one_cannot_be_looked_for(
    backend: Backend, is_running: bool
) -> None:
    """The job of the damaged attempt comes first in the order of the jobs."""

    async def scene(cluster: ContractCluster) -> None:
        await lose_lease(cluster)
        damaged = AttemptId(JobId("a"), Attempt(1), "damaged")
        attempts = RecordedAttempts(FIRST, damaged)
        attempts.damaged = {damaged}
        if is_running:
            await order_newer_attempt(cluster, damaged.job)
        else:
            attempts.running.discard(damaged)
        await make_executor(cluster, attempts).run_pass(cluster.client)
        assert (await cluster.report()).dead
        assert attempts.open == [damaged]

    run_scene(backend, scene, ends_attempts=True)


async def order_newer_attempt(cluster: ContractCluster, job: JobId) -> None:
    """Order attempt 2 of a job whose attempt 1 this node still has."""
    state = replace(await cluster.state(), phase=Phase.STARTING, attempt=Attempt(2), node=N1)
    await cluster.client.commit(
        [
            Create(cluster.paths.job(job)),
            Create(cluster.paths.job(job, "state"), encode(state)),
            Create(cluster.paths.job(job, "report"), b""),
            Create(cluster.paths.order(N1, job), encode(Order(job, Attempt(2)))),
        ]
    )


def test_node_certifies_nothing_while_the_runner_survives(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await lose_lease(cluster)
        attempts = RecordedAttempts(FIRST)
        attempts.survives = True
        executor = make_executor(cluster, attempts)
        await executor.run_pass(cluster.client)
        assert not (await cluster.report()).dead
        attempts.survives = False
        await executor.run_pass(cluster.client)
        assert (await cluster.report()).dead, "the node tries again"

    run_scene(backend, scene, ends_attempts=True)


def test_attempt_is_not_ended_while_it_has_its_lease(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        state = await cluster.state()
        path = cluster.paths.order(N1, JOB)
        end = Order(JOB, Attempt(1), end=True, event=state.events[-1].number)
        await cluster.client.commit([SetData(path, encode(end), 0)])
        attempts = RecordedAttempts(FIRST)
        executor = make_executor(cluster, attempts)
        await executor.run_pass(cluster.client)
        assert attempts.actions == []
        await hold._client.close()
        await executor.run_pass(cluster.client)
        assert attempts.actions == ["kill runner 1", "kill tree x"], "the order still stands when the lease is lost again"

    run_scene(backend, scene, ends_attempts=True)


def test_order_to_end_has_no_effect_after_a_later_event(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await lose_lease(cluster)
        order = cluster.paths.order(N1, JOB)
        stale = Order(JOB, Attempt(1), end=True, event=(await cluster.state()).events[-1].number - 1)
        await cluster.client.commit([SetData(order, encode(stale), 0)])
        attempts = RecordedAttempts(FIRST)
        await make_executor(cluster, attempts).run_pass(cluster.client)
        assert attempts.actions == []

    run_scene(backend, scene, ends_attempts=True)


def test_deleted_order_is_written_again(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await lose_lease(cluster)
        await cluster.client.commit([Delete(cluster.paths.order(N1, JOB), 0)])
        cluster.leader.observer.mark_job_stale(JOB)
        await cluster.run_passes_until_idle()
        assert (await read_order(cluster))["end"] is True

    run_scene(backend, scene, ends_attempts=True)


def test_outdated_order_to_end_is_refused(backend: Backend) -> None:
    """The attempt reports its outcome between the leader's decision and its commit."""

    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        await hold._client.close()
        await cluster.run_passes_until_idle()
        await cluster.backend.advance(MARGIN_S + 0.1)
        report = await cluster.client.get(cluster.paths.job(JOB, "report"))
        await cluster.client.commit([SetData(cluster.paths.job(JOB, "report"), report.data, report.stat.version)])
        await cluster.leader.run_pass()  # still plans from the previous version of the report
        assert (await cluster.state()).reason == "attempt 1 runs on n1"

    run_scene(backend, scene, ends_attempts=True)


def test_forced_restart_does_not_wait_for_the_certificate(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await lose_lease(cluster)
        await set_desired(cluster.client, cluster.paths, JOB, Desired.RUN, repeat=True, force=True)
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).attempt == 2

    run_scene(backend, scene, ends_attempts=True)


def test_runner_of_a_certified_attempt_can_do_nothing_more(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await lose_lease(cluster)
        await make_executor(cluster, RecordedAttempts(FIRST)).run_pass(cluster.client)
        late = await cluster.open_lease(1)
        with pytest.raises((LeaseRefused, LeaseLost)):
            await late.take(started_at=2.0, failsafe=())

    run_scene(backend, scene, ends_attempts=True)


@pytest.mark.parametrize("certified", [False, True], ids=["alive", "certified"])
def test_older_attempt_is_ended_before_the_next_one_starts(backend: Backend, certified: bool) -> None:
    async def scene(cluster: ContractCluster) -> None:
        if certified:
            hold = await start_attempt(cluster)
            await hold.release(Outcome(Ending.LOST, "the machine was shut down"), None)
            await cluster.run_passes_until_idle()
        else:
            await lose_lease(cluster)
        assert (await cluster.state()).attempt == 2
        other = AttemptId(JobId("j2"), Attempt(1), "z")
        attempts = RecordedAttempts(FIRST, other)
        await make_executor(cluster, attempts).run_pass(cluster.client)
        assert attempts.actions == (["start 2"] if certified else ["kill runner 1", "kill tree x", "start 2"])
        assert (await cluster.report()).dead
        assert other in attempts.open

    run_scene(backend, scene)


def test_next_attempt_does_not_start_while_an_older_one_survives(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await lose_lease(cluster)
        attempts = RecordedAttempts(FIRST)
        attempts.survives = True
        executor = make_executor(cluster, attempts)
        await executor.run_pass(cluster.client)
        assert attempts.actions == ["kill runner 1"]
        attempts.survives = False
        await executor.run_pass(cluster.client)
        assert attempts.actions[1:] == ["kill runner 1", "kill tree x", "start 2"]

    run_scene(backend, scene)


async def lose_node(cluster: ContractCluster, *, failsafe: tuple[NodeId, ...] = (N1, N2)) -> None:
    """Start the first attempt on n1, and let the leader see its lease and its node gone for long enough."""
    await register_node(cluster.client, cluster.paths, N2, 1, ends_attempts=True)
    hold = await start_attempt(cluster)
    assert await hold.send_heartbeat(driver_pid=7, progress=None, failsafe=failsafe)
    await hold._client.close()
    node = cluster.paths.node(N1)
    await cluster.client.commit([Delete(node, (await cluster.client.get(node)).stat.version)])
    cluster.leader.observer.mark_job_stale(JOB)
    await cluster.run_passes_until_idle()
    await cluster.backend.advance(MARGIN_S + 0.1)
    await cluster.run_passes_until_idle()


def test_node_of_the_failsafe_set_certifies_an_attempt_of_a_lost_node_once_its_promise_has_run_out(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await lose_node(cluster)
        state = await cluster.state()
        assert (state.phase, state.attempt, state.node) == (Phase.RUNNING, 1, N2)
        assert state.reason == "waiting for n2 to confirm that attempt 1 has ended, because its node n1 is gone"
        attempts, promises = RecordedAttempts(), PromiseStub(remaining_s=3.0)
        executor = make_executor(cluster, attempts, promises, node=N2)
        await executor.run_pass(cluster.client)
        assert promises.refused == {JOB: 1}, "the promise is not renewed any more"
        assert not (await cluster.report()).dead
        promises.left_s = 0.0
        await executor.run_pass(cluster.client)
        assert attempts.actions == [], "there is nothing to kill on this node"
        report = await cluster.report()
        assert report.dead and report.outcome is not None and report.outcome.ending is Ending.LOST
        assert report.expired_on == N2
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).attempt == 2

    run_scene(backend, scene, ends_attempts=True)


def test_cancel_is_not_complete_before_the_promises_for_the_attempt_of_a_lost_node_have_run_out(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await lose_node(cluster)
        await set_desired(cluster.client, cluster.paths, JOB, Desired.CANCEL)
        await cluster.run_passes_until_idle()
        assert not (await cluster.state()).phase.final
        promises = PromiseStub(remaining_s=3.0)
        executor = make_executor(cluster, RecordedAttempts(), promises, node=N2)
        await executor.run_pass(cluster.client)
        promises.left_s = 0.0
        await executor.run_pass(cluster.client)
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).phase is Phase.CANCELLED

    run_scene(backend, scene, ends_attempts=True)


def test_attempt_that_takes_its_lease_again_is_not_certified_and_keeps_its_promises(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await lose_node(cluster)
        promises = PromiseStub(remaining_s=3.0)
        executor = make_executor(cluster, RecordedAttempts(), promises, node=N2)
        await executor.run_pass(cluster.client)
        assert promises.refused
        lease, report = cluster.paths.job(JOB, "lease"), await cluster.client.get(cluster.paths.job(JOB, "report"))
        await cluster.client.commit(
            [Create(lease, b"", ephemeral=True), SetData(cluster.paths.job(JOB, "report"), report.data, report.stat.version)]
        )
        promises.left_s = 0.0
        await executor.run_pass(cluster.client)
        assert not (await cluster.report()).dead
        assert promises.refused == {}

    run_scene(backend, scene, ends_attempts=True)


def test_attempt_that_held_its_lease_again_after_the_order_gets_a_whole_promise_period(backend: Backend) -> None:
    """The leader's margin was about the earlier loss: the runner may have lost the new lease a moment ago."""

    async def scene(cluster: ContractCluster) -> None:
        await lose_node(cluster)
        path = cluster.paths.job(JOB, "report")
        report = await cluster.client.get(path)
        await cluster.client.commit([SetData(path, report.data, report.stat.version)])
        promises = PromiseStub()
        promises.period_s = 3600.0
        executor = make_executor(cluster, RecordedAttempts(), promises, node=N2)
        await executor.run_pass(cluster.client)
        assert not (await cluster.report()).dead
        assert promises.refused == {JOB: 1}
        promises.period_s = 0.0
        await executor.run_pass(cluster.client)
        assert (await cluster.report()).dead

    run_scene(backend, scene, ends_attempts=True)


def test_node_that_returns_kills_its_attempt_although_another_node_has_certified_the_death(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await lose_node(cluster)
        await make_executor(cluster, RecordedAttempts(), node=N2).run_pass(cluster.client)
        assert (await cluster.report()).expired_on == N2
        node = cluster.paths.node(N2)
        await cluster.client.commit([Delete(node, (await cluster.client.get(node)).stat.version)])
        await register_node(cluster.client, cluster.paths, N1, 1, ends_attempts=True)
        await cluster.run_passes_until_idle()
        assert ((await cluster.state()).attempt, (await cluster.state()).node) == (2, N1)
        attempts = RecordedAttempts(FIRST)
        await make_executor(cluster, attempts).run_pass(cluster.client)
        assert attempts.actions == ["kill runner 1", "kill tree x", "start 2"]

    run_scene(backend, scene, ends_attempts=True)


def test_node_outside_of_the_failsafe_set_certifies_nothing(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await lose_node(cluster)
        promises = PromiseStub()
        znode = await cluster.client.get(cluster.paths.job(JOB, "report"))
        other = encode(replace(await cluster.report(), failsafe=(N1, NodeId("n3"))))
        await cluster.client.commit([SetData(cluster.paths.job(JOB, "report"), other, znode.stat.version)])
        await make_executor(cluster, RecordedAttempts(), promises, node=N2).run_pass(cluster.client)
        assert not (await cluster.report()).dead
        assert promises.refused == {}

    run_scene(backend, scene, ends_attempts=True)
