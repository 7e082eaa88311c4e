"""Loss of ZooKeeper servers, of all of ZooKeeper and of whole machines, with real Spark drivers."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.harness.cluster.command import holdfast
from tests.harness.cluster.jobs import poll_until
from tests.harness.cluster.machines import MARGIN_S, SESSION_TIMEOUT_S, SYNC_LIMIT, TICK_S, connected_ports
from tests.harness.cluster.outage_scene import OutageScene, start_outage_scene
from tests.harness.cluster.streams import StreamJob, read_committed_lines

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

STALL_S = 4.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutageScene]:
    with start_outage_scene(tmp_path_factory.mktemp("outages")) as scene:
        yield scene


@pytest.fixture
def scene(cluster: OutageScene) -> Iterator[OutageScene]:
    cluster.wait_until_healthy()
    yield cluster
    cluster.check()


@pytest.mark.incident
def test_leader_and_drivers_stay_while_every_zookeeper_server_is_restarted(scene: OutageScene) -> None:
    before = scene.state()
    for server in scene.servers.servers.values():
        server.kill()
        scene.wait_for_batches(1)
        scene.servers.start()
    scene.wait_for_batches()
    scene.wait_until_healthy()
    assert scene.state() == before


@pytest.mark.incident
def test_drivers_stay_while_two_disks_stall_at_once_and_explain_reports_the_stall(scene: OutageScene, tmp_path: Path) -> None:
    """Incident 003: the disks of a majority stall in the same instant. Sessions survive, and the logs show the cause."""
    drivers = scene.state().drivers
    servers = list(scene.servers.servers.values())
    with servers[0].stall_disk_within(), servers[1].stall_disk_within():
        threading.Event().wait(STALL_S)
    scene.wait_for_batches()
    scene.wait_until_healthy()
    assert scene.state().drivers == drivers

    answer = tmp_path / "answer.json"
    logs = [str(path) for server in servers for path in server.directory.glob("zookeeper.log*")]
    explained = holdfast("explain", *logs, "--json", str(answer), timeout_s=300)
    assert explained.returncode == 0, explained.stderr
    assert "zk-simultaneous-stall" in [diagnosis["signature"] for diagnosis in json.loads(answer.read_text())["diagnoses"]]


def test_leader_and_drivers_stay_while_a_follower_is_partitioned_with_its_clients(scene: OutageScene) -> None:
    before = scene.state()
    follower, leader = _follower_with_clients(scene), scene.servers.leader()
    port = scene.servers.servers[follower].client_port
    clients = [pid for pid in scene.session_pids() if port in connected_ports(pid)]
    assert clients
    with scene.servers.links[follower, leader].drop_traffic():
        cut_at = time.monotonic()
        poll_until(lambda: scene.servers.modes()[follower] != "follower", 60, "the follower notices the partition")
        assert time.monotonic() - cut_at > SYNC_LIMIT * TICK_S / 2, "the follower answered with old data for a while"
        poll_until(lambda: all(connected_ports(pid) - {port} for pid in clients), 30, "its clients use other servers")
        poll_until(
            lambda: time.monotonic() > cut_at + SESSION_TIMEOUT_S + 2 * TICK_S, 60, "an unused session would have expired"
        )
        scene.wait_for_batches()
    scene.servers.start()
    scene.wait_for_batches()
    scene.wait_until_healthy()
    assert scene.state() == before


def _follower_with_clients(scene: OutageScene) -> int:
    """Return a follower that serves a session. Restart the leader if it serves all of them."""
    for _ in range(5):
        modes = scene.servers.modes()
        for id, server in scene.servers.servers.items():
            if modes[id] == "follower" and any(server.client_port in connected_ports(pid) for pid in scene.session_pids()):
                return id
        scene.servers.servers[scene.servers.leader()].kill()
        scene.servers.start()
    raise AssertionError("no session moved to a follower")


def test_drivers_continue_without_zookeeper_for_three_session_timeouts(scene: OutageScene) -> None:
    before = scene.state()
    with scene.servers.outage():
        until_at = time.monotonic() + 3 * SESSION_TIMEOUT_S
        while time.monotonic() < until_at:
            scene.wait_for_batches(1)
        assert [stream.attempt().driver for stream in scene.streams] == before.drivers
    scene.wait_until_healthy()
    scene.wait_for_batches()
    scene.wait_until_healthy()
    after = scene.state()
    assert (after.drivers, after.attempts) == (before.drivers, before.attempts)


def test_drivers_end_without_promises_and_restart_when_zookeeper_is_back(
    scene: OutageScene, report: Callable[[str], None]
) -> None:
    """No process can order them to stop. The simulator, which has an exact clock, tests that they end in time."""
    before = scene.state()
    scene.machines["n2"].kill_agent()  # its session has not expired yet, so its promise is required
    with scene.servers.outage():
        outage_at = time.monotonic()
        for stream, driver in zip(scene.streams, before.drivers, strict=True):
            ended_at = stream.wait_until_gone(driver)
            report(f"outages: without ZooKeeper and promises, a driver was gone after {ended_at - outage_at:.1f} s")
    for stream, driver in zip(scene.streams, before.drivers, strict=True):
        stream.wait_for_next_driver(driver)
        assert stream.wait_until_healthy()["node"] == "n1"
        stream.wait_for_batches(1)


def test_jobs_of_a_lost_machine_continue_on_another_node_with_each_row_once(scene: OutageScene) -> None:
    stream, other = scene.streams
    before, other_driver = stream.view, other.attempt().driver
    driver = stream.attempt().driver
    machine = scene.machines[before["node"]]
    is_elsewhere = before["node"] != other.view["node"]
    lost_at = machine.kill_machine()
    next_driver = stream.wait_for_next_driver(driver)
    assert next_driver.first_seen - lost_at > SESSION_TIMEOUT_S + MARGIN_S - 3 * TICK_S, (
        "the next driver started before the end of the first was certain"
    )
    view = stream.wait_until_healthy()
    assert view["node"] != before["node"]
    assert view["restarts"] == before["restarts"] + 1
    if is_elsewhere:
        assert other.attempt().driver == other_driver
    with scene.feeder.pause() as rows:
        for each in scene.streams:
            poll_until(partial(_has_copied, each, rows.total()), 120, f"{each.name} has copied all rows")
            assert read_committed_lines(each.output) == rows


def _has_copied(stream: StreamJob, rows: int) -> bool:
    return read_committed_lines(stream.output).total() >= rows
