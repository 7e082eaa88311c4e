"""One real server: its data, its owner, its ports and its files."""

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
from holdfast.zk.embedded import Ensemble, Ports, Server, Settings
from holdfast.zk.embedded.ports import LOOPBACK, taken
from tests.harness.waiting import eventually

READY_S = 60.0

OWNER = """
import signal, sys
from pathlib import Path
from holdfast.zk.embedded import Ensemble

ensemble = Ensemble(Path(sys.argv[1]))
ensemble.start()
ensemble.wait_ready(60)
sys.stdout.write(f"{ensemble.servers[0].pid}\\n")
sys.stdout.flush()
signal.pause()
"""


def gone(pid: int) -> bool:
    """Ended, even if nobody collects it: an orphan's new parent may be slow to, or never do it."""
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


def test_data_and_ports_survive_a_restart_and_the_log_has_the_usual_shape(tmp_path: Path) -> None:
    first = Ensemble(tmp_path / "zk", size=1)
    assert first.start() == ()
    try:
        first.wait_ready(READY_S)
        client = KazooClient(first.connect)
        client.start(timeout=30)
        client.create("/kept", b"data")
        client.stop()
        client.close()
    finally:
        first.stop()
    assert not first.servers[0].running
    assert first.servers[0].exit_hint() == "it was ended by SIGTERM"

    second = Ensemble(tmp_path / "zk")
    assert second.connect == first.connect
    assert second.start() == ()
    try:
        second.wait_ready(READY_S)
        client = KazooClient(second.connect)
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


def test_a_server_ends_with_its_owner_and_belongs_to_one_owner_at_a_time(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            pid = int(owner.stdout.readline())
            assert not gone(pid)
            heir = Ensemble(tmp_path)
            with pytest.raises(Refused, match=r"another process runs ZooKeeper server 1 on .*: stop that one first"):
                heir.start()
            assert not gone(pid)
            # Frozen too: a signal that asks would wait for ever.
            os.kill(pid, signal.SIGSTOP)
        finally:
            owner.kill()
    eventually(lambda: gone(pid), within_s=10, what=f"server {pid} ends after its owner was killed")
    try:
        assert heir.start() == ()
        heir.wait_ready(READY_S)
    finally:
        heir.stop()


def test_a_port_that_was_taken_meanwhile_moves_the_server_and_says_so(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path, size=1)
    port = ensemble.servers[0].client_port
    with listen(port):
        (note,) = ensemble.start()
        try:
            ensemble.wait_ready(READY_S)
        finally:
            ensemble.stop()
    assert note == f"ZooKeeper server 1 moved to new ports, because another program uses 127.0.0.1:{port}"
    assert ensemble.servers[0].client_port != port
    assert Ensemble(tmp_path).connect == ensemble.connect


def test_a_port_that_is_in_use_is_named_as_the_reason(tmp_path: Path) -> None:
    ports = Ports.pick()
    server = Server(1, tmp_path, {1: ports}, Settings())
    with listen(ports.client):
        assert taken(ports.client)
        server.start()
        try:
            eventually(lambda: not server.running, within_s=30, what="the server gives up")
            assert server.exit_hint() == f"port {ports.client} on 127.0.0.1 is in use by another program"
        finally:
            server.stop()


def test_waiting_for_a_server_that_cannot_write_fails_at_once_with_the_reason(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path, size=1)
    data = tmp_path / "server-1" / "data"
    data.mkdir(parents=True)
    # A file where a directory is needed: unlike permissions, this stops root as well.
    (data / "version-2").write_text("")
    ensemble.start()
    try:
        with pytest.raises(Refused) as refused:
            ensemble.wait_ready(READY_S)
    finally:
        ensemble.stop()
    reason = f"it cannot write to its directory {tmp_path}/server-1: Not a directory"
    assert str(refused.value).startswith(f"ZooKeeper server 1 is not running: {reason}")
