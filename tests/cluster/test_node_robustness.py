"""Regression tests: nodes under hostile signals, paused processes, deleted znodes and many connections."""

import ctypes
import os
import shutil
import signal
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from kazoo.client import KazooClient

from holdfast.local.process_identity import ProcessIdentity
from holdfast.zk.embedded.server import ZooKeeperServer
from tests.harness.cluster.command import RunningCluster, holdfast, start_cluster
from tests.harness.cluster.nodes import Node, start_node
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.real


def wait_until_leading(node: Node) -> Node:
    wait_until(node.is_leading, 30, "the node leads")
    return node


def test_second_node_in_the_same_directory_does_not_disturb_the_first(tmp_path: Path, connect: str, cluster: str) -> None:
    with start_node(tmp_path, connect, cluster=cluster) as first:
        agent = wait_until_leading(first).agent_pid()
        with start_node(tmp_path, connect, cluster=cluster) as second:
            assert second.process.wait(30) == 78
        assert first.is_leading()
        assert not first.events("leadership lost")
        assert first.agent_pid() == agent, "the second guard does not overwrite guard.json"


def test_accept_zookeeper_is_valid_for_one_agent_only(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient
) -> None:
    with start_node(tmp_path, connect, cluster=cluster, options=("--accept-zookeeper",)) as node:
        wait_until_leading(node)
        wait_until(lambda: operator.get(f"/holdfast/{cluster}/beat")[1].version >= 6, 30, "the node has saved some beats")
        agent = node.agent_pid()
        assert agent is not None
        os.kill(agent, signal.SIGSTOP)
        operator.delete(f"/holdfast/{cluster}", recursive=True)
        os.kill(agent, signal.SIGKILL)
        wait_until(lambda: "came back empty" in node.problems(), 30, "the next agent objects")
        assert not operator.exists(f"/holdfast/{cluster}")
        assert "Traceback" not in (tmp_path / "log").read_text()


def test_agent_continues_while_its_guard_is_paused(tmp_path: Path, connect: str, cluster: str, operator: KazooClient) -> None:
    """Unread heartbeats must not block the agent's event loop."""
    with start_node(tmp_path, connect, cluster=cluster) as node:
        agent = wait_until_leading(node).agent_pid()
        assert agent is not None
        node.process.send_signal(signal.SIGSTOP)
        try:
            _fill_guard_socket(agent)
            beat = operator.get(f"/holdfast/{cluster}/beat")[1].version
            wait_until(
                lambda: operator.get(f"/holdfast/{cluster}/beat")[1].version > beat + 10,
                20,
                "the leader continues its heartbeats",
            )
            assert node.is_leading()
        finally:
            node.process.send_signal(signal.SIGCONT)


def _fill_guard_socket(agent: int) -> None:
    """Fill the socket buffer between agent and guard, as half an hour without a reader would."""
    environment = dict(entry.split(b"=", 1) for entry in Path(f"/proc/{agent}/environ").read_bytes().split(b"\0") if entry)
    pidfd = os.pidfd_open(agent)
    try:
        with _duplicate_socket(pidfd, int(environment[b"HOLDFAST_GUARD_FD"])) as end, pytest.raises(BlockingIOError):
            while True:
                end.send(b"." * 65536, socket.MSG_DONTWAIT)
    finally:
        os.close(pidfd)


def _duplicate_socket(pidfd: int, number: int) -> socket.socket:
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(438, pidfd, number, 0)  # pidfd_getfd
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return socket.socket(fileno=descriptor)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_stopped_node_closes_its_session(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient, number: signal.Signals
) -> None:
    with start_node(tmp_path, connect, cluster=cluster) as node:
        wait_until_leading(node)
        node.process.send_signal(number)
        assert node.process.wait(20) == 0
        assert not operator.get_children(f"/holdfast/{cluster}/election")


def test_session_of_an_agent_stopped_while_zookeeper_hangs_is_closed(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient, server: ZooKeeperServer
) -> None:
    with start_node(tmp_path, connect, cluster=cluster) as node:
        agent = wait_until_leading(node).agent_pid()
        assert agent is not None
        old = operator.get_children(f"/holdfast/{cluster}/election")
        server.pause()
        os.kill(agent, signal.SIGTERM)
        wait_until(lambda: ProcessIdentity.read(agent) is None, 20, "the agent has ended")
        server.resume()
        wait_until(lambda: node.is_leading() and node.agent_pid() != agent, 30, "the next agent leads")
        assert old[0] not in operator.get_children(f"/holdfast/{cluster}/election")


@pytest.mark.parametrize("folder", ["nodes", "election", "names", "jobs"])
def test_deleted_parent_znode_is_created_again(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient, folder: str
) -> None:
    with start_node(tmp_path, connect, cluster=cluster) as node:
        wait_until_leading(node)
    operator.delete(f"/holdfast/{cluster}/{folder}", recursive=True)
    with start_node(tmp_path, connect, cluster=cluster) as node:
        wait_until_leading(node)
        assert operator.exists(f"/holdfast/{cluster}/{folder}")


def test_guard_restarts_an_agent_killed_by_a_realtime_signal(tmp_path: Path, connect: str, cluster: str) -> None:
    with start_node(tmp_path, connect, cluster=cluster) as node:
        agent = wait_until_leading(node).agent_pid()
        assert agent is not None
        os.kill(agent, signal.SIGRTMIN + 1)
        wait_until(lambda: node.is_leading() and node.agent_pid() not in (agent, None), 30, "another agent leads")


def test_idle_connections_do_not_exhaust_the_descriptors_of_a_node(tmp_path: Path, connect: str, cluster: str) -> None:
    with start_node(tmp_path, connect, cluster=cluster) as node:
        agent = wait_until_leading(node).agent_pid()
        address = urlsplit(node._read("agent.json")["api"])
        connections = []
        try:
            for _ in range(300):
                connections.append(socket.create_connection((address.hostname, address.port), timeout=60))
            wait_until(lambda: len(list(Path(f"/proc/{agent}/fd").iterdir())) < 150, 60, "surplus connections are closed")
        finally:
            for connection in connections:
                connection.close()
        wait_until(node.is_leading, 60, "the node answers again and leads")
        assert not node.events("leadership lost")


def test_modules_in_the_working_directory_are_not_imported(
    tmp_path: Path, connect: str, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "secrets.py").write_text("open('executed', 'w')")
    monkeypatch.chdir(tmp_path / "work")
    with start_node(tmp_path / "node", connect, cluster=cluster) as node:
        wait_until_leading(node)
    assert not (tmp_path / "work" / "executed").exists()


@pytest.mark.slow
def test_up_accepts_a_zookeeper_that_lost_its_data(tmp_path: Path) -> None:
    directory = tmp_path / "ü 😀"
    with start_cluster(directory) as up:
        before = time.monotonic()
        wait_until(lambda: time.monotonic() > before + 7, 10, "the node has saved some beats")
        assert up.leader()[1] == 1
    shutil.rmtree(directory / "zookeeper" / "server-1" / "data")
    with start_cluster(directory, "--accept-zookeeper") as up:
        assert up.leader()[1] == 1


@pytest.mark.slow
def test_down_works_after_cluster_json_was_deleted(tmp_path: Path) -> None:
    with start_cluster(tmp_path / "c"):
        up = RunningCluster(tmp_path / "c")
        supervisor = up.description()["supervisor"]["pid"]
        os.kill(supervisor, signal.SIGSTOP)
        (tmp_path / "c" / "cluster.json").unlink()
        os.kill(supervisor, signal.SIGCONT)
        wait_until((tmp_path / "c" / "cluster.json").exists, 10, "cluster.json is written again")
        assert holdfast("down", "--dir", str(tmp_path / "c")).returncode == 0
        assert ProcessIdentity.read(supervisor) is None
