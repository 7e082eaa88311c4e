"""Failover time after the leading agent crashes, with and without its guard; memory of agent and guard.

Two nodes, three ZooKeeper servers, a session timeout of 10 s. Each time is measured from SIGKILL to the commit of the next
epoch, which a watch of a third client reports.
"""

import contextlib
import json
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kazoo.client import KazooClient

from holdfast.zk.embedded import EmbeddedEnsemble, ServerSettings
from tests.harness.cluster.nodes import Node, start_node
from tests.harness.waiting import wait_until

ROUNDS = 10
TIMEOUT_S = 10.0
TICK_S = 1.0
CLUSTER = "bench"
SETTINGS = {"zookeeper": {"session_timeout_s": TIMEOUT_S, "tick_s": TICK_S}, "timing": {"margin_s": 4.0}}


class EpochWatcher:
    """Newest epoch: its number, its leader and the time of its commit, from a ZooKeeper watch."""

    def __init__(self, connect: str) -> None:
        self._client = KazooClient(connect, timeout=30)
        self._client.start(30)
        self._changed = threading.Condition()
        self.newest: tuple[int, str, float] = (0, "", 0.0)
        self._client.DataWatch(f"/holdfast/{CLUSTER}/epoch", self._record)

    def _record(self, data: bytes | None, stat: Any, _: object = None) -> None:
        if data:
            with self._changed:
                self.newest = (stat.version, json.loads(data)["leader"], time.monotonic())
                self._changed.notify_all()

    def wait_for_epoch_after(self, epoch: int) -> tuple[int, str, float]:
        with self._changed:
            if not self._changed.wait_for(lambda: self.newest[0] > epoch, 60):
                raise TimeoutError(f"no epoch after {epoch} within a minute")
            return self.newest

    def close(self) -> None:
        self._client.stop()
        self._client.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        ensemble = EmbeddedEnsemble(Path(directory) / "zk", size=3, settings=ServerSettings(tick_ms=int(TICK_S * 1000)))
        ensemble.start()
        try:
            ensemble.wait_ready(60)
            with contextlib.ExitStack() as stack:
                _measure(stack, ensemble, Path(directory))
        finally:
            ensemble.stop()


def _measure(stack: contextlib.ExitStack, ensemble: EmbeddedEnsemble, directory: Path) -> None:
    nodes = {id: RestartableNode(directory / id, ensemble.connect_string, id) for id in ("n1", "n2")}
    for each in nodes.values():
        stack.enter_context(each.running())
    wait_until(lambda: any(each.node.is_leading() for each in nodes.values()), 60, "a leader")
    epochs = EpochWatcher(ensemble.connect_string)
    stack.callback(epochs.close)
    _print_memory(nodes["n1"].node)
    guarded = [_measure_failover(nodes, epochs, whole_node=False) for _ in range(ROUNDS)]
    unguarded = [_measure_failover(nodes, epochs, whole_node=True) for _ in range(ROUNDS)]
    with_s, without_s = statistics.median(guarded), statistics.median(unguarded)
    print(f"  leading agent SIGKILLed, median of {ROUNDS}: {with_s:.3f} s until the next epoch (worst {max(guarded):.3f} s)")
    print(f"  agent and guard SIGKILLed, median of {ROUNDS}: {without_s:.1f} s (worst {max(unguarded):.1f} s)")
    print(f"  the guard makes the failover {without_s / with_s:.0f} times shorter")
    print(f"  targets: within 1 s with the guard; within T + 2 ticks = {TIMEOUT_S + 2 * TICK_S:g} s without")


class RestartableNode:
    """Node that can be started again after its agent and guard were killed."""

    def __init__(
        self, directory: Path, connect: str, id: str, settings: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    ) -> None:
        """`settings` are added to those of all nodes."""
        self._directory = directory
        self._connect = connect
        self._id = id
        self._settings = {**SETTINGS, **settings}
        self._stack = contextlib.ExitStack()
        self.node: Node

    def start(self) -> None:
        self._stack.close()
        self.node = self._stack.enter_context(
            start_node(self._directory, self._connect, cluster=CLUSTER, id=self._id, settings=self._settings)
        )

    def agent_pid(self) -> int:
        return wait_until(self.node.agent_pid, 60, "an agent")

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self._stack.close()


def _measure_failover(nodes: dict[str, RestartableNode], epochs: EpochWatcher, *, whole_node: bool) -> float:
    wait_until(lambda: all(each.node.status().get("registered") for each in nodes.values()), 60, "both nodes are registered")
    epoch, leader, _ = epochs.newest
    victim = nodes[leader].node
    agent = victim.agent_pid()
    assert agent is not None
    killed_at = time.monotonic()
    if whole_node:
        os.kill(victim.process.pid, signal.SIGKILL)
    os.kill(agent, signal.SIGKILL)
    _, successor, at = epochs.wait_for_epoch_after(epoch)
    assert successor != leader
    wait_until(nodes[successor].node.is_leading, 30, "the successor has confirmed that it leads")
    if whole_node:
        nodes[leader].start()
    return at - killed_at


def _print_memory(node: Node) -> None:
    agent = node.agent_pid()
    assert agent is not None
    print(f"  resident memory: agent {resident_mb(agent):.0f} MB (target: 80 or less), ", end="")
    print(f"guard {resident_mb(node.process.pid):.0f} MB (target: 20 or less)")


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)
