"""Exchange of promises between real processes with real HTTP servers and journals, without ZooKeeper."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.clock import SystemClock
from holdfast.model.identifiers import NodeId
from holdfast.zk.embedded.ports import Ports
from tests.harness.promise_node import SESSION_TIMEOUT_S, TIMING, PromiseNode, start_promise_nodes
from tests.harness.runner_stubs import RunnerStubs
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.real

NODES = [NodeId("n1"), NodeId("n2"), NodeId("n3")]
CLOCK = SystemClock()


def pick_ports() -> list[int]:
    ports = Ports.pick(), Ports.pick(), Ports.pick()
    return [port.client for port in ports]


def first_node_runners(nodes: list[PromiseNode]) -> RunnerStubs:
    """Return the runners of all attempts, which are on the first node."""
    return RunnerStubs(sorted((nodes[0].directory / "attempts").glob("*/*")), NODES)


@pytest.mark.parametrize("count", [100, 1000])
def test_all_attempts_get_the_promises_of_all_nodes(tmp_path: Path, report: Callable[[str], None], count: int) -> None:
    with (
        start_promise_nodes(tmp_path, pick_ports(), attempts=count) as nodes,
        first_node_runners(nodes).request() as runners,
    ):
        wait_until(lambda: runners.left_s() > SESSION_TIMEOUT_S, 60, "all promises are granted")
        before, started_at = [node.statistics() for node in nodes], time.monotonic()
        wait_until(lambda: time.monotonic() > started_at + 5, 10, "five seconds")
        after, elapsed_s = [node.statistics() for node in nodes], time.monotonic() - started_at
        assert runners.left_s() > 0, "no promise has run out"
        wait_until(lambda: runners.left_s() > SESSION_TIMEOUT_S, 60, "promises are renewed all the time")
        for node, (commits, cpu_s), (commits_later, cpu_s_later) in zip(nodes, before, after, strict=True):
            journal = node.directory / "promises.journal"
            report(
                f"promises: {count} attempts, {node.node}: {(commits_later - commits) / elapsed_s:.1f} commits/s, "
                f"{(cpu_s_later - cpu_s) / elapsed_s * 100:.1f} % CPU, journal of {os.stat(journal).st_size:,} bytes"
            )
            assert commits_later - commits <= 3 * elapsed_s, "one commit per batch"


def test_promises_continue_after_agents_are_killed_without_zookeeper(tmp_path: Path) -> None:
    with start_promise_nodes(tmp_path, pick_ports(), attempts=20) as nodes, first_node_runners(nodes).request() as runners:
        wait_until(lambda: runners.left_s() > SESSION_TIMEOUT_S, 60, "all promises are granted")
        for node in (nodes[0], nodes[1]):
            node.kill()
            node.start()
            killed_at = CLOCK.boottime()
            wait_until(
                lambda at=killed_at: runners.left_s() + CLOCK.boottime() > at + SESSION_TIMEOUT_S + TIMING.margin_s,  # type: ignore[misc]  # mypy cannot infer a lambda with a default
                20,
                "promises are renewed after the restart",
            )
        for node in nodes:
            node.kill()
            node.start()
        assert runners.left_s() > TIMING.margin_s, "promises outlast the restart of all agents"
        wait_until(lambda: runners.left_s() > SESSION_TIMEOUT_S, 20, "promises are renewed again")


def test_promises_for_a_runner_that_stops_asking_run_out(tmp_path: Path) -> None:
    with start_promise_nodes(tmp_path, pick_ports(), attempts=1) as nodes:
        with first_node_runners(nodes).request() as runners:
            wait_until(lambda: runners.left_s() > SESSION_TIMEOUT_S, 60, "the promises are granted")
        wait_until(lambda: runners.left_s() < SESSION_TIMEOUT_S, 30, "the promises are not renewed any more")
