"""One real server: data, owner, ports and files."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from holdfast.errors import Refused
from holdfast.zk.embedded import EmbeddedEnsemble, Ports, ServerSettings, ZooKeeperServer
from holdfast.zk.embedded.ports import LOOPBACK, is_port_taken
from tests.harness.waiting import wait_until

READY_S = 60.0

OWNER = """
import signal, sys
from pathlib import Path
from holdfast.zk.embedded import EmbeddedEnsemble

ensemble = EmbeddedEnsemble(Path(sys.argv[1]))
ensemble.start()
ensemble.wait_ready(60)
sys.stdout.write(f"{ensemble.servers[0].pid}\\n")
sys.stdout.flush()
signal.pause()
"""


def has_ended(pid: int) -> bool:
    """Return True if the process has ended. A zombie counts: the new parent of an orphan may never collect it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state in "ZX"


def listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((LOOPBACK, port))
    listener.listen()
    return listener


@pytest.mark.slow
def test_data_and_ports_survive_a_restart_and_the_log_has_the_default_format(tmp_path: Path) -> None:
    first = EmbeddedEnsemble(tmp_path / "zk", size=1)
    assert first.start() == ()
    try:
        first.wait_ready(READY_S)
        client = KazooClient(first.connect_string)
        client.start(timeout=30)
        client.create("/kept", b"data")
        client.stop()
        client.close()
    finally:
        first.stop()
    assert not first.servers[0].running
    assert first.servers[0].exit_reason() == "it was terminated by SIGTERM"

    second = EmbeddedEnsemble(tmp_path / "zk")
    assert second.connect_string == first.connect_string
    assert second.start() == ()
    try:
        second.wait_ready(READY_S)
        client = KazooClient(second.connect_string)
        client.start(timeout=30)
        assert client.get("/kept")[0] == b"data"
        client.stop()
        client.close()
        assert second.servers[0].health().mode == "standalone"
    finally:
        second.stop()
    line = second.servers[0].log.read_text().splitlines()[0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \[myid:1\] - INFO  \[main:\w+@\d+\] - .+", line)
    assert second.servers[0].console.read_text() == ""


@pytest.mark.slow
def test_server_ends_with_its_owner_and_has_one_owner_at_a_time(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            pid = int(owner.stdout.readline())
            assert not has_ended(pid)
            successor = EmbeddedEnsemble(tmp_path)
            with pytest.raises(Refused, match=r"another process is running ZooKeeper server 1 in .*: stop it first"):
                successor.start()
            assert not has_ended(pid)
            # Pause the server: only SIGKILL ends a paused process.
            os.kill(pid, signal.SIGSTOP)
        finally:
            owner.kill()
    wait_until(lambda: has_ended(pid), within_s=10, what=f"server {pid} ends after its owner was killed")
    try:
        assert successor.start() == ()
        successor.wait_ready(READY_S)
    finally:
        successor.stop()


@pytest.mark.slow
def test_server_whose_port_is_taken_gets_new_ports_and_a_note(tmp_path: Path) -> None:
    ensemble = EmbeddedEnsemble(tmp_path, size=1)
    port = ensemble.servers[0].client_port
    with listen(port):
        (note,) = ensemble.start()
        try:
            ensemble.wait_ready(READY_S)
        finally:
            ensemble.stop()
    assert note == f"ZooKeeper server 1 has new ports, because another program uses 127.0.0.1:{port}"
    assert ensemble.servers[0].client_port != port
    assert EmbeddedEnsemble(tmp_path).connect_string == ensemble.connect_string


@pytest.mark.slow
def test_port_in_use_is_the_exit_reason(tmp_path: Path) -> None:
    ports = Ports.pick()
    server = ZooKeeperServer(1, tmp_path, {1: ports}, ServerSettings())
    with listen(ports.client):
        assert is_port_taken(ports.client)
        server.start()
        try:
            wait_until(lambda: not server.running, within_s=30, what="the server ends")
            assert server.exit_reason() == f"port {ports.client} on 127.0.0.1 is in use by another program"
        finally:
            server.stop()


@pytest.mark.slow
def test_wait_ready_fails_at_once_if_a_server_cannot_write(tmp_path: Path) -> None:
    ensemble = EmbeddedEnsemble(tmp_path, size=1)
    data = tmp_path / "server-1" / "data"
    data.mkdir(parents=True)
    # Put a file where a directory is needed: unlike permissions, this stops root too.
    (data / "version-2").write_text("")
    ensemble.start()
    try:
        with pytest.raises(Refused) as refused:
            ensemble.wait_ready(READY_S)
    finally:
        ensemble.stop()
    reason = f"it cannot write to its directory {tmp_path}/server-1: Not a directory"
    assert str(refused.value).startswith(f"ZooKeeper server 1 is not running: {reason}")
