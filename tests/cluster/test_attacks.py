"""What an unforgiving reviewer broke, and what holds since."""

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

from holdfast.local.process_identity import ProcessName
from tests.harness.cluster.command import Up, holdfast, started
from tests.harness.cluster.nodes import Node, node
from tests.harness.waiting import eventually

pytestmark = pytest.mark.real


def leading(n: Node) -> Node:
    eventually(n.leading, 30, "it leads")
    return n


def test_a_second_node_by_mistake_does_not_close_the_session_of_the_first(tmp_path: Path, connect: str, cluster: str) -> None:
    with node(tmp_path, connect, cluster=cluster) as first:
        agent = leading(first).agent_pid()
        with node(tmp_path, connect, cluster=cluster) as second:
            assert second.process.wait(30) == 78
        assert first.leading()
        assert not first.events("leadership lost")
        assert first.agent_pid() == agent, "nobody else says who the agent is"


def test_what_a_person_accepted_once_is_not_accepted_by_the_next_agent(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient
) -> None:
    with node(tmp_path, connect, cluster=cluster, options=("--accept-zookeeper",)) as n:
        leading(n)
        eventually(lambda: operator.get(f"/holdfast/{cluster}/beat")[1].version >= 6, 30, "some beats were written down")
        agent = n.agent_pid()
        assert agent is not None
        os.kill(agent, signal.SIGSTOP)
        operator.delete(f"/holdfast/{cluster}", recursive=True)
        os.kill(agent, signal.SIGKILL)
        eventually(lambda: "came back empty" in n.problems(), 30, "the next agent objects")
        assert not operator.exists(f"/holdfast/{cluster}")
        assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_paused_guard_does_not_stop_its_agent(tmp_path: Path, connect: str, cluster: str, operator: KazooClient) -> None:
    """Signs of life that nobody reads must not block the loop that shows them."""
    with node(tmp_path, connect, cluster=cluster) as n:
        agent = leading(n).agent_pid()
        assert agent is not None
        n.process.send_signal(signal.SIGSTOP)
        try:
            _fill_the_leash(agent)
            beat = operator.get(f"/holdfast/{cluster}/beat")[1].version
            eventually(lambda: operator.get(f"/holdfast/{cluster}/beat")[1].version > beat + 10, 20, "it goes on beating")
            assert n.leading()
        finally:
            n.process.send_signal(signal.SIGCONT)


def _fill_the_leash(agent: int) -> None:
    """As half an hour without a reader would: the kernel's buffer is full."""
    environment = dict(entry.split(b"=", 1) for entry in Path(f"/proc/{agent}/environ").read_bytes().split(b"\0") if entry)
    pidfd = os.pidfd_open(agent)
    try:
        with _duplicate(pidfd, int(environment[b"HOLDFAST_GUARD_FD"])) as end, pytest.raises(BlockingIOError):
            while True:
                end.send(b"." * 65536, socket.MSG_DONTWAIT)
    finally:
        os.close(pidfd)


def _duplicate(pidfd: int, number: int) -> socket.socket:
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(438, pidfd, number, 0)  # pidfd_getfd
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return socket.socket(fileno=descriptor)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_node_that_is_asked_to_end_leaves_no_session_behind(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient, number: signal.Signals
) -> None:
    with node(tmp_path, connect, cluster=cluster) as n:
        leading(n)
        n.process.send_signal(number)
        assert n.process.wait(20) == 0
        assert not operator.get_children(f"/holdfast/{cluster}/election")


def test_an_agent_that_ends_in_order_while_zookeeper_hangs_leaves_no_session_behind(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient, server: "object"
) -> None:
    with node(tmp_path, connect, cluster=cluster) as n:
        agent = leading(n).agent_pid()
        assert agent is not None
        old = operator.get_children(f"/holdfast/{cluster}/election")
        server.pause()  # type: ignore[attr-defined]
        os.kill(agent, signal.SIGTERM)
        eventually(lambda: ProcessName.of(agent) is None, 20, "the agent has ended")
        server.resume()  # type: ignore[attr-defined]
        eventually(lambda: n.leading() and n.agent_pid() != agent, 30, "the next one leads")
        assert old[0] not in operator.get_children(f"/holdfast/{cluster}/election")


@pytest.mark.parametrize("folder", ["nodes", "election", "names", "jobs"])
def test_a_folder_that_somebody_deleted_is_made_anew(
    tmp_path: Path, connect: str, cluster: str, operator: KazooClient, folder: str
) -> None:
    with node(tmp_path, connect, cluster=cluster) as n:
        leading(n)
    operator.delete(f"/holdfast/{cluster}/{folder}", recursive=True)
    with node(tmp_path, connect, cluster=cluster) as n:
        leading(n)
        assert operator.exists(f"/holdfast/{cluster}/{folder}")


def test_a_guard_survives_odd_signals_to_its_agent(tmp_path: Path, connect: str, cluster: str) -> None:
    with node(tmp_path, connect, cluster=cluster) as n:
        agent = leading(n).agent_pid()
        assert agent is not None
        os.kill(agent, signal.SIGRTMIN + 1)
        eventually(lambda: n.leading() and n.agent_pid() not in (agent, None), 30, "another agent leads")


def test_idle_connections_do_not_take_away_what_a_node_needs(tmp_path: Path, connect: str, cluster: str) -> None:
    with node(tmp_path, connect, cluster=cluster) as n:
        agent = leading(n).agent_pid()
        address = urlsplit(n._read("agent.json")["api"])
        crowd = []
        try:
            for _ in range(300):
                crowd.append(socket.create_connection((address.hostname, address.port), timeout=60))
            eventually(lambda: len(list(Path(f"/proc/{agent}/fd").iterdir())) < 150, 60, "the surplus is closed")
        finally:
            for connection in crowd:
                connection.close()
        eventually(n.leading, 60, "it answers again, and leads")
        assert not n.events("leadership lost")


def test_files_in_the_working_directory_are_not_run(
    tmp_path: Path, connect: str, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "secrets.py").write_text("open('executed', 'w')")
    monkeypatch.chdir(tmp_path / "work")
    with node(tmp_path / "n", connect, cluster=cluster) as n:
        leading(n)
    assert not (tmp_path / "work" / "executed").exists()


@pytest.mark.slow
def test_up_on_a_zookeeper_that_lost_its_data_says_so_and_can_be_accepted(tmp_path: Path) -> None:
    directory = tmp_path / "ü 😀"
    with started(directory) as up:
        before = time.monotonic()
        eventually(lambda: time.monotonic() > before + 7, 10, "some beats were written down")
        assert up.leader()[1] == 1
    shutil.rmtree(directory / "zookeeper" / "server-1" / "data")
    with started(directory, "--accept-zookeeper") as up:
        assert up.leader()[1] == 1


@pytest.mark.slow
def test_down_finds_a_cluster_whose_description_is_gone(tmp_path: Path) -> None:
    with started(tmp_path / "c"):
        up = Up(tmp_path / "c")
        supervisor = up.description()["supervisor"]["pid"]
        os.kill(supervisor, signal.SIGSTOP)
        (tmp_path / "c" / "cluster.json").unlink()
        os.kill(supervisor, signal.SIGCONT)
        eventually((tmp_path / "c" / "cluster.json").exists, 10, "it is written anew")
        assert holdfast("down", "--dir", str(tmp_path / "c")).returncode == 0
        assert ProcessName.of(supervisor) is None
