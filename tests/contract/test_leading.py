"""Leader and leases, on a simulated and on a real ZooKeeper: decisions, and fencing of outdated writes."""

import json

import pytest

from holdfast.leader.garbage_collector import BACKLOG_INTERVAL_S, RECORDS_INTERVAL_S, RECORDS_PER_ROUND_MAX
from holdfast.leader.transactions import TransactionBuilder
from holdfast.model.codec import encode
from holdfast.model.identifiers import Epoch, JobId, NodeId
from holdfast.model.job import Desired, Ending, JobState, Outcome, Spec
from holdfast.model.phase import Phase
from holdfast.plan import UpdateState
from holdfast.plan.retention import RetentionPolicy
from holdfast.runner.lease import LeaseLost, LeaseRefused
from holdfast.zk.leadership.write_outcome import WriteConflict
from holdfast.zk.records.submission import NameRecord, set_desired, submit
from holdfast.zk.session.client import ANY_PATH, Create, Delete, NoNode, SetData
from tests.contract.backends import Backend
from tests.contract.leader_scene import JOB, MARGIN_S, ContractCluster, run_scene, start_attempt
from tests.contract.new_cluster import SPEC


def test_job_is_assigned_to_a_node_and_runs_when_its_lease_is_taken(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        await cluster.run_passes_until_idle()
        state = await cluster.state()
        assert (state.phase, state.attempt, state.node) == (Phase.STARTING, 1, "n1")
        order = json.loads((await cluster.client.get(cluster.paths.order(NodeId("n1"), JOB))).data)
        assert (order["job"], order["attempt"]) == (JOB, 1)
        hold = await cluster.open_lease(1)
        await hold.take(started_at=1.0, failsafe=())
        await cluster.run_passes_until_idle()
        assert await hold.send_heartbeat(driver_pid=7, progress=None, failsafe=())
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).phase is Phase.RUNNING

    run_scene(backend, scene)


def test_finished_job_releases_its_name_and_order_in_the_same_transaction(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        await hold.release(Outcome(Ending.FINISHED, "the script ended"), None)
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).phase is Phase.FINISHED
        assert await cluster.client.exists(cluster.paths.name("words")) is None
        assert await cluster.client.exists(cluster.paths.order(NodeId("n1"), JOB)) is None
        await submit(cluster.client, cluster.paths, SPEC, job=JobId("j2"), request="r2")

    run_scene(backend, scene)


def test_attempt_number_cannot_run_twice(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        second = await cluster.open_lease(1, "y")
        with pytest.raises(LeaseRefused, match="has run already"):
            await second.take(started_at=2.0, failsafe=())
        await hold.release(Outcome(Ending.FAILED, "the script failed"), None)
        with pytest.raises(LeaseRefused, match="has run already"):
            await second.take(started_at=2.0, failsafe=())

    run_scene(backend, scene)


def test_superseded_attempt_cannot_take_the_lease(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        await cluster.run_passes_until_idle()
        late = await cluster.open_lease(1)
        await cluster.client.commit([SetData(cluster.paths.job(JOB, "attempt"), b"", 1)])
        with pytest.raises(LeaseRefused, match="is over"):
            await late.take(started_at=1.0, failsafe=())

    run_scene(backend, scene)


def test_attempt_of_a_cancelled_job_cannot_take_the_lease(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        await cluster.run_passes_until_idle()
        await set_desired(cluster.client, cluster.paths, JOB, Desired.CANCEL)
        hold = await cluster.open_lease(1)
        with pytest.raises(LeaseRefused, match="should not run any more"):
            await hold.take(started_at=1.0, failsafe=())

    run_scene(backend, scene)


def test_next_attempt_after_a_lost_lease_starts_only_after_the_margin(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        await hold._client.close()
        await cluster.client.sync(cluster.paths.jobs)
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).attempt == 1
        await cluster.backend.advance(MARGIN_S + 0.1)
        await cluster.run_passes_until_idle()
        state = await cluster.state()
        assert (state.phase, state.attempt, state.restarts) == (Phase.STARTING, 2, 1)

    run_scene(backend, scene)


def test_next_attempt_starts_at_once_after_a_death_certificate(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        await hold.release(Outcome(Ending.LOST, "the machine was shut down"), None)
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).attempt == 2

    run_scene(backend, scene)


def test_decision_from_a_missing_lease_conflicts_if_the_lease_was_taken_since(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        await cluster.run_passes_until_idle()
        await cluster.leader.observer.refresh()  # the observer sees that there is no lease
        hold = await cluster.open_lease(1)
        await hold.take(started_at=1.0, failsafe=())
        await set_desired(cluster.client, cluster.paths, JOB, Desired.RUN)
        observation = cluster.leader.observer.observation(JOB)
        assert observation is not None and isinstance(observation.view.state, JobState)
        next_state = observation.view.state.transition_to(Phase.PENDING, "never started", wall=0.0, epoch=Epoch(0))
        operations = TransactionBuilder(cluster.leader.observer, cluster.paths, Epoch(0), wall=0.0).build(
            UpdateState(JOB, next_state)
        )
        outcome = await cluster.leader._leadership.commit(operations)
        assert isinstance(outcome, WriteConflict) and outcome.path.endswith("/report")

    run_scene(backend, scene)


def test_heartbeat_survives_an_overwritten_lease_and_detects_a_deleted_lease(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        path = cluster.paths.job(JOB, "lease")
        await cluster.client.commit([SetData(path, b"noise", 1)])
        assert not await hold.send_heartbeat(driver_pid=1, progress=None, failsafe=())
        assert await hold.send_heartbeat(driver_pid=1, progress=None, failsafe=())
        await cluster.client.sync(path)
        version = (await cluster.client.get(path)).stat.version
        await cluster.client.commit([Delete(path, version)])
        with pytest.raises(LeaseLost):
            await hold.send_heartbeat(driver_pid=1, progress=None, failsafe=())

    run_scene(backend, scene)


def test_heartbeat_writes_the_report_only_when_the_failsafe_set_changes(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        version = (await cluster.client.get(cluster.paths.job(JOB, "report"))).stat.version
        for _ in range(3):
            assert await hold.send_heartbeat(driver_pid=1, progress=None, failsafe=(NodeId("n1"),))
        assert (await cluster.report()).failsafe == ("n1",)
        assert (await cluster.client.get(cluster.paths.job(JOB, "report"))).stat.version == version + 1

    run_scene(backend, scene)


@pytest.mark.parametrize("part", ["spec", "desired", "state", "report"])
def test_malformed_part_quarantines_only_that_job_and_keeps_the_bytes(backend: Backend, part: str) -> None:
    async def scene(cluster: ContractCluster) -> None:
        client, paths = cluster.client, cluster.paths
        await submit(client, paths, SPEC, job=JOB, request="r1")
        await submit(client, paths, Spec(name="other", script="o.py", blob="1" * 64), job=JobId("j2"), request="r2")
        path = paths.job(JOB, part)
        version = (await client.get(path)).stat.version
        await client.commit([SetData(path, b"\xff\x00 noise", version)])
        await cluster.run_passes_until_idle()
        record = json.loads((await client.get(paths.quarantine_entry(JOB))).data)
        assert record["part"] == part and record["original"] == "/wAgbm9pc2U="
        state = await cluster.state()
        assert state.phase is Phase.QUARANTINED and f"its {part} cannot be read" in state.reason
        assert (await cluster.state(JobId("j2"))).phase is Phase.STARTING

    run_scene(backend, scene)


def test_malformed_state_of_a_running_job_is_rebuilt_from_the_lease(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await start_attempt(cluster)
        path = cluster.paths.job(JOB, "state")
        await cluster.client.commit([SetData(path, b"noise", (await cluster.client.get(path)).stat.version)])
        await cluster.run_passes_until_idle()
        state = await cluster.state()
        assert (state.phase, state.attempt, state.node) == (Phase.RUNNING, 1, "n1")

    run_scene(backend, scene)


def test_cancelled_job_whose_znodes_were_restored_by_hand_does_not_run(backend: Backend) -> None:
    """Regression test for incident 001."""

    async def scene(cluster: ContractCluster) -> None:
        client, paths = cluster.client, cluster.paths
        hold = await start_attempt(cluster)
        backup = {
            part: (await client.get(paths.job(JOB, part))).data for part in ("spec", "desired", "report", "state", "attempt")
        }
        await set_desired(client, paths, JOB, Desired.CANCEL)
        await hold.release(Outcome(Ending.STOPPED, "a user cancelled the job"), None)
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).phase is Phase.CANCELLED
        await client.sync(paths.jobs)
        for part in backup:
            path = paths.job(JOB, part)
            await client.commit([Delete(path, (await client.get(path)).stat.version)])
        await client.commit([Create(paths.job(JOB, part), data) for part, data in backup.items()])
        cluster.leader = cluster.new_leader()
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).phase is Phase.QUARANTINED
        await client.commit([Create(paths.name("words"), name_record_of_job())])
        await client.commit([Delete(paths.quarantine_entry(JOB), 0)])
        cluster.leader = cluster.new_leader()
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).attempt == 1
        with pytest.raises(NoNode):
            await client.get(paths.order(NodeId("n1"), JOB))

    run_scene(backend, scene)


def name_record_of_job() -> bytes:
    return encode(NameRecord(JOB))


def test_job_without_free_slots_waits_with_that_reason_and_writes_nothing_more(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await start_attempt(cluster)
        big = Spec(name="big", script="b.py", blob="1" * 64, slots=4)
        await submit(cluster.client, cluster.paths, big, job=JobId("j2"), request="r2")
        await cluster.run_passes_until_idle()
        before = await cluster.client.get(cluster.paths.job(JobId("j2"), "state"))
        assert "no node has that many free" in (await cluster.state(JobId("j2"))).reason
        for _ in range(5):
            cluster.leader.mark_changed({""})
            await cluster.run_passes_until_idle()
        assert (await cluster.client.get(cluster.paths.job(JobId("j2"), "state"))).stat == before.stat

    run_scene(backend, scene)


def test_leader_of_an_older_epoch_changes_nothing(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        await cluster.leader.observer.refresh()
        await cluster.client.commit([SetData(cluster.paths.epoch, b"", 0)])
        await cluster.leader.run_pass()
        assert cluster.leader.lost_reason is not None
        assert (await cluster.state()).phase is Phase.PENDING

    run_scene(backend, scene)


def test_expired_job_is_deleted_with_its_request_and_nothing_else(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        client, paths = cluster.client, cluster.paths
        hold = await start_attempt(cluster)
        other = Spec(name="other", script="o.py", blob="1" * 64)
        await submit(client, paths, other, job=JobId("j2"), request="r2")
        await hold.release(Outcome(Ending.FINISHED, "the script ended"), None)
        await cluster.run_passes_until_idle()
        collector = cluster.leader._get_garbage_collector()
        collector._retention = RetentionPolicy(ended_max=0)
        collector._records_at = 0.0
        await collector.collect_if_due()
        await client.sync(paths.jobs)
        assert await client.children(paths.jobs) == ["j2"]
        assert await client.children(paths.requests) == ["r2"]
        assert await client.children(paths.names) == ["other"]

    run_scene(backend, scene)


def test_backlog_of_expired_jobs_is_deleted_in_rounds_without_long_pauses(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        client, paths = cluster.client, cluster.paths
        for number in range(RECORDS_PER_ROUND_MAX + 5):
            spec = Spec(name=f"job-{number}", script="o.py", blob="1" * 64)
            await submit(client, paths, spec, job=JobId(f"j{number}"), request=f"r{number}")
            await set_desired(client, paths, JobId(f"j{number}"), Desired.CANCEL)
        await cluster.run_passes_until_idle()
        collector = cluster.leader._get_garbage_collector()
        collector._retention = RetentionPolicy(ended_max=0)
        for left, pause_s in ((5, BACKLOG_INTERVAL_S), (0, RECORDS_INTERVAL_S)):
            collector._records_at = 0.0
            before = cluster.leader._clock.boottime()
            await collector.collect_if_due()
            assert before + pause_s <= collector._records_at <= cluster.leader._clock.boottime() + pause_s
            collector._records_at = float("inf")  # on a slow machine the next round would be due during the passes
            await cluster.run_passes_until_idle()
            jobs: list[str] = await client.children(paths.jobs)
            assert len(jobs) == left

    run_scene(backend, scene)


def test_ended_job_with_a_lease_is_not_deleted(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        client, paths = cluster.client, cluster.paths
        hold = await start_attempt(cluster)
        await hold.release(Outcome(Ending.FINISHED, "the script ended"), None)
        await cluster.run_passes_until_idle()
        await client.commit([Create(paths.job(JOB, "lease"), b"noise", ephemeral=True)])
        collector = cluster.leader._get_garbage_collector()
        collector._retention = RetentionPolicy(ended_max=0)
        collector._records_at = 0.0
        await collector.collect_if_due()
        assert await client.children(paths.jobs) == [JOB]

    run_scene(backend, scene)


def test_reconnection_reads_only_jobs_that_can_have_changed(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        await hold.release(Outcome(Ending.FINISHED, "the script ended"), None)
        await cluster.run_passes_until_idle()
        await submit(cluster.client, cluster.paths, SPEC, job=JobId("j2"), request="r2")
        await cluster.run_passes_until_idle()
        observer = cluster.leader.observer
        assert JOB in observer.ended_at
        waiting, jobs_read = observer.observation(JobId("j2")), observer.jobs_read
        observer.mark_changed([ANY_PATH])
        await observer.refresh()
        assert JOB in observer.ended_at and observer.jobs_read == jobs_read + 1
        assert observer.observation(JobId("j2")) is not waiting
        for part in await cluster.client.children(cluster.paths.job(JOB)):
            path = cluster.paths.job(JOB, part)
            await cluster.client.commit([Delete(path, (await cluster.client.get(path)).stat.version)])
        await cluster.client.commit([Delete(cluster.paths.job(JOB), 0)])
        observer.mark_changed([ANY_PATH])
        await observer.refresh()
        assert JOB not in observer.ended_at

    run_scene(backend, scene)
