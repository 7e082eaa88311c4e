"""How long a cluster is without a leader: after the crash of an agent, with its guard and without; and what both weigh.

Two nodes, three ZooKeeper servers, a session timeout of 10 s. Times are from the signal to the commit of the next epoch, seen
by a third client's watch.
"""

import contextlib
import json
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from holdfast.zk.embedded import Ensemble, Settings
from tests.harness.cluster.nodes import Node, node
from tests.harness.waiting import eventually

ROUNDS = 10
TIMEOUT_S = 10.0
TICK_S = 1.0
CLUSTER = "bench"
SETTINGS = {"zookeeper": {"session_timeout_s": TIMEOUT_S, "tick_s": TICK_S}, "timing": {"margin_s": 4.0}}


class Epochs:
    """When each epoch was committed, and who won it."""

    def __init__(self, connect: str) -> None:
        self._client = KazooClient(connect, timeout=30)
        self._client.start(30)
        self._news = threading.Condition()
        self.newest: tuple[int, str, float] = (0, "", 0.0)
        self._client.DataWatch(f"/holdfast/{CLUSTER}/epoch", self._note)

    def _note(self, data: bytes | None, stat: Any, _: object = None) -> None:
        if data:
            with self._news:
                self.newest = (stat.version, json.loads(data)["leader"], time.monotonic())
                self._news.notify_all()

    def after(self, epoch: int) -> tuple[int, str, float]:
        with self._news:
            if not self._news.wait_for(lambda: self.newest[0] > epoch, 60):
                raise TimeoutError(f"no epoch after {epoch} within a minute")
            return self.newest

    def close(self) -> None:
        self._client.stop()
        self._client.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        ensemble = Ensemble(Path(directory) / "zk", size=3, settings=Settings(tick_ms=int(TICK_S * 1000)))
        ensemble.start()
        try:
            ensemble.wait_ready(60)
            with contextlib.ExitStack() as stack:
                _measure(stack, ensemble, Path(directory))
        finally:
            ensemble.stop()


def _measure(stack: contextlib.ExitStack, ensemble: Ensemble, directory: Path) -> None:
    nodes = {id: Replaceable(directory / id, ensemble.connect, id) for id in ("n1", "n2")}
    for each in nodes.values():
        stack.enter_context(each.started())
    eventually(lambda: any(each.node.leading() for each in nodes.values()), 60, "a leader")
    epochs = Epochs(ensemble.connect)
    stack.callback(epochs.close)
    _weigh(nodes["n1"].node)
    guarded = [_round(nodes, epochs, whole_node=False) for _ in range(ROUNDS)]
    unguarded = [_round(nodes, epochs, whole_node=True) for _ in range(ROUNDS)]
    with_s, without_s = statistics.median(guarded), statistics.median(unguarded)
    print(f"  leading agent SIGKILLed, median of {ROUNDS}: {with_s:.3f} s until the next epoch (worst {max(guarded):.3f} s)")
    print(f"  agent and guard SIGKILLed, median of {ROUNDS}: {without_s:.1f} s (worst {max(unguarded):.1f} s)")
    print(f"  the guard makes it {without_s / with_s:.0f} times shorter")
    print(f"  targets: within 1 s with the guard; within T + 2 ticks = {TIMEOUT_S + 2 * TICK_S:g} s without")


class Replaceable:
    """A node that can be started again after all of it was killed."""

    def __init__(self, directory: Path, connect: str, id: str) -> None:
        self._directory = directory
        self._connect = connect
        self._id = id
        self._stack = contextlib.ExitStack()
        self.node: Node

    def start(self) -> None:
        self._stack.close()
        self.node = self._stack.enter_context(
            node(self._directory, self._connect, cluster=CLUSTER, id=self._id, settings=SETTINGS)
        )

    @contextlib.contextmanager
    def started(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self._stack.close()


def _round(nodes: dict[str, Replaceable], epochs: Epochs, *, whole_node: bool) -> float:
    eventually(lambda: all(each.node.status().get("registered") for each in nodes.values()), 60, "both nodes are there")
    epoch, leader, _ = epochs.newest
    victim = nodes[leader].node
    agent = victim.agent_pid()
    assert agent is not None
    killed_at = time.monotonic()
    if whole_node:
        os.kill(victim.process.pid, signal.SIGKILL)
    os.kill(agent, signal.SIGKILL)
    _, successor, at = epochs.after(epoch)
    assert successor != leader
    eventually(nodes[successor].node.leading, 30, "the successor has confirmed that it leads")
    if whole_node:
        nodes[leader].start()
    return at - killed_at


def _weigh(some: Node) -> None:
    agent = some.agent_pid()
    assert agent is not None
    print(f"  resident memory: agent {_resident_mb(agent):.0f} MB (target: 80 or less), ", end="")
    print(f"guard {_resident_mb(some.process.pid):.0f} MB (target: 20 or less)")


def _resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)
