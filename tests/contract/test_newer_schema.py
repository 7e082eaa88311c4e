"""Records of a newer schema, on a simulated and on a real ZooKeeper: one job is set aside, and all others are managed."""

import json
from dataclasses import replace

import pytest

from holdfast.leader.loop import Leader, LeaderTiming
from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import SCHEMA, NewerSchema, encode
from holdfast.model.identifiers import Attempt, Epoch, JobId, NodeId
from holdfast.model.job import Desired, Outcome
from holdfast.model.phase import Phase
from holdfast.node.attempts import AttemptId
from holdfast.node.order_executor import OrderExecutor
from holdfast.runner.failsafe_nodes import FailsafeNodes, read_addresses
from holdfast.runner.lease import AttemptAssignment, LeaseHolder, LeaseRefused
from holdfast.zk.leadership.leadership import Leadership
from holdfast.zk.records.announced_schemas import read_schema_for_writing
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.submission import set_desired, submit
from holdfast.zk.records.upgrade import upgrade
from holdfast.zk.session.client import Client, Create, Delete, SetData
from holdfast.zk.session.timing import SteadyContact
from tests.contract.backends import Backend, open_session
from tests.contract.leader_scene import JOB, ContractCluster, ErrorRaisingLog, LoopClock, run_scene, start_attempt
from tests.contract.new_cluster import SPEC, connect_to_new_cluster
from tests.harness.promise_stub import PromiseStub

OTHER = JobId("j2")
OTHER_SPEC = replace(SPEC, name="other")


class RecordingLog(ErrorRaisingLog):
    """Log that keeps the warnings."""

    def __init__(self) -> None:
        self.warnings: list[tuple[str, dict[str, object]]] = []

    def warning(self, *event: object, **context: object) -> None:
        self.warnings.append((str(event[0]), context))


async def write_newer_schema(client: Client, path: str) -> bytes:
    """Change the schema of a record to one that this version does not read, and return the new bytes."""
    znode = await client.get(path)
    data = json.dumps({**(json.loads(znode.data) if znode.data else {}), "schema": SCHEMA + 1}).encode()
    await client.commit([SetData(path, data, znode.stat.version)])
    return data


async def read_subtree(client: Client, path: str) -> dict[str, bytes]:
    found = {path: (await client.get(path)).data}
    for name in await client.children(path):
        found |= await read_subtree(client, f"{path}/{name}")
    return found


@pytest.mark.parametrize("part", ["state", "spec", "desired", "report", "name"])
def test_job_of_a_newer_schema_is_set_aside_and_the_other_jobs_are_managed(backend: Backend, part: str) -> None:
    async def scene(cluster: ContractCluster) -> None:
        client, paths = cluster.client, cluster.paths
        await submit(client, paths, SPEC, job=JOB, request="r1")
        await cluster.run_passes_until_idle()
        await write_newer_schema(client, paths.name(SPEC.name) if part == "name" else paths.job(JOB, part))
        before = [await read_subtree(client, path) for path in (paths.job(JOB), paths.orders, paths.names)]
        await cluster.run_passes_until_idle()
        await submit(client, paths, OTHER_SPEC, job=OTHER, request="r2")
        await cluster.run_passes_until_idle()
        assert (await cluster.state(OTHER)).phase is Phase.STARTING
        after = [await read_subtree(client, path) for path in (paths.job(JOB), paths.orders, paths.names)]
        for old, new in zip(before, after, strict=True):
            assert {path: new[path] for path in old} == old
        assert await client.children(paths.quarantine) == []

    run_scene(backend, scene)


def test_job_is_managed_again_when_its_record_becomes_readable(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        path = cluster.paths.job(JOB, "desired")
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        original = await cluster.client.get(path)
        await write_newer_schema(cluster.client, path)
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).phase is Phase.PENDING
        await cluster.client.commit([SetData(path, original.data, 1)])
        await cluster.run_passes_until_idle()
        assert (await cluster.state()).phase is Phase.STARTING

    run_scene(backend, scene)


def test_leader_logs_a_job_that_is_set_aside_once(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        log = RecordingLog()
        leadership = Leadership(cluster.client, cluster.paths, node=NodeId("n1"), epoch=Epoch(0), contender="c-x-0000000000")
        timing = LeaderTiming(0.2, start_s=60.0)
        contact = SteadyContact(gap_s_max=3600.0)
        leader = Leader(cluster.client, cluster.paths, leadership, clock=LoopClock(), timing=timing, contact=contact, log=log)
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        await write_newer_schema(cluster.client, cluster.paths.job(JOB, "spec"))
        for _ in range(3):
            await cluster.client.sync(cluster.paths.jobs)
            leader.mark_changed({""})
            await leader.run_pass()
        ((event, context),) = log.warnings
        assert (event, context["job"]) == ("job set aside", JOB)
        assert f"the job's spec was written by a later Holdfast (schema {SCHEMA + 1})" in str(context["reason"])

    run_scene(backend, scene)


def test_attempt_that_is_alive_continues_while_its_job_is_set_aside(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        hold = await start_attempt(cluster)
        await write_newer_schema(cluster.client, cluster.paths.job(JOB, "state"))
        before = await read_subtree(cluster.client, cluster.paths.job(JOB))
        await cluster.run_passes_until_idle()
        assert await read_subtree(cluster.client, cluster.paths.job(JOB)) == before
        assert await hold.send_heartbeat(driver_pid=7, progress=None, failsafe=())

    run_scene(backend, scene)


@pytest.mark.parametrize("part", ["spec", "desired", "report"])
def test_runner_refuses_an_attempt_of_a_newer_schema(backend: Backend, part: str) -> None:
    async def scene(cluster: ContractCluster) -> None:
        await submit(cluster.client, cluster.paths, SPEC, job=JOB, request="r1")
        await cluster.run_passes_until_idle()
        await write_newer_schema(cluster.client, cluster.paths.job(JOB, part))
        hold = await cluster.open_lease(1)
        with pytest.raises((NewerSchema, LeaseRefused), match="was written by a later Holdfast"):
            await hold.take(started_at=1.0, failsafe=())
        assert await cluster.client.exists(cluster.paths.job(JOB, "lease")) is None

    run_scene(backend, scene)


def test_node_of_a_newer_schema_is_registered_but_gets_no_attempts(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        client, paths = cluster.client, cluster.paths
        record = b'{"schema":99,"capacity":{"cpu":64},"newest_schema":99}'
        await client.commit([Create(paths.node(NodeId("n0")), record, ephemeral=True)])
        for number in range(6):
            spec = replace(SPEC, name=f"words{number}")
            await submit(client, paths, spec, job=JobId(f"j{number}"), request=f"r{number}")
        await cluster.run_passes_until_idle()
        placed = [(await cluster.state(JobId(f"j{number}"))).node for number in range(6)]
        assert sorted(map(str, placed)) == ["None", "None", "n1", "n1", "n1", "n1"]
        snapshot = cluster.leader.observer.snapshot(Epoch(0))
        assert sorted(snapshot.nodes) == ["n0", "n1"]
        nodes = FailsafeNodes(paths)
        await nodes.refresh(client)
        assert nodes.names == ("n0", "n1")
        assert (await read_addresses(client, paths, nodes.names))[NodeId("n0")] == ""

    run_scene(backend, scene)


# The schema that is written. Schema 0 stands for the schema of an earlier version.


async def announce(client: Client, paths: Paths, **schemas: int) -> None:
    """Register nodes that announce these schemas, in place of all registered nodes."""
    for name in await client.children(paths.nodes):
        await client.commit([Delete(paths.node(NodeId(name)), 0)])
    for name, schema in schemas.items():
        record = NodeRecord(slots=4, address=f"http://{name}", version="0", newest_schema=schema)
        await client.commit([Create(paths.node(NodeId(name)), encode(record), ephemeral=True)])


class DeadRunner:
    """Attempts of a node whose only runner is dead."""

    def __init__(self, attempt_id: AttemptId) -> None:
        self._open = [attempt_id]

    def list_open(self) -> list[AttemptId]:
        return list(self._open)

    def is_running(self, attempt_id: AttemptId) -> bool:
        return False

    async def spawn(self, attempt_id: AttemptId, versions: object) -> None:
        raise AssertionError("the attempt has run already")

    async def kill_runner(self, attempt_id: AttemptId) -> bool:
        return True

    async def kill_tree(self, attempt_id: AttemptId) -> bool:
        return True

    def read_outcome(self, attempt_id: AttemptId) -> Outcome | None:
        return None

    async def close_session(self, attempt_id: AttemptId) -> bool:
        return True

    def mark_closed(self, attempt_id: AttemptId) -> None:
        self._open.clear()


async def write_every_record(cluster: ContractCluster) -> None:
    """Let each kind of writer write: submission, leader, runner, desired state, upgrade, certificate of a node."""
    client, paths = cluster.client, cluster.paths
    await submit(client, paths, SPEC, job=JOB, request="r1")
    await cluster.run_passes_until_idle()
    runner = await open_session(cluster.backend)
    nodes = FailsafeNodes(paths)
    await nodes.refresh(runner)
    assignment = AttemptAssignment(JOB, Attempt(1), NodeId("n1"), "x")
    hold = LeaseHolder(runner, paths, assignment, schema=lambda: nodes.schema)
    await hold.take(started_at=1.0, failsafe=())
    assert await hold.send_heartbeat(driver_pid=7, progress=None, failsafe=(NodeId("n1"),))
    await upgrade(client, paths, JOB, lambda spec: replace(spec, script="other.py"), trial_s=1.0)
    await set_desired(client, paths, JOB, Desired.RUN, repeat=True)
    await cluster.run_passes_until_idle()
    executor = OrderExecutor(
        paths,
        NodeId("n1"),
        attempts=DeadRunner(AttemptId(JOB, Attempt(1), "x")),
        promises=PromiseStub(),
        nonce=lambda: "y",
        wall=lambda: 1.0,
        log=ErrorRaisingLog(),
    )
    await executor.run_pass(client)
    assert (await cluster.report()).dead


@pytest.mark.parametrize(("announced", "written"), [((0, 1), 0), ((1, 0), 0), ((1, 1), 1), ((1, 2), 1), ((0, 0), 0)])
def test_every_writer_uses_the_lowest_schema_that_a_registered_node_announces(
    backend: Backend, announced: tuple[int, int], written: int
) -> None:
    """A rolling upgrade (1, then 1 and 2) and its rollback, shifted down by one schema."""

    async def scene(cluster: ContractCluster) -> None:
        client, paths = cluster.client, cluster.paths
        await announce(client, paths, n1=announced[0], n2=announced[1])
        await write_every_record(cluster)
        found: dict[str, bytes] = {}
        for path in (paths.jobs, paths.orders, paths.names, paths.requests):
            found |= await read_subtree(client, path)
        schemas = {path.rpartition("/")[2]: json.loads(data)["schema"] for path, data in found.items() if data}
        assert schemas == dict.fromkeys(["words", "r1", "spec", "spec-2", "desired", "state", "lease", "report", JOB], written)

    run_scene(backend, scene)


@pytest.mark.parametrize(
    ("announced", "newest", "written"),
    [((), 2, 1), ((1, 2), 2, 1), ((2, 2), 2, 2), ((2, 2), 1, 1), ((2, 1), 2, 1), ((3, 2), 3, 2)],
)
def test_schema_rises_when_every_node_announces_it_and_falls_on_rollback(
    backend: Backend, announced: tuple[int, ...], newest: int, written: int
) -> None:
    async def test() -> None:
        client, paths = await connect_to_new_cluster(backend)
        await announce(client, paths, **{f"n{number}": schema for number, schema in enumerate(announced)})
        assert await read_schema_for_writing(client, paths, newest=newest) == written

    backend.run(test())


@pytest.mark.parametrize(("record", "written"), [(b"noise", 1), (b'{"schema":2}', 1), (b'{"schema":3,"x":1}', 2)])
def test_unreadable_node_record_never_raises_the_schema(backend: Backend, record: bytes, written: int) -> None:
    async def test() -> None:
        client, paths = await connect_to_new_cluster(backend)
        await announce(client, paths, n1=2)
        await client.commit([Create(paths.node(NodeId("n2")), record, ephemeral=True)])
        assert await read_schema_for_writing(client, paths, newest=2) == written

    backend.run(test())
