"""Outcome of a finished driver that never reaches ZooKeeper. Runners and drivers are real processes; the test is the leader."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from holdfast import log
from holdfast.model.codec import decode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import INITIAL_VERSIONS, Ending, Order, Outcome, Report, Spec
from holdfast.node.attempts import AttemptId, NodeAttempts
from holdfast.node.expiry_certificate import ExpiryCertifier
from holdfast.runner.lease import AttemptAssignment, LeaseHolder
from holdfast.storage import open_storage
from holdfast.zk.embedded import EmbeddedEnsemble, ServerSettings
from holdfast.zk.records.submission import submit
from holdfast.zk.session.client import Client, SetData
from tests.harness.prepared_cluster import PreparedCluster
from tests.harness.promise_stub import PromiseStub
from tests.harness.tcp_proxy import TcpProxy
from tests.harness.waiting import wait_until_async

pytestmark = [pytest.mark.real, pytest.mark.slow]

TIMEOUT_S = 120.0
JOB, N1, N2 = JobId("j1"), NodeId("n1"), NodeId("n2")
SCRIPT = """
import sys, time
from pathlib import Path

runs, ending = Path(sys.argv[1]), Path(sys.argv[2])
with runs.open("a") as file:
    file.write("run\\n")
while not ending.exists():
    time.sleep(0.05)
sys.exit(ending.read_text() or 0)
"""
CONFIG = """
[cluster]
connect = "127.0.0.1:{port}{root}"
storage = "{storage}"
[node]
id = "n1"
dir = "{directory}"
archives = "off"
[zookeeper]
session_timeout_s = 30.0
"""
"""With this session timeout, a driver has 25 s to end by itself after the test has cut the connection."""


@pytest.fixture(scope="module")
def patient_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEnsemble]:
    """ZooKeeper server with long ticks, which grants session timeouts of up to 40 s."""
    ensemble = EmbeddedEnsemble(tmp_path_factory.mktemp("patient"), size=1, settings=ServerSettings(tick_ms=2000))
    try:
        ensemble.start()
        ensemble.wait_ready(60)
        yield ensemble
    finally:
        ensemble.stop()


class JobScene:
    """A job whose runners connect through a proxy. The test assigns the attempts and plays the other node."""

    def __init__(self, cluster: PreparedCluster, client: Client, proxy: TcpProxy, directory: Path) -> None:
        self.cluster = cluster
        self.client = client
        self.proxy = proxy
        self.directory = directory
        self.runs, self.ending = directory / "runs", directory / "ending"
        config = directory / "node.toml"
        config.write_text(
            CONFIG.format(port=proxy.port, root=cluster.root, storage=cluster.storage, directory=directory / "node")
        )
        self.attempts = NodeAttempts(directory / "node", config, lambda: None)

    async def submit(self) -> None:
        script = self.directory / "script.py"
        script.write_text(SCRIPT)
        blob = open_storage(str(self.cluster.storage)).put(script)
        spec = Spec("once", "script.py", blob, arguments=(str(self.runs), str(self.ending)))
        await submit(self.client, self.cluster.paths, spec, job=JOB, request="r1")

    async def assign(self, attempt: int) -> AttemptId:
        await self.client.commit([SetData(self.cluster.paths.job(JOB, "attempt"), b"", attempt - 1)])
        return AttemptId(JOB, Attempt(attempt), f"nonce-{attempt}")

    async def report(self) -> Report:
        path = self.cluster.paths.job(JOB, "report")
        await self.client.sync(path)
        return decode(Report, (await self.client.get(path)).data, where=path)

    async def finish_without_report(self) -> None:
        """Let attempt 1 finish without a connection to ZooKeeper, and lose its runner and its directory."""
        first = await self.assign(1)
        await self.attempts.spawn(first, INITIAL_VERSIONS)
        await wait_until_async(self.runs.exists, TIMEOUT_S, "the script runs")
        self.proxy.refuses_connections = True
        self.proxy.drop_connections()
        self.ending.touch()
        outcome = self.cluster.storage / "checkpoints" / JOB / "_holdfast" / "outcome-1"
        await wait_until_async(outcome.exists, TIMEOUT_S, "the outcome is in the checkpoint")
        assert await self.attempts.kill_runner(first) and await self.attempts.kill_tree(first)
        self.proxy.refuses_connections = False
        assert await self.attempts.close_session(first)
        shutil.rmtree(self.directory / "node" / "attempts")

    async def certify_expiry(self) -> None:
        """Let the other node certify that attempt 1 is dead."""
        version = (await self.client.get(self.cluster.paths.job(JOB, "report"))).stat.version
        certifier = ExpiryCertifier(self.cluster.paths, N2, PromiseStub(), log.configure_logging(component="node"))
        assert not await certifier.certify(self.client, Order(JOB, Attempt(1), end=True, report=version))
        report = await self.report()
        assert report.dead and report.outcome is not None and report.outcome.ending is Ending.LOST

    async def lose_after_lease(self, attempt: int) -> None:
        """Take the lease of an attempt, and lose its runner before it looks at the checkpoint."""
        await self.assign(attempt)
        async with self.cluster.client() as client:
            holder = LeaseHolder(client, self.cluster.paths, AttemptAssignment(JOB, Attempt(attempt), N1, f"nonce-{attempt}"))
            await holder.take(started_at=1.0, failsafe=(N1, N2))

    async def run_attempt(self, attempt: int) -> Outcome:
        """Run an attempt to its end and return the outcome that it reports."""
        attempt_id = await self.assign(attempt)
        await self.attempts.spawn(attempt_id, INITIAL_VERSIONS)
        await wait_until_async(lambda: not self.attempts.is_running(attempt_id), TIMEOUT_S, f"attempt {attempt} has ended")
        report = await self.report()
        assert report.attempt == attempt and report.outcome is not None
        return report.outcome


def run_scene(server: EmbeddedEnsemble, root: str, directory: Path, test: Callable[[JobScene], Awaitable[None]]) -> None:
    """Run the test with a submitted job on a new cluster of two nodes."""
    port = server.servers[0].client_port
    cluster = PreparedCluster(port, root, directory / "storage")
    cluster.create_skeleton()
    for node in (N1, N2):
        cluster.add_node(node)

    async def run() -> None:
        with TcpProxy(port) as proxy:
            async with cluster.client() as client:
                scene = JobScene(cluster, client, proxy, directory)
                await scene.submit()
                await test(scene)
                scene.attempts.close()

    asyncio.run(run())


@pytest.mark.parametrize("lost", [0, 2])
def test_finished_job_does_not_run_again_although_its_report_was_lost(
    patient_server: EmbeddedEnsemble, root: str, tmp_path: Path, lost: int
) -> None:
    """Neither attempts that are lost before they look at the checkpoint nor a death certificate hide the outcome."""

    async def test(scene: JobScene) -> None:
        await scene.finish_without_report()
        await scene.certify_expiry()
        for attempt in range(2, 2 + lost):
            await scene.lose_after_lease(attempt)
        outcome = await scene.run_attempt(2 + lost)
        assert outcome.ending is Ending.FINISHED
        assert outcome.reason.startswith("attempt 1 ended without reporting its outcome to ZooKeeper: ")
        assert scene.runs.read_text() == "run\n"

    run_scene(patient_server, root, tmp_path, test)


def test_reported_failure_is_not_reported_again_after_a_lost_attempt(
    patient_server: EmbeddedEnsemble, root: str, tmp_path: Path
) -> None:
    async def test(scene: JobScene) -> None:
        scene.ending.write_text("bad input")
        failed = await scene.run_attempt(1)
        assert failed.ending is Ending.FAILED and "bad input" in failed.reason
        await scene.lose_after_lease(2)
        scene.ending.write_text("")
        assert (await scene.run_attempt(3)).ending is Ending.FINISHED
        assert scene.runs.read_text() == "run\nrun\n"

    run_scene(patient_server, root, tmp_path, test)
