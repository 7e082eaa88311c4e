"""Faults: each is injected, lasts for its planned duration, and is healed. It records the processes that it has hit."""

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holdfast.zk.embedded import ZooKeeperServer
from holdfast.zk.embedded.configuration import DATA_NAME
from tests.chaos import small_disk
from tests.chaos.catalogue import ATTEMPT_ROLES, LINK_TARGETS, Part, PlannedFault, parse_kind
from tests.chaos.cluster import READY_TIMEOUT_S, RESTART_S, AttemptPids, ChaosCluster, ServerProxy
from tests.chaos.history import Signalled
from tests.chaos.partitions import PARTITION_TARGETS, Direction, blocked_directions
from tests.harness.waiting import wait_until

POLL_S = 0.2
"""Interval at which the end of a fault is checked."""
OLDER_DATA_S = 2.0
"""Age of an older copy of ZooKeeper's data."""


@dataclass(frozen=True, slots=True)
class Victims:
    """Parts of the cluster that a fault hits."""

    attempt: AttemptPids
    node: str
    leader: str
    server: ZooKeeperServer


@dataclass
class Fault:
    """One part of a fault, such as `stop:runner`."""

    cluster: ChaosCluster
    part: Part
    victims: Victims
    targets: list[Signalled] = field(default_factory=list)

    def prepare(self) -> None:
        """Do what takes time, before the instant of the injection."""

    def inject(self) -> None:
        raise NotImplementedError

    def heal(self) -> None:
        """End the fault. The death of a process needs no end: the cluster restarts it."""


class ProcessFault(Fault):
    """Signal to one or more processes: `kill` or `stop` of a role, of a node, or of all agents."""

    def prepare(self) -> None:
        self.targets = [target for target in self._select() if target.pid]

    def inject(self) -> None:
        number = signal.SIGKILL if self.part.action == "kill" else signal.SIGSTOP
        for target in self.targets:
            _send(target.pid, number)

    def heal(self) -> None:
        if self.part.action == "stop":
            for target in self.targets:
                _send(target.pid, signal.SIGCONT)

    def _select(self) -> list[Signalled]:
        role, attempt, node = self.part.target, self.victims.attempt, self.victims.node
        if role in ATTEMPT_ROLES:
            return [Signalled(role, attempt.pid(role) or 0, attempt.node, attempt.job)]
        if role == "guard":
            return [Signalled(role, self.cluster.nodes[node].guard or 0, node)]
        if role == "node":
            return [Signalled(each, pid, node) for each, pid in self.cluster.node_pids(node)]
        nodes = {"agent": [node], "leader": [self.victims.leader], "agents": list(self.cluster.nodes)}[role]
        return [Signalled("agent", self.cluster.nodes[id].agent or 0, id) for id in nodes]


class ServerFault(Fault):
    """Death, pause or stalled disk of one ZooKeeper server or of all."""

    @property
    def servers(self) -> Sequence[ZooKeeperServer]:
        return [self.victims.server] if self.part.target == "zk-one" else list(self.cluster.servers.values())

    def inject(self) -> None:
        self.targets = [Signalled(f"zk-{server.id}", server.pid or 0) for server in self.servers]
        if self.part.action == "kill":
            for target in self.targets:
                _send(target.pid, signal.SIGKILL)
            self.cluster.kill_servers(self.servers)
        elif self.part.action == "stop":
            for target in self.targets:
                _send(target.pid, signal.SIGSTOP)
        else:
            for server in self.servers:
                server.stall_disk()

    def heal(self) -> None:
        if self.part.action == "kill":
            self.cluster.release_servers()
        elif self.part.action == "stop":
            for target in self.targets:
                _send(target.pid, signal.SIGCONT)
        else:
            for server in self.servers:
                server.resume_disk()


class DataFault(Fault):
    """ZooKeeper comes back with an older copy of its data, or without any, and with the right data at the end."""

    def prepare(self) -> None:
        if self.part.action == "older":
            self.cluster.copy_data("older")
            self.cluster.run_until(time.monotonic() + OLDER_DATA_S)

    def inject(self) -> None:
        self.targets = [Signalled(f"zk-{server.id}", server.pid or 0) for server in self.cluster.servers.values()]
        self.cluster.kill_servers(self.cluster.servers.values())
        for server in self.cluster.servers.values():
            (server.directory / DATA_NAME).rename(server.directory / "newest")
            if self.part.action == "older":
                (server.directory / "older").rename(server.directory / DATA_NAME)
        self.cluster.release_servers()

    def heal(self) -> None:
        self.cluster.kill_servers(self.cluster.servers.values())
        for server in self.cluster.servers.values():
            shutil.rmtree(server.directory / DATA_NAME)
            (server.directory / "newest").rename(server.directory / DATA_NAME)
        self.cluster.release_servers()
        # The other data may have reached the same ZooKeeper epoch with more transactions. Clients that have seen these
        # transactions are refused until a later epoch begins.
        wait_until(self.cluster.has_quorum, READY_TIMEOUT_S, "the ZooKeeper servers serve their own data")
        self.cluster.kill_servers(self.cluster.servers.values())
        self.cluster.release_servers()


class NetworkFault(Fault):
    """Broken network between one node, or all nodes, and ZooKeeper. The nodes still reach each other."""

    @property
    def nodes(self) -> list[str]:
        return [self.victims.node] if self.part.target == "link" else list(self.cluster.nodes)

    def inject(self) -> None:
        self.targets = [Signalled("link", 0, node) for node in self.nodes]
        for proxy in self._proxies():
            proxy.cut() if self.part.action == "cut" else proxy.swallow_replies()

    def heal(self) -> None:
        for proxy in self._proxies():
            proxy.repair()

    def _proxies(self) -> list[ServerProxy]:
        return [proxy for node in self.nodes for proxy in self.cluster.links[node]]


class Partition(Fault):
    """Dropped packets between nodes and ZooKeeper, or between nodes, in both directions or in one."""

    def inject(self) -> None:
        self.targets = [Signalled(self.part.target, 0, self.victims.node)]
        self.cluster.network.block(self._directions())

    def heal(self) -> None:
        self.cluster.network.unblock(self._directions())

    def _directions(self) -> frozenset[Direction]:
        return blocked_directions(self.part.action, self.part.target, node=self.victims.node, nodes=list(self.cluster.nodes))


class LostNode(Fault):
    """Machine that is lost: cut off from everything, and all its processes killed. It comes back at the end."""

    def prepare(self) -> None:
        self.targets = [Signalled(role, pid, self.victims.node) for role, pid in self.cluster.node_pids(self.victims.node)]

    def inject(self) -> None:
        self.cluster.network.block(self._directions())
        self.cluster.held_nodes.add(self.victims.node)
        for target in self.targets:
            _send(target.pid, signal.SIGKILL)

    def heal(self) -> None:
        self.cluster.network.unblock(self._directions())
        self.cluster.held_nodes.discard(self.victims.node)

    def _directions(self) -> frozenset[Direction]:
        return blocked_directions("cut", "node-all", node=self.victims.node, nodes=list(self.cluster.nodes))


class UnmountedStorage(Fault):
    """Storage that is not mounted on one node, or on all nodes. Users still reach it."""

    @property
    def nodes(self) -> list[str]:
        return [self.victims.node] if self.part.target == "storage-node" else list(self.cluster.nodes)

    def inject(self) -> None:
        self.targets = [Signalled("storage", 0, node) for node in self.nodes]
        for node in self.nodes:
            self.cluster.network.unmount_storage(node)

    def heal(self) -> None:
        for node in self.nodes:
            self.cluster.network.mount_storage(node)


class FrozenStorage(Fault):
    """Storage that does not answer: each write to it waits until the end of the fault."""

    def inject(self) -> None:
        self.targets = [Signalled("storage", 0)]
        self.cluster.storage_disk.freeze()

    def heal(self) -> None:
        self.cluster.storage_disk.thaw()


class FullDisk(Fault):
    """Full disk of one node."""

    def inject(self) -> None:
        self.targets = [Signalled("disk", 0, self.victims.node)]
        small_disk.fill(self.cluster.nodes[self.victims.node].directory)

    def heal(self) -> None:
        small_disk.empty(self.cluster.nodes[self.victims.node].directory)


class AgentRestart(Fault):
    """Death of one agent in the middle of another fault. Its guard starts it again at once."""

    def inject(self) -> None:
        agent = self.cluster.nodes[self.victims.node].agent
        self.targets = [Signalled("agent", agent or 0, self.victims.node)]
        _send(agent or 0, signal.SIGKILL)


def build_parts(planned: PlannedFault, cluster: ChaosCluster, victims: Victims) -> list[Fault]:
    return [_fault_class(part)(cluster, part, victims) for part in parse_kind(planned.kind)]


def _fault_class(part: Part) -> Callable[[ChaosCluster, Part, Victims], Fault]:
    if part.action == "restart":
        return AgentRestart
    if part.target == "zk-data":
        return DataFault
    if part.action == "lose":
        return LostNode
    if part.action in ("unmount", "freeze"):
        return UnmountedStorage if part.action == "unmount" else FrozenStorage
    if part.target == "disk":
        return FullDisk
    if part.target in PARTITION_TARGETS:
        return Partition
    if part.target in LINK_TARGETS:
        return NetworkFault
    return ServerFault if part.target.startswith("zk") else ProcessFault


def play(
    planned: PlannedFault,
    cluster: ChaosCluster,
    parts: Sequence[Fault],
    now: Callable[[], float],
    is_over: Callable[[], bool] = lambda: False,
) -> tuple[float, float]:
    """Inject all parts, wait for the planned duration and heal them. Return the times of injection and healing.

    `is_over` ends the fault before its planned duration.
    """
    for part in parts:
        part.prepare()
    injected_at, started = now(), time.monotonic()
    try:
        for part in parts:
            if not isinstance(part, AgentRestart):
                part.inject()
        _run_cluster(cluster, started + planned.duration_s / 2, is_over)
        for part in parts:
            if isinstance(part, AgentRestart):
                part.inject()
        _run_cluster(cluster, started + planned.duration_s, is_over)
    finally:
        with contextlib.ExitStack() as stack:
            for part in reversed(parts):
                stack.callback(part.heal)
    if planned.duration_s == 0:
        # A guard that was killed comes back after this time: until then the fault goes on.
        cluster.run_until(time.monotonic() + RESTART_S)
    return injected_at, now()


def _run_cluster(cluster: ChaosCluster, until: float, is_over: Callable[[], bool]) -> None:
    while not is_over() and time.monotonic() < until:
        cluster.run_until(min(time.monotonic() + POLL_S, until))


def _send(pid: int, number: signal.Signals) -> None:
    if pid > 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
