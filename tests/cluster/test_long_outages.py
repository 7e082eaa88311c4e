"""Long outages of all ZooKeeper servers, with real Spark drivers and restarts of the agents."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.machines import Machine
from tests.harness.cluster.outage_scene import OutageScene, start_outage_scene
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.soak, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(2400)]

PAUSE_S = 60.0
OUTAGE_S = 900.0
AFTER_RESTART_S = 60.0
"""Time without ZooKeeper after the restart of each agent: several periods of a promise."""


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[OutageScene]:
    with start_outage_scene(tmp_path) as scene:
        scene.wait_until_healthy()
        yield scene
        scene.check()


@contextlib.contextmanager
def same_drivers(scene: OutageScene, report: Callable[[str], None], fault: str) -> Iterator[None]:
    """Check at the end of the block that all jobs kept their driver and attempt, and that they commit batches again."""
    before, batches = scene.state(), [scene.jobs.last_batch(stream.id) for stream in scene.streams]
    yield
    scene.wait_until_healthy()
    scene.wait_for_batches()
    scene.wait_until_healthy()
    after = scene.state()
    assert (after.drivers, after.attempts) == (before.drivers, before.attempts)
    progress = [scene.jobs.last_batch(stream.id) - first for stream, first in zip(scene.streams, batches, strict=True)]
    report(f"outages: {fault}: 0 restarts, {progress} batches meanwhile")


def commit_batches_for(scene: OutageScene, duration_s: float) -> None:
    """Wait for this time. Fail if a job commits no batch for long."""
    until_at = time.monotonic() + duration_s
    while time.monotonic() < until_at:
        scene.wait_for_batches(1)


def restart_agent(machine: Machine) -> None:
    """Kill the agent, and wait until its guard has started another one."""
    assert machine.node is not None
    killed = machine.node.agent_pid()
    assert killed is not None
    os.kill(killed, signal.SIGKILL)

    def is_replaced() -> bool:
        assert machine.node is not None
        return machine.node.agent_pid() not in (killed, None) and machine.node.status() != {}

    wait_until(is_replaced, 60, "the guard has started another agent")


def test_drivers_stay_when_all_servers_are_paused_for_a_minute(scene: OutageScene, report: Callable[[str], None]) -> None:
    with same_drivers(scene, report, f"all ZooKeeper servers paused for {PAUSE_S:g} s"):
        for server in scene.servers.servers.values():
            server.pause()
        try:
            commit_batches_for(scene, PAUSE_S)
        finally:
            for server in scene.servers.servers.values():
                server.resume()


def test_drivers_stay_when_all_servers_are_away_and_each_agent_is_restarted(
    scene: OutageScene, report: Callable[[str], None]
) -> None:
    with same_drivers(scene, report, "all ZooKeeper servers killed, each agent restarted meanwhile"), scene.servers.outage():
        commit_batches_for(scene, AFTER_RESTART_S)
        for machine in scene.machines.values():
            restart_agent(machine)
            commit_batches_for(scene, AFTER_RESTART_S)


def test_drivers_stay_when_all_servers_are_away_for_a_quarter_of_an_hour(
    scene: OutageScene, report: Callable[[str], None]
) -> None:
    with same_drivers(scene, report, f"all ZooKeeper servers killed for {OUTAGE_S:g} s"), scene.servers.outage():
        commit_batches_for(scene, OUTAGE_S)
