"""Cluster for outages: three ZooKeeper servers, two nodes, and a streaming Spark job on each node."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.harness.cluster.jobs import ClusterJobs, poll_until
from tests.harness.cluster.machines import Machine, PartitionableEnsemble
from tests.harness.cluster.process_observer import ObservedProcess, ProcessObserver, kill_leftovers
from tests.harness.cluster.streams import Feeder, StreamJob
from tests.harness.waiting import wait_until


@dataclass(frozen=True)
class ClusterState:
    """State that an outage must not change."""

    leader: tuple[str | None, int]
    drivers: list[ObservedProcess]
    attempts: list[tuple[int, int]]


@dataclass
class OutageScene:
    """Cluster of three ZooKeeper servers and two nodes, with a streaming job on each node."""

    servers: PartitionableEnsemble
    machines: dict[str, Machine]
    jobs: ClusterJobs
    feeder: Feeder
    streams: tuple[StreamJob, StreamJob]

    def wait_until_healthy(self) -> None:
        for machine in self.machines.values():
            machine.start()
        poll_until(lambda: len(self.jobs.nodes()) == 2 and self.jobs.leader()[0], 90, "two nodes and a leader")
        for stream in self.streams:
            stream.wait_until_healthy()

    def state(self) -> ClusterState:
        views = [stream.view for stream in self.streams]
        return ClusterState(
            leader=self.jobs.leader(),
            drivers=[stream.attempt().driver for stream in self.streams],
            attempts=[(view["attempt"], view["restarts"]) for view in views],
        )

    def wait_for_batches(self, batches: int = 2) -> None:
        for stream in self.streams:
            stream.wait_for_batches(batches)

    def session_pids(self) -> list[int]:
        """Return the processes with a ZooKeeper session: agents and runners."""
        agents = [machine.node.agent_pid() for machine in self.machines.values() if machine.node is not None]
        return [pid for pid in agents if pid is not None] + [stream.attempt().runner for stream in self.streams]

    def check(self) -> None:
        for stream in self.streams:
            stream.check_single_driver()
            stream.check_contiguous_batches()


@contextlib.contextmanager
def start_outage_scene(directory: Path) -> Iterator[OutageScene]:
    storage = directory / "storage"
    storage.mkdir()
    with contextlib.ExitStack() as stack:
        stack.callback(kill_leftovers, directory)
        servers = stack.enter_context(PartitionableEnsemble(directory))
        machines = {
            id: stack.enter_context(Machine(id, directory / id, servers.connect, cluster="outages", storage=storage))
            for id in ("n1", "n2")
        }
        wait_until(
            lambda: all(m.node and m.node.status().get("registered") for m in machines.values()),
            60,
            "both nodes are registered",
        )
        observer = stack.enter_context(ProcessObserver(directory))
        feeder = stack.enter_context(Feeder(directory / "in"))
        jobs = stack.enter_context(ClusterJobs(directory, storage, "--connect", servers.connect, "--cluster", "outages"))
        streams = (StreamJob(jobs, observer, feeder, "first"), StreamJob(jobs, observer, feeder, "second"))
        yield OutageScene(servers, machines, jobs, feeder, streams)
