"""Cluster started by `holdfast up`, under the faults that it must survive."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.local.local_node import LOG_BYTES_MAX, SESSION_TIMEOUT_S
from holdfast.local.process_identity import ProcessIdentity
from holdfast.runner.watchdog.isolation import ISOLATION_VARIABLE, SCAN, find_level
from holdfast.zk.session import session_file
from tests.harness.cluster.command import (
    HOLDFAST,
    LeaderRecorder,
    RunningCluster,
    holdfast,
    kill_server_and_wait_for_restart,
    pause_process,
    start_cluster,
)
from tests.harness.recording_proxy import start_proxy
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(300)]

TICK_S = 1
TRIES = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with start_cluster(tmp_path_factory.mktemp("up") / "c", "--zookeepers", "3", "--nodes", "2", "--faults") as up:
        yield up


@pytest.fixture
def up(cluster: RunningCluster) -> RunningCluster:
    """Two nodes and three ZooKeeper servers, all healthy."""
    wait_until(cluster.is_healthy, 60, "all servers serve")
    wait_until(lambda: len(cluster.cluster()["nodes"]) == 2 and cluster.leader()[0], 60, "two nodes and a leader")
    return cluster


class BeatRecorder:
    """Recorder of every committed beat as (epoch, leader), with its own ZooKeeper client."""

    def __init__(self, up: RunningCluster) -> None:
        self._client = up.zookeeper_client()
        self.records: list[tuple[int, str]] = []
        self.versions: list[int] = []

    def _record(self, data: bytes, stat: Any, _: object = None) -> None:
        if data and stat.version not in self.versions:
            record = json.loads(data)
            self.versions.append(stat.version)
            self.records.append((record["epoch"], record["leader"]))

    def __enter__(self) -> "BeatRecorder":
        self._client.start(20)
        self._client.DataWatch("/holdfast/default/beat", self._record)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop()
        self._client.close()


def test_leader_and_epoch_stay_while_zookeeper_servers_are_restarted_and_paused(up: RunningCluster) -> None:
    before = up.leader()
    with LeaderRecorder(up) as recorder:
        for id in ("1", "2", "3"):
            kill_server_and_wait_for_restart(up, id)
        with pause_process(up.zookeeper(up.follower())["pid"]):
            threading.Event().wait(SESSION_TIMEOUT_S / 2)
        wait_until(up.is_healthy, 60, "all servers serve")
    assert set(recorder.observations) == {before}
    assert not recorder.failures
    assert len(recorder.observations) > 5, "the recorder has too few observations"
    assert up.leader() == before


@pytest.mark.parametrize("mode", ["leader", "follower"])
def test_leader_and_epoch_stay_during_a_disk_stall_which_is_reported(up: RunningCluster, mode: str) -> None:
    before = up.leader()
    id = next(str(server["id"]) for server in up.cluster()["zookeeper"] if server["mode"] == mode)
    stall = up.directory / "zookeeper" / f"server-{id}" / "disk-stalled"
    with LeaderRecorder(up) as recorder:
        stall.touch()
        threading.Event().wait(3)
        stall.unlink()
        slow = wait_until(lambda: _slow_fsync(up, id), 20, "the stall is reported")
    assert set(recorder.observations) == {before}
    assert not recorder.failures
    assert "disk is slow" in slow


def _slow_fsync(up: RunningCluster, id: str) -> str:
    problems = next(server["problems"] for server in up.cluster()["zookeeper"] if server["id"] == id)
    return "; ".join(problems)


def test_killed_leader_is_replaced_before_its_session_expires(up: RunningCluster) -> None:
    """ZooKeeper's log shows expired sessions. On a stalled machine one may expire, but not all of them."""
    assert not all(_does_session_expire_after_kill(up) for _ in range(TRIES))


def _does_session_expire_after_kill(up: RunningCluster) -> bool:
    leader, epoch = up.leader()
    assert leader is not None
    old = up.node(leader)["agent_pid"]
    session = session_file.read(up.directory / "nodes" / leader / session_file.FILE_NAME)
    assert session is not None and session.agent_pid == old
    os.kill(old, signal.SIGKILL)
    successor = wait_until(lambda: _next_leader(up, epoch), 60, "another node leads")
    assert successor is not None and successor[0] != leader
    assert successor[1] == epoch + 1
    expired = up.has_session_expired(session.session_id)
    wait_until(lambda: up.node(leader)["agent_pid"] not in (old, None), 60, "the same guard starts a new agent")
    wait_until(lambda: len(up.cluster()["nodes"]) == 2, 60, "the node is registered again")
    return expired


def _next_leader(up: RunningCluster, epoch: int) -> tuple[str, int] | None:
    leader, now = up.leader()
    return (leader, now) if leader is not None and now > epoch else None


def test_leader_paused_past_its_session_never_writes_again_and_rejoins(up: RunningCluster) -> None:
    leader, epoch = up.leader()
    assert leader is not None
    with BeatRecorder(up) as beats:
        with pause_process(up.node(leader)["agent_pid"]):
            wait_until(lambda: _next_leader(up, epoch), SESSION_TIMEOUT_S + 5 * TICK_S, "another node leads")
            count = len(beats.records)
            wait_until(lambda: len(beats.records) >= count + 3, 20, "the new leader has sent some beats")
        wait_until(lambda: len(up.cluster()["nodes"]) == 2, 30, "the paused node has rejoined")
        count = len(beats.records)
        wait_until(lambda: len(beats.records) >= count + 3, 20, "the leader has sent more beats")
    epochs = [epoch for epoch, _ in beats.records]
    assert epochs == sorted(epochs), beats.records
    assert beats.versions == sorted(beats.versions)
    next_epoch_start = epochs.index(epoch + 1)
    assert all(name != leader for _, name in beats.records[next_epoch_start:])


def test_node_lost_with_its_guard_is_replaced_when_its_session_expires(up: RunningCluster) -> None:
    leader, epoch = up.leader()
    assert leader is not None
    node = up.node(leader)
    with pause_process(up.description()["supervisor"]["pid"]):  # otherwise it restarts the node within a second
        os.kill(node["pid"], signal.SIGKILL)
        os.kill(node["agent_pid"], signal.SIGKILL)
        slack_s = 3
        wait_until(lambda: _next_leader(up, epoch), SESSION_TIMEOUT_S + 2 * TICK_S + slack_s, "another node leads")
    wait_until(lambda: len(up.cluster()["nodes"]) == 2, 60, "the node is restarted")


def test_agent_of_a_killed_guard_exits_and_both_are_restarted(up: RunningCluster) -> None:
    node = up.description()["nodes"][0]
    os.kill(node["pid"], signal.SIGKILL)
    wait_until(lambda: ProcessIdentity.read(node["agent_pid"]) is None, 20, "the agent has exited")
    wait_until(lambda: up.node(node["id"])["agent_pid"] not in (node["agent_pid"], None), 20, "a new agent runs")
    wait_until(lambda: len(up.cluster()["nodes"]) == 2, 30, "the node is registered again")


def test_second_up_in_the_same_directory_is_refused(up: RunningCluster) -> None:
    answer = holdfast("up", "--dir", str(up.directory), "--detach")
    assert answer.returncode == 1
    assert "already running" in answer.stderr


def test_epoch_grows_after_down_and_up(tmp_path: Path) -> None:
    with start_cluster(tmp_path / "c") as up:
        _, first = up.leader()
    assert holdfast("down", "--dir", str(tmp_path / "c")).returncode == 0, "a second down succeeds"
    with start_cluster(tmp_path / "c") as up:
        _, second = up.leader()
    assert second == first + 1


def test_all_processes_end_after_up_is_killed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*HOLDFAST, "up", "--dir", str(tmp_path / "c")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    with process.stdout as output:
        assert any("is ready" in line for line in output)
        up = RunningCluster(tmp_path / "c")
        description = up.description()
        process.kill()
        process.wait()
    pids = [server["pid"] for server in description["zookeepers"]]
    pids += [pid for node in description["nodes"] for pid in (node["pid"], node["agent_pid"])]
    assert len(pids) == 3
    wait_until(lambda: all(ProcessIdentity.read(pid) is None for pid in pids), 20, "all processes have ended")


def test_ctrl_c_stops_all_processes_and_reports_it(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*HOLDFAST, "up", "--dir", str(tmp_path / "c")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    with process.stdout as output:
        assert any("is ready" in line for line in output)
        description = RunningCluster(tmp_path / "c").description()
        process.send_signal(signal.SIGINT)
        printed = output.read()
        assert process.wait(60) == 130
    assert "is stopped" in printed
    assert "Traceback" not in printed
    assert all(ProcessIdentity.read(server["pid"]) is None for server in description["zookeepers"])
    assert all(ProcessIdentity.read(node["agent_pid"]) is None for node in description["nodes"])


def test_up_ignores_the_proxy_of_the_environment(tmp_path: Path) -> None:
    directory = tmp_path / "c"
    with start_proxy() as proxy:
        up = [*HOLDFAST, "up", "--dir", str(directory), "--detach"]
        try:
            answer = subprocess.run(
                up, env=os.environ | proxy.environment, capture_output=True, text=True, timeout=150, check=False
            )
            assert answer.returncode == 0, answer.stdout + answer.stderr
        finally:
            holdfast("down", "--dir", str(directory))
        assert proxy.requests == []


def test_large_node_log_is_rotated_while_the_cluster_runs(up: RunningCluster) -> None:
    log = up.directory / "nodes" / "n1" / "node.log"
    with log.open("ab") as file:
        file.truncate(LOG_BYTES_MAX + 1)  # a hole takes no space
    wait_until(lambda: log.with_suffix(".log.1").exists() and log.stat().st_size < LOG_BYTES_MAX, 60, "the log is rotated")
    assert up.node("n1")["agent_pid"] is not None and up.is_healthy()


@pytest.mark.parametrize("forbidden", [False, True])
def test_node_announces_the_isolation_level_of_its_drivers(tmp_path: Path, *, forbidden: bool) -> None:
    """The agents inherit `HOLDFAST_ISOLATION=scan`, which also prevents namespaces for their drivers."""
    prefix = ["env", f"{ISOLATION_VARIABLE}={SCAN}"] if forbidden else []
    expected = (SCAN, f"{ISOLATION_VARIABLE} is set") if forbidden else find_level()
    with start_cluster(tmp_path / "c", "--nodes", "1", command=[*prefix, *HOLDFAST]) as up:
        wait_until(lambda: len(up.cluster()["nodes"]) == 1, 60, "the node is registered")
        (node,) = up.cluster()["nodes"]
    assert (node["isolation"], node["isolation_problem"]) == expected
