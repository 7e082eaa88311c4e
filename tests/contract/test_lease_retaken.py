"""Lease that a new session takes again for the same attempt, on a simulated and on a real ZooKeeper."""

from dataclasses import replace

import pytest

from holdfast.errors import OutcomeUnknown, SessionEnded, Unavailable
from holdfast.leader.transactions import TransactionBuilder
from holdfast.model.codec import encode
from holdfast.model.identifiers import Attempt, Epoch, NodeId
from holdfast.model.job import Desired, Ending, Outcome, Progress, Report
from holdfast.model.phase import Phase
from holdfast.plan import UpdateState
from holdfast.runner.lease import AttemptAssignment, LeaseHolder, LeaseLost
from holdfast.zk.leadership.write_outcome import WriteConflict
from holdfast.zk.records.submission import set_desired, submit
from holdfast.zk.session.client import Client, SetData
from tests.contract.backends import Backend, open_session, wait_for
from tests.contract.leader_scene import JOB, MARGIN_S, ContractCluster, run_scene
from tests.contract.new_cluster import SPEC

PROGRESS = Progress(batch_id=7)


async def start_first_attempt(cluster: ContractCluster) -> tuple[LeaseHolder, Client]:
    """Run the first attempt with the lease in a session of its own. Return the lease and the client of that session."""
    await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
    await cluster.run_passes_until_idle()
    client = await open_session(cluster.backend)
    holder = LeaseHolder(client, cluster.paths, AttemptAssignment(JOB, Attempt(1), NodeId("n1"), "x"))
    await holder.take(started_at=1.0, failsafe=(NodeId("n1"),))
    assert await holder.send_heartbeat(driver_pid=7, progress=PROGRESS, failsafe=(NodeId("n1"),))
    await cluster.run_passes_until_idle()
    return holder, client


async def expire_lease(cluster: ContractCluster, client: Client) -> None:
    await cluster.backend.expire(client)
    await cluster.client.sync(cluster.paths.job(JOB, "lease"))
    assert await cluster.client.exists(cluster.paths.job(JOB, "lease")) is None


async def write_report(cluster: ContractCluster, report: Report) -> None:
    path = cluster.paths.job(JOB, "report")
    version = (await cluster.client.get(path)).stat.version
    await cluster.client.commit([SetData(path, encode(report), version)])


def test_new_session_takes_the_lease_of_the_same_attempt_again(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        holder, client = await start_first_attempt(cluster)
        state, report = await cluster.state(), await cluster.report()
        lease = await cluster.client.get(cluster.paths.job(JOB, "lease"))
        await expire_lease(cluster, client)
        second = await open_session(backend)
        assert await holder.retake(second)
        retaken = await cluster.client.get(cluster.paths.job(JOB, "lease"))
        assert second.session is not None
        assert (retaken.stat.ephemeral_owner, retaken.data) == (second.session.id, lease.data)
        assert await cluster.report() == report
        for _ in range(2):
            assert await holder.send_heartbeat(driver_pid=7, progress=PROGRESS, failsafe=(NodeId("n1"),))
        await cluster.run_passes_until_idle()
        assert await cluster.state() == state
        await holder.release(Outcome(Ending.FINISHED, "the script ended"), None)
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).phase is Phase.FINISHED

    run_scene(backend, scene)


def test_lease_that_was_missing_for_less_than_the_margin_changes_no_state(backend: Backend) -> None:
    """The leader sees the lease missing, then taken again, and later missing again: the margin begins anew each time."""

    async def scene(cluster: ContractCluster) -> None:
        holder, client = await start_first_attempt(cluster)
        before = await cluster.state()
        for _ in range(3):
            await expire_lease(cluster, client)
            await cluster.run_passes_until_idle()
            client = await open_session(backend)
            assert await holder.retake(client)
            await cluster.run_passes_until_idle()
            await backend.advance(MARGIN_S)
        assert await cluster.state() == before

    run_scene(backend, scene)


def test_lease_is_not_taken_again_after_the_next_attempt_was_assigned(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        holder, client = await start_first_attempt(cluster)
        await expire_lease(cluster, client)
        await cluster.run_passes_until_idle()
        await backend.advance(MARGIN_S + 0.1)
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).attempt == 2
        with pytest.raises(LeaseLost, match="the newest is 2"):
            await holder.retake(await open_session(backend))

    run_scene(backend, scene)


@pytest.mark.parametrize(
    "change",
    [{"dead": True}, {"outcome": Outcome(Ending.LOST, "its runner was killed")}, {"nonce": "y"}, {"attempt": Attempt(2)}],
    ids=["certified-dead", "with-outcome", "other-nonce", "other-attempt"],
)
def test_lease_is_not_taken_again_if_the_report_does_not_name_a_live_attempt(
    backend: Backend, change: dict[str, object]
) -> None:
    async def scene(cluster: ContractCluster) -> None:
        holder, client = await start_first_attempt(cluster)
        await expire_lease(cluster, client)
        await write_report(cluster, replace(await cluster.report(), **change))  # type: ignore[arg-type]  # any fields
        with pytest.raises(LeaseLost, match="the report"):
            await holder.retake(await open_session(backend))
        assert await cluster.client.exists(cluster.paths.job(JOB, "lease")) is None

    run_scene(backend, scene)


def test_lease_is_not_taken_again_while_the_old_one_exists(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        holder, client = await start_first_attempt(cluster)
        wakes: list[None] = []
        second = await open_session(backend, lambda: wakes.append(None))
        assert not await holder.retake(second)
        wakes.clear()
        await expire_lease(cluster, client)
        await wait_for(lambda: bool(wakes), what="the end of the old lease wakes the runner")
        assert await holder.retake(second)

    run_scene(backend, scene)


def test_lease_that_was_taken_again_with_a_lost_reply_is_recognized(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        holder, client = await start_first_attempt(cluster)
        await expire_lease(cluster, client)
        second = await open_session(backend)
        operations_sent: list[object] = []

        class LosesReply:
            """Client that commits the transaction and reports a lost reply."""

            def __getattr__(self, name: str) -> object:
                return getattr(second, name)

            async def commit(self, operations: list[object]) -> object:
                operations_sent.append(await second.commit(operations))  # type: ignore[arg-type]  # forwarded unchanged
                raise OutcomeUnknown("the reply was lost")

        with pytest.raises(OutcomeUnknown):
            await holder.retake(LosesReply())  # type: ignore[arg-type]  # stands for a client
        with pytest.raises((SessionEnded, Unavailable)):
            await holder.send_heartbeat(driver_pid=7, progress=PROGRESS, failsafe=(NodeId("n1"),))
        assert await holder.retake(second)
        assert len(operations_sent) == 1
        assert await holder.send_heartbeat(driver_pid=7, progress=PROGRESS, failsafe=())

    run_scene(backend, scene)


def test_decision_from_the_missing_lease_conflicts_after_the_lease_is_taken_again(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        holder, client = await start_first_attempt(cluster)
        await expire_lease(cluster, client)
        await cluster.run_passes_until_idle()  # this leader has now seen that the lease is missing
        lost = (await cluster.state()).transition_to(Phase.PENDING, "the lease is gone", wall=2.0, epoch=Epoch(0))
        builder = TransactionBuilder(cluster.leader.observer, cluster.paths, Epoch(0), wall=2.0)
        operations = builder.build(UpdateState(JOB, lost))
        assert await holder.retake(await open_session(backend))
        outcome = await cluster.leader._leadership.commit(operations)
        assert isinstance(outcome, WriteConflict) and outcome.path.endswith("/report")
        assert (await cluster.state()).phase is Phase.RUNNING

    run_scene(backend, scene)


def test_lease_of_a_cancelled_job_is_taken_again_so_that_its_runner_reads_the_request(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        holder, client = await start_first_attempt(cluster)
        await expire_lease(cluster, client)
        await set_desired(cluster.client, cluster.paths, JOB, Desired.CANCEL)
        assert await holder.retake(await open_session(backend))
        await holder.release(Outcome(Ending.STOPPED, "a user cancelled the job"), None)
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).phase is Phase.CANCELLED

    run_scene(backend, scene)
