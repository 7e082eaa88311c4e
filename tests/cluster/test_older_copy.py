"""ZooKeeper restored from an older copy of its data: a node that restarts does not follow the orders in it."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.node.drain import lock_holder_pid
from holdfast.zk.embedded import EmbeddedEnsemble, ServerSettings, ZooKeeperServer
from tests.harness.cluster.jobs import ClusterJobs
from tests.harness.cluster.nodes import Node, start_node
from tests.harness.cluster.process_observer import kill_leftovers
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(300)]

SLEEPER = "import time\ntime.sleep(3600)\n"


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    """Server of this test alone, whose data the test replaces."""
    ensemble = EmbeddedEnsemble(tmp_path / "zk", size=1, settings=ServerSettings(tick_ms=200))
    try:
        ensemble.start()
        ensemble.wait_ready(60)
        yield ensemble.servers[0]
    finally:
        ensemble.stop()
        kill_leftovers(tmp_path)


def test_restarted_agent_does_not_follow_an_order_of_an_older_copy(tmp_path: Path, own_server: ZooKeeperServer) -> None:
    connect = f"127.0.0.1:{own_server.client_port}"
    script = tmp_path / "sleeper.py"
    script.write_text(SLEEPER)
    with (
        start_node(tmp_path / "n1", connect, cluster="c") as node,
        ClusterJobs(tmp_path, tmp_path / "storage", "--connect", connect, "--cluster", "c") as jobs,
    ):
        wait_until(node.is_leading, 60, "the node leads")
        job = jobs.submit(script, "sleeper", spark=False)
        _copy_while_starting(node, own_server, tmp_path / "copy", job)
        jobs.wait_for_phase(job, "RUNNING", timeout_s=120)
        jobs.run_ok("cancel", job, "--wait")
        _restore(own_server, tmp_path / "copy")
        started = len(node.events("attempt started"))
        agent = node.agent_pid()
        assert agent is not None
        os.kill(agent, signal.SIGKILL)
        wait_until(lambda: len(node.events("connected")) >= 2, 60, "the next agent is connected")
        wait_until(lambda: "came back older" in node.status().get("problem", ""), 30, "the next agent reports the problem")
        wait_until(lambda: _count_reports(node) >= 3, 60, "the agent has had time to follow orders")
        assert len(node.events("attempt started")) == started, "the cancelled job does not run again"
        assert not node.is_leading()


def _copy_while_starting(node: Node, server: ZooKeeperServer, copy: Path, job: str) -> None:
    """Copy the server's data while the job's runner is paused before it takes the lease."""
    lock = node.directory / "attempts" / job / "1" / "runner.lock"
    runner = wait_until(lambda: lock_holder_pid(lock), 60, "the runner exists", every_s=0.002)
    os.kill(runner, signal.SIGSTOP)
    shutil.copytree(server.directory / "data", copy)
    os.kill(runner, signal.SIGCONT)


def _restore(server: ZooKeeperServer, copy: Path) -> None:
    server.kill()
    shutil.rmtree(server.directory / "data")
    shutil.copytree(copy, server.directory / "data")
    server.start()


def _count_reports(node: Node) -> int:
    return sum("came back older" in event["problem"] for event in node.events("problem"))
