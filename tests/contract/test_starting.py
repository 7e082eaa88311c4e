"""STARTING lasts until the driver has Spark, on a simulated and on a real ZooKeeper."""

from holdfast.model.codec import encode
from holdfast.model.identifiers import Attempt, NodeId
from holdfast.model.job import Desired, Ending, Lease, Outcome
from holdfast.model.phase import Phase
from holdfast.zk.records.submission import set_desired
from holdfast.zk.session.client import SetData
from tests.contract.backends import Backend
from tests.contract.leader_scene import JOB, ContractCluster, LoopClock, run_scene, start_attempt

NOTE = "offsets/7 was set aside"


async def run_pass_after_watches(cluster: ContractCluster) -> None:
    """Run one pass that reads only changed, watched znodes."""
    await cluster.client.sync(cluster.paths.jobs)
    cluster.leader.mark_changed(cluster.client.take_fired_paths())
    await cluster.leader.run_pass()


def test_job_is_starting_until_its_driver_has_spark_and_a_watch_reports_it(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster, ready=False)
        cluster.client.take_fired_paths()
        for starting, phase in ((True, Phase.STARTING), (False, Phase.RUNNING)):
            assert await hold.send_heartbeat(driver_pid=7, progress=None, failsafe=(), starting=starting)
            await run_pass_after_watches(cluster)
            assert (await cluster.state()).phase is phase
        events = (await cluster.state()).events
        assert [(event.phase, event.reason) for event in events] == [
            (Phase.STARTING, "attempt 1 was assigned to n1"),
            (Phase.RUNNING, "attempt 1 runs on n1"),
        ]

    run_scene(backend, scene)


def test_note_of_a_starting_attempt_becomes_one_event(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster, ready=False)
        cluster.client.take_fired_paths()
        for _ in range(2):
            assert await hold.send_heartbeat(driver_pid=7, progress=None, failsafe=(), note=NOTE, starting=True)
            await run_pass_after_watches(cluster)
        state = await cluster.state()
        assert (state.phase, state.reason) == (Phase.STARTING, f"attempt 1 starts on n1; {NOTE}")
        assert len(state.events) == 2

    run_scene(backend, scene)


def test_lease_of_an_earlier_release_counts_as_running(backend: Backend) -> None:
    """A runner of an earlier release writes a lease without the field."""

    async def scene(cluster: ContractCluster) -> None:
        await start_attempt(cluster, ready=False)
        lease = encode(Lease(Attempt(1), NodeId("n1"), nonce="x")).replace(b',"starting":false', b"")
        assert b"starting" not in lease
        await cluster.client.commit([SetData(cluster.paths.job(JOB, "lease"), lease, 0)])
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).phase is Phase.RUNNING

    run_scene(backend, scene)


def test_starting_attempt_is_stopped_cancelled_and_never_overlapped(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster, ready=False)
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).attempt == 1, "no other attempt starts, however long this one takes"
        await set_desired(cluster.client, cluster.paths, JOB, Desired.STOP)
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).phase is Phase.STOPPING
        await hold.release(Outcome(Ending.STOPPED, "stopped"), None)
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).phase is Phase.PARKED

    run_scene(backend, scene)


def test_failure_of_a_starting_attempt_is_the_reason_that_the_next_one_follows(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster, ready=False, started_at=LoopClock().wall())
        await hold.release(Outcome(Ending.FAILED, "KeyError: 'word'"), None)
        await cluster.run_passes_until_idle()
        state = await cluster.state()
        assert state.phase is Phase.BACKOFF
        assert state.last_failure is not None
        assert (state.last_failure.attempt, state.last_failure.reason) == (1, "KeyError: 'word'")
        assert state.failures.without_progress == 1

    run_scene(backend, scene)
