"""A leader and runners' leases together, on the simulated and on a real ZooKeeper: what is decided, and what is fenced."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from holdfast.leader.loop import Leader, Pace
from holdfast.model.codec import decode, encode
from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import Desired, Ending, Outcome, Report, Spec, State
from holdfast.model.phase import Phase
from holdfast.plan.retention import Keep
from holdfast.runner.lease import LeaseHold, LeaseLost, NotOurs, Run
from holdfast.zk.leadership.leadership import Reign
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.submission import submit, want
from holdfast.zk.session.client import Client, Create, Delete, NoNode, SetData
from tests.contract.backends import Backend, connected
from tests.contract.founding import SPEC, founded, with_node

JOB = JobId("j1")
MARGIN_S = 0.2


class Silent:
    def info(self, *_: object, **__: object) -> None: ...
    def warning(self, *_: object, **__: object) -> None: ...
    def error(self, event: str, **context: object) -> None:
        raise AssertionError(f"{event}: {context}")


class LoopClock:
    """The backend's own time."""

    def boottime(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return 1_800_000_000.0 + self.boottime()


class Cluster:
    """One node, one leader that is asked to make a pass, and jobs whose runners are played by the test."""

    def __init__(self, backend: Backend, client: Client, paths: Paths) -> None:
        self.backend = backend
        self.client = client
        self.paths = paths
        self.leader = self.new_leader()

    def new_leader(self) -> Leader:
        reign = Reign(self.client, self.paths, node=NodeId("n1"), epoch=Epoch(0), contender="c-x-0000000000")
        return Leader(self.client, self.paths, reign, clock=LoopClock(), pace=Pace(MARGIN_S, start_s=60.0), log=Silent())

    async def passes(self) -> None:
        """Until there is nothing more to do."""
        await self.client.sync(self.paths.jobs)
        self.leader.fired({""})
        for _ in range(10):
            if not await self.leader.one_pass():
                return
        raise AssertionError("the leader finds something to do for ever")

    async def state(self, job: JobId = JOB) -> State:
        return decode(State, (await self.client.get(self.paths.job(job, "state"))).data, where="state")

    async def report(self) -> Report:
        return decode(Report, (await self.client.get(self.paths.job(JOB, "report"))).data, where="report")

    async def runner(self, attempt: int, nonce: str = "x") -> LeaseHold:
        client = await connected(self.backend)
        return LeaseHold(client, self.paths, Run(JOB, Attempt(attempt), NodeId("n1"), nonce))


def play(backend: Backend, scene: Callable[[Cluster], Awaitable[None]], *, slots: int = 4) -> None:
    async def test() -> None:
        client, paths = await founded(backend)
        await with_node(client, paths, "n1", slots)
        await scene(Cluster(backend, client, paths))

    backend.run(test())


async def started(cluster: Cluster, attempt: int = 1) -> LeaseHold:
    if attempt == 1:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
    await cluster.passes()
    hold = await cluster.runner(attempt)
    await hold.take(wall=1.0, failsafe=())
    await cluster.passes()
    return hold


def test_a_job_is_given_to_a_node_and_runs_once_its_lease_is_taken(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        await cluster.passes()
        state = await cluster.state()
        assert (state.phase, state.attempt, state.node) == (Phase.STARTING, 1, "n1")
        order = json.loads((await cluster.client.get(cluster.paths.order(NodeId("n1"), JOB))).data)
        assert (order["job"], order["attempt"]) == (JOB, 1)
        hold = await cluster.runner(1)
        await hold.take(wall=1.0, failsafe=())
        await cluster.passes()
        assert (await cluster.state()).phase is Phase.RUNNING
        assert await hold.beat(driver_pid=7, progress=None, failsafe=())

    play(backend, scene)


def test_a_finished_job_frees_its_name_and_its_order_with_its_last_state(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        hold = await started(cluster)
        await hold.give_back(Outcome(Ending.FINISHED, "it is done"), None)
        await cluster.passes()
        assert (await cluster.state()).phase is Phase.FINISHED
        assert await cluster.client.exists(cluster.paths.name("words")) is None
        assert await cluster.client.exists(cluster.paths.order(NodeId("n1"), JOB)) is None
        await submit(cluster.client, cluster.paths, SPEC, job=JobId("j2"), request="r2")

    play(backend, scene)


def test_no_number_runs_twice(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        hold = await started(cluster)
        second = await cluster.runner(1, "y")
        with pytest.raises(NotOurs, match="has run already"):
            await second.take(wall=2.0, failsafe=())
        await hold.give_back(Outcome(Ending.FAILED, "it failed"), None)
        with pytest.raises(NotOurs, match="has run already"):
            await second.take(wall=2.0, failsafe=())

    play(backend, scene)


def test_an_attempt_that_was_given_up_cannot_take_the_lease(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        await cluster.passes()
        late = await cluster.runner(1)
        await cluster.client.commit([SetData(cluster.paths.job(JOB, "attempt"), b"", 1)])
        with pytest.raises(NotOurs, match="is over"):
            await late.take(wall=1.0, failsafe=())

    play(backend, scene)


def test_what_was_cancelled_cannot_take_the_lease_and_never_runs(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        await cluster.passes()
        await want(cluster.client, cluster.paths, JOB, Desired.CANCEL)
        hold = await cluster.runner(1)
        with pytest.raises(NotOurs, match="not wanted"):
            await hold.take(wall=1.0, failsafe=())

    play(backend, scene)


def test_a_lost_lease_is_followed_by_another_attempt_only_after_the_margin(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        hold = await started(cluster)
        await hold._client.close()
        await cluster.client.sync(cluster.paths.jobs)
        await cluster.passes()
        assert (await cluster.state()).attempt == 1
        await cluster.backend.advance(MARGIN_S + 0.1)
        await cluster.passes()
        state = await cluster.state()
        assert (state.phase, state.attempt, state.restarts) == (Phase.STARTING, 2, 1)

    play(backend, scene)


def test_a_certificate_of_death_saves_the_margin(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        hold = await started(cluster)
        await hold.give_back(Outcome(Ending.LOST, "its machine was shut down"), None)
        await cluster.passes()
        assert (await cluster.state()).attempt == 2

    play(backend, scene)


def test_a_decision_from_a_missing_lease_fails_if_the_lease_was_taken_meanwhile(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        await cluster.passes()
        await cluster.leader.observer.look()  # it has seen that there is no lease
        hold = await cluster.runner(1)
        await hold.take(wall=1.0, failsafe=())
        await want(cluster.client, cluster.paths, JOB, Desired.RUN)
        from holdfast.leader.transactions import Apply
        from holdfast.plan import Settle
        from holdfast.zk.leadership.write_outcome import Conflict

        seen = cluster.leader.observer.sight(JOB)
        assert seen is not None and isinstance(seen.view.state, State)
        verdict = seen.view.state.becoming(Phase.PENDING, "never seen alive", wall=0.0, epoch=Epoch(0))
        operations = Apply(cluster.leader.observer, cluster.paths, Epoch(0), wall=0.0).operations(Settle(JOB, verdict))
        outcome = await cluster.leader._reign.commit(operations)
        assert isinstance(outcome, Conflict) and outcome.path.endswith("/report")

    play(backend, scene)


def test_a_heartbeat_survives_a_strangers_hand_and_notices_a_lost_lease(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        hold = await started(cluster)
        path = cluster.paths.job(JOB, "lease")
        await cluster.client.commit([SetData(path, b"noise", 0)])
        assert not await hold.beat(driver_pid=1, progress=None, failsafe=())
        assert await hold.beat(driver_pid=1, progress=None, failsafe=())
        await cluster.client.sync(path)
        version = (await cluster.client.get(path)).stat.version
        await cluster.client.commit([Delete(path, version)])
        with pytest.raises(LeaseLost):
            await hold.beat(driver_pid=1, progress=None, failsafe=())

    play(backend, scene)


def test_the_failsafe_set_in_the_report_follows_the_heartbeat_and_nothing_else_writes_it(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        hold = await started(cluster)
        version = (await cluster.client.get(cluster.paths.job(JOB, "report"))).stat.version
        for _ in range(3):
            assert await hold.beat(driver_pid=1, progress=None, failsafe=(NodeId("n1"),))
        assert (await cluster.report()).failsafe == ("n1",)
        assert (await cluster.client.get(cluster.paths.job(JOB, "report"))).stat.version == version + 1

    play(backend, scene)


@pytest.mark.parametrize("part", ["spec", "desired", "state", "report"])
def test_noise_in_any_part_sets_that_job_aside_alone_and_keeps_the_bytes(backend: Backend, part: str) -> None:
    async def scene(cluster: Cluster) -> None:
        client, paths = cluster.client, cluster.paths
        await submit(client, paths, SPEC, job=JOB, request="r1")
        await submit(client, paths, Spec(name="other", script="o.py", blob="1" * 64), job=JobId("j2"), request="r2")
        path = paths.job(JOB, part)
        version = (await client.get(path)).stat.version
        await client.commit([SetData(path, b"\xff\x00 noise", version)])
        await cluster.passes()
        record = json.loads((await client.get(paths.quarantined(JOB))).data)
        assert record["part"] == part and record["original"] == "/wAgbm9pc2U="
        state = await cluster.state()
        assert state.phase is Phase.QUARANTINED and f"its {part} cannot be read" in state.reason
        assert (await cluster.state(JobId("j2"))).phase is Phase.STARTING

    play(backend, scene)


def test_a_state_that_was_overwritten_while_the_job_runs_is_made_anew_from_the_lease(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        await started(cluster)
        path = cluster.paths.job(JOB, "state")
        await cluster.client.commit([SetData(path, b"noise", (await cluster.client.get(path)).stat.version)])
        await cluster.passes()
        state = await cluster.state()
        assert (state.phase, state.attempt, state.node) == (Phase.RUNNING, 1, "n1")

    play(backend, scene)


def test_a_cancelled_job_whose_znodes_were_put_back_by_hand_does_not_run(backend: Backend) -> None:
    """Incident 001."""

    async def scene(cluster: Cluster) -> None:
        client, paths = cluster.client, cluster.paths
        hold = await started(cluster)
        kept = {
            part: (await client.get(paths.job(JOB, part))).data for part in ("spec", "desired", "report", "state", "attempt")
        }
        await want(client, paths, JOB, Desired.CANCEL)
        await hold.give_back(Outcome(Ending.STOPPED, "a person cancelled it"), None)
        await cluster.passes()
        assert (await cluster.state()).phase is Phase.CANCELLED
        await client.sync(paths.jobs)
        for part in kept:
            path = paths.job(JOB, part)
            await client.commit([Delete(path, (await client.get(path)).stat.version)])
        await client.commit([Create(paths.job(JOB, part), data) for part, data in kept.items()])
        cluster.leader = cluster.new_leader()
        await cluster.passes()
        assert (await cluster.state()).phase is Phase.QUARANTINED
        await client.commit([Create(paths.name("words"), encode_name())])
        await client.commit([Delete(paths.quarantined(JOB), 0)])
        cluster.leader = cluster.new_leader()
        await cluster.passes()
        assert (await cluster.state()).attempt == 1
        with pytest.raises(NoNode):
            await client.get(paths.order(NodeId("n1"), JOB))

    play(backend, scene)


def encode_name() -> bytes:
    from holdfast.zk.records.submission import NameRecord

    return encode(NameRecord(JOB))


def test_a_job_without_room_waits_with_that_reason_and_its_number_does_not_move(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        await started(cluster)
        big = Spec(name="big", script="b.py", blob="1" * 64, slots=4)
        await submit(cluster.client, cluster.paths, big, job=JobId("j2"), request="r2")
        await cluster.passes()
        before = await cluster.client.get(cluster.paths.job(JobId("j2"), "state"))
        assert "no node has as many free" in (await cluster.state(JobId("j2"))).reason
        for _ in range(5):
            cluster.leader.fired({""})
            await cluster.passes()
        assert (await cluster.client.get(cluster.paths.job(JobId("j2"), "state"))).stat == before.stat

    play(backend, scene)


def test_a_leader_of_an_older_epoch_changes_nothing(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        await cluster.leader.observer.look()
        await cluster.client.commit([SetData(cluster.paths.epoch, b"", 0)])
        await cluster.leader.one_pass()
        assert cluster.leader.lost is not None
        assert (await cluster.state()).phase is Phase.PENDING

    play(backend, scene)


def test_what_ended_is_swept_whole_with_its_request_and_nothing_else(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        client, paths = cluster.client, cluster.paths
        hold = await started(cluster)
        other = Spec(name="other", script="o.py", blob="1" * 64)
        await submit(client, paths, other, job=JobId("j2"), request="r2")
        await hold.give_back(Outcome(Ending.FINISHED, "it is done"), None)
        await cluster.passes()
        sweeper = cluster.leader._swept()
        sweeper._keep = Keep(ended_max=0)
        sweeper._records_at = 0.0
        await sweeper.sweep_if_due()
        await client.sync(paths.jobs)
        assert await client.children(paths.jobs) == ["j2"]
        assert await client.children(paths.requests) == ["r2"]
        assert await client.children(paths.names) == ["other"]

    play(backend, scene)


def test_what_came_back_to_life_by_hand_after_it_ended_is_not_swept(backend: Backend) -> None:
    async def scene(cluster: Cluster) -> None:
        client, paths = cluster.client, cluster.paths
        hold = await started(cluster)
        await hold.give_back(Outcome(Ending.FINISHED, "it is done"), None)
        await cluster.passes()
        await client.commit([Create(paths.job(JOB, "lease"), b"noise", ephemeral=True)])
        sweeper = cluster.leader._swept()
        sweeper._keep = Keep(ended_max=0)
        sweeper._records_at = 0.0
        await sweeper.sweep_if_due()
        assert await client.children(paths.jobs) == [JOB]

    play(backend, scene)
