"""Nodes of the previous release are replaced one by one by nodes of this release, under running jobs."""

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.zk.embedded import EmbeddedEnsemble, ServerSettings
from tests.harness.cluster.command import HOLDFAST
from tests.harness.cluster.jobs import ClusterJobs, poll_until
from tests.harness.cluster.machines import TICK_S, TIMING
from tests.harness.cluster.nodes import Node, start_node
from tests.harness.cluster.previous_release import previous_release
from tests.harness.cluster.process_observer import ProcessObserver, kill_leftovers, read_command
from tests.harness.cluster.streams import Feeder, StreamJob
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

NODES = ("n1", "n2", "n3")
CLUSTER = "upgraded"


@dataclass
class MixedCluster:
    """Three nodes, each of which runs either the previous release or this one."""

    directory: Path
    connect: str
    old_command: list[str]
    jobs: ClusterJobs
    streams: tuple[StreamJob, ...]
    nodes: dict[str, tuple[contextlib.ExitStack, Node]]

    def start(self, id: str, command: list[str]) -> None:
        settings: dict[str, dict[str, object]] = {
            **TIMING,
            "cluster": {"storage": str(self.directory / "storage")},
            "node": {"slots": 2},
        }
        stack = contextlib.ExitStack()
        node = stack.enter_context(
            start_node(self.directory / id, self.connect, cluster=CLUSTER, id=id, settings=settings, command=command)
        )
        self.nodes[id] = (stack, node)
        wait_until(lambda: node.status().get("registered"), 60, f"{id} has joined")

    def stop(self) -> None:
        for stack, _ in self.nodes.values():
            stack.close()

    def replace(self, id: str) -> None:
        """Stop the node as a service manager does, and start it again with this release."""
        stack, node = self.nodes.pop(id)
        stack.close()
        assert node.process.returncode is not None
        self.start(id, HOLDFAST)
        agent = self.nodes[id][1].agent_pid()
        assert agent is not None and read_command(agent)[0] == HOLDFAST[0]

    def drivers(self) -> list[tuple[int, int]]:
        """Return pid and attempt of each job's driver, by the kernel."""
        return [(driver.pid, driver.attempt) for driver in (stream.attempt().driver for stream in self.streams)]


@contextlib.contextmanager
def _zookeeper(directory: Path) -> Iterator[str]:
    """Run one server with ticks of one second, and yield its connect string."""
    ensemble = EmbeddedEnsemble(directory, size=1, settings=ServerSettings(tick_ms=int(1000 * TICK_S)))
    try:
        ensemble.start()
        ensemble.wait_ready(60)
        yield f"127.0.0.1:{ensemble.servers[0].client_port}"
    finally:
        ensemble.stop()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    """Start three nodes of the previous release, with three streaming jobs that its own command has submitted."""
    (tmp_path / "storage").mkdir()
    old_command = previous_release(tmp_path)
    with contextlib.ExitStack() as stack:
        connect = stack.enter_context(_zookeeper(tmp_path / "zookeeper"))
        stack.callback(kill_leftovers, tmp_path)
        observer = stack.enter_context(ProcessObserver(tmp_path))
        feeder = stack.enter_context(Feeder(tmp_path / "in"))
        jobs = stack.enter_context(ClusterJobs(tmp_path, tmp_path / "storage", "--connect", connect, "--cluster", CLUSTER))
        mixed = MixedCluster(tmp_path, connect, old_command, jobs, (), {})
        stack.callback(mixed.stop)
        for id in NODES:
            mixed.start(id, old_command)
        jobs.command = old_command
        mixed.streams = tuple(StreamJob(jobs, observer, feeder, name) for name in ("first", "second", "third"))
        for stream in mixed.streams:
            stream.wait_until_healthy()
        jobs.command = HOLDFAST
        yield mixed


def test_drivers_keep_their_pids_while_nodes_are_replaced_one_by_one(cluster: MixedCluster) -> None:
    before = cluster.drivers()
    for id in NODES:
        cluster.replace(id)
        poll_until(lambda: cluster.jobs.leader()[0] and len(cluster.jobs.nodes()) == 3, 90, "three nodes and a leader")
        for stream in cluster.streams:
            stream.wait_for_batches(2)
            assert stream.view["phase"] == "RUNNING"
        assert cluster.drivers() == before

    listed = cluster.jobs.list_jobs()
    assert [(listed[stream.id]["attempt"], listed[stream.id]["restarts"]) for stream in cluster.streams] == [(1, 0)] * 3
    _check_that_new_nodes_control_old_jobs(cluster)


def _check_that_new_nodes_control_old_jobs(cluster: MixedCluster) -> None:
    """Kill one driver, stop and resume one job, cancel one: attempts of the previous release, handled by this one."""
    killed, stopped, cancelled = cluster.streams
    driver = killed.attempt().driver
    os.kill(driver.pid, signal.SIGKILL)
    killed.wait_for_next_driver(driver)
    killed.wait_until_healthy()
    killed.wait_for_batches(1)

    cluster.jobs.run_ok("stop", stopped.id, "--wait")
    cluster.jobs.run_ok("resume", stopped.id, "--wait")
    stopped.wait_for_batches(1)

    cluster.jobs.run_ok("cancel", cancelled.id, "--wait")
    assert cancelled.view["phase"] == "CANCELLED"
    for stream in cluster.streams:
        stream.check_single_driver()
        stream.check_contiguous_batches()
