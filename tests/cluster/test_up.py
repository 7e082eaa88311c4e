"""A real cluster, started by the command line, through the faults that it promises to survive."""

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from holdfast.local.local_node import SESSION_TIMEOUT_S
from holdfast.local.process_identity import ProcessName
from holdfast.zk.session import session_file
from tests.harness.cluster.command import HOLDFAST, Up, Witness, holdfast, kill_and_see_it_return, paused, started
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(300)]

TICK_S = 1
TRIES = 3
COMPILER = shutil.which("cc")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    faults = ["--faults"] if COMPILER else []
    with started(tmp_path_factory.mktemp("up") / "c", "--zookeepers", "3", "--nodes", "2", *faults) as up:
        yield up


@pytest.fixture
def up(cluster: Up) -> Up:
    """Two nodes and three servers, all well."""
    eventually(cluster.healthy, 60, "all servers serve")
    eventually(lambda: len(cluster.cluster()["nodes"]) == 2 and cluster.leader()[0], 60, "two nodes and a leader")
    return cluster


class Beats:
    """Every beat that the server committed, as (epoch, leader), by a client of its own."""

    def __init__(self, up: Up) -> None:
        self._client = KazooClient(up.description()["connect"], timeout=20)
        self.seen: list[tuple[int, str]] = []
        self.versions: list[int] = []

    def _note(self, data: bytes, stat: Any, _: object = None) -> None:
        if data and stat.version not in self.versions:
            record = json.loads(data)
            self.versions.append(stat.version)
            self.seen.append((record["epoch"], record["leader"]))

    def __enter__(self) -> "Beats":
        self._client.start(20)
        self._client.DataWatch("/holdfast/default/beat", self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop()
        self._client.close()


def test_leader_and_epoch_stay_while_zookeeper_servers_are_restarted_and_paused(up: Up) -> None:
    before = up.leader()
    with Witness(up) as witness:
        for id in ("1", "2", "3"):
            kill_and_see_it_return(up, id)
        with paused(up.zookeeper(up.follower())["pid"]):
            threading.Event().wait(SESSION_TIMEOUT_S / 2)
        eventually(up.healthy, 60, "all servers serve")
    assert set(witness.seen) == {before}
    assert not witness.failures
    assert len(witness.seen) > 5, "the witness has hardly looked"
    assert up.leader() == before


@pytest.mark.skipif(not COMPILER, reason="there is no C compiler (cc) to build the shim that stalls a disk")
@pytest.mark.parametrize("mode", ["leader", "follower"])
def test_leader_and_epoch_stay_while_a_disk_stalls_and_the_stall_is_reported(up: Up, mode: str) -> None:
    before = up.leader()
    id = next(str(server["id"]) for server in up.cluster()["zookeeper"] if server["mode"] == mode)
    stall = up.directory / "zookeeper" / f"server-{id}" / "disk-stalled"
    with Witness(up) as witness:
        stall.touch()
        threading.Event().wait(3)
        stall.unlink()
        slow = eventually(lambda: _slow_fsync(up, id), 20, "the stall is reported")
    assert set(witness.seen) == {before}
    assert not witness.failures
    assert "disk is slow" in slow


def _slow_fsync(up: Up, id: str) -> str:
    problems = next(server["problems"] for server in up.cluster()["zookeeper"] if server["id"] == id)
    return "; ".join(problems)


def test_a_leading_agent_that_is_killed_is_replaced_without_waiting_for_its_session(up: Up) -> None:
    """By what ZooKeeper says of the session. A machine that stands still for long enough may let one expire, but not each."""
    assert not all(_expires_when_its_agent_is_killed(up) for _ in range(TRIES))


def _expires_when_its_agent_is_killed(up: Up) -> bool:
    leader, epoch = up.leader()
    assert leader is not None
    old = up.node(leader)["agent_pid"]
    session = session_file.read(up.directory / "nodes" / leader / session_file.NAME)
    assert session is not None and session.agent_pid == old
    os.kill(old, signal.SIGKILL)
    new, new_epoch = eventually(lambda: _next_leader(up, epoch), 60, "another leader")
    assert new != leader
    assert new_epoch == epoch + 1
    expired = up.expired(session.session_id)
    eventually(lambda: up.node(leader)["agent_pid"] not in (old, None), 60, "a new agent under the same guard")
    eventually(lambda: len(up.cluster()["nodes"]) == 2, 60, "the node is back")
    return expired


def _next_leader(up: Up, epoch: int) -> tuple[str, int] | None:
    leader, now = up.leader()
    return (leader, now) if leader is not None and now > epoch else None


def test_a_leader_paused_past_its_session_never_writes_again_and_comes_back(up: Up) -> None:
    leader, epoch = up.leader()
    assert leader is not None
    with Beats(up) as beats:
        with paused(up.node(leader)["agent_pid"]):
            eventually(lambda: _next_leader(up, epoch), SESSION_TIMEOUT_S + 5 * TICK_S, "another leader")
            count = len(beats.seen)
            eventually(lambda: len(beats.seen) >= count + 3, 20, "the new leader has beaten a few times")
        eventually(lambda: len(up.cluster()["nodes"]) == 2, 30, "the paused node is back, by itself")
        count = len(beats.seen)
        eventually(lambda: len(beats.seen) >= count + 3, 20, "some more beats")
    epochs = [epoch for epoch, _ in beats.seen]
    assert epochs == sorted(epochs), beats.seen
    assert beats.versions == sorted(beats.versions)
    first_of_the_next = epochs.index(epoch + 1)
    assert all(name != leader for _, name in beats.seen[first_of_the_next:])


def test_a_node_that_is_lost_with_its_guard_is_replaced_when_its_session_ends(up: Up) -> None:
    leader, epoch = up.leader()
    assert leader is not None
    node = up.node(leader)
    with paused(up.description()["supervisor"]["pid"]):  # or it would start the node again within a second
        os.kill(node["pid"], signal.SIGKILL)
        os.kill(node["agent_pid"], signal.SIGKILL)
        slack_s = 3
        eventually(lambda: _next_leader(up, epoch), SESSION_TIMEOUT_S + 2 * TICK_S + slack_s, "another leader")
    eventually(lambda: len(up.cluster()["nodes"]) == 2, 60, "the node is started again")


def test_a_guard_that_is_killed_takes_its_agent_along_and_both_come_back(up: Up) -> None:
    node = up.description()["nodes"][0]
    os.kill(node["pid"], signal.SIGKILL)
    eventually(lambda: ProcessName.of(node["agent_pid"]) is None, 20, "the agent has noticed")
    eventually(lambda: up.node(node["id"])["agent_pid"] not in (node["agent_pid"], None), 20, "a new agent")
    eventually(lambda: len(up.cluster()["nodes"]) == 2, 30, "the node is back")


def test_a_second_up_on_the_same_directory_is_refused(up: Up) -> None:
    answer = holdfast("up", "--dir", str(up.directory), "--detach")
    assert answer.returncode == 1
    assert "already running" in answer.stderr


def test_down_and_up_again_keeps_the_data_and_the_epoch_grows(tmp_path: Path) -> None:
    with started(tmp_path / "c") as up:
        _, first = up.leader()
    assert holdfast("down", "--dir", str(tmp_path / "c")).returncode == 0, "down twice is no error"
    with started(tmp_path / "c") as up:
        _, second = up.leader()
    assert second == first + 1


def test_nothing_outlives_a_killed_up(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*HOLDFAST, "up", "--dir", str(tmp_path / "c")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    with process.stdout as output:
        assert any("is ready" in line for line in output)
        up = Up(tmp_path / "c")
        described = up.description()
        process.kill()
        process.wait()
    pids = [server["pid"] for server in described["zookeepers"]]
    pids += [pid for node in described["nodes"] for pid in (node["pid"], node["agent_pid"])]
    assert len(pids) == 3
    eventually(lambda: all(ProcessName.of(pid) is None for pid in pids), 20, "all are gone")


def test_ctrl_c_stops_everything_and_says_so(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*HOLDFAST, "up", "--dir", str(tmp_path / "c")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    with process.stdout as output:
        assert any("is ready" in line for line in output)
        described = Up(tmp_path / "c").description()
        process.send_signal(signal.SIGINT)
        said = output.read()
        assert process.wait(60) == 0
    assert "stopped" in said
    assert "Traceback" not in said
    assert all(ProcessName.of(server["pid"]) is None for server in described["zookeepers"])
    assert all(ProcessName.of(node["agent_pid"]) is None for node in described["nodes"])
