"""Network of the chaos suite: real namespaces, real packets, and nothing left at the end."""

import itertools
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.zk.embedded.ports import LOOPBACK
from tests.chaos.network import PRIVATE_NAMESPACES, NodeNetwork, can_partition
from tests.chaos.partitions import PARTITION_TARGETS, ZOOKEEPER, blocked_directions
from tests.chaos.small_disk import can_freeze, mounted_storage
from tests.harness.waiting import wait_until

REPOSITORY = Path(__file__).parents[2]
NODES = ("n1", "n2")
PORT = 7071
LAST = "last"
RECEIVE = (
    "import socket, sys; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('', int(sys.argv[1]))); open(sys.argv[2], 'w')\n"
)
RECEIVE += "while True: open(sys.argv[2], 'a').write(s.recv(99).decode())"
SEND = "import socket, sys; socket.socket(type=socket.SOCK_DGRAM).sendto(sys.argv[3].encode(), (sys.argv[1], int(sys.argv[2])))"


@pytest.mark.slow
def test_cuts_drop_packets_in_the_named_directions_only_and_leave_nothing_behind(tmp_path: Path) -> None:
    _run_in_private_namespaces("cuts", tmp_path)


@pytest.mark.slow
def test_storage_is_away_for_one_node_only(tmp_path: Path) -> None:
    _run_in_private_namespaces("storage", tmp_path)


@pytest.mark.slow
def test_frozen_storage_delays_writes_until_it_is_thawed(tmp_path: Path) -> None:
    _run_in_private_namespaces("freeze", tmp_path)


def _run_in_private_namespaces(name: str, directory: Path) -> None:
    if not can_partition():
        pytest.skip("this machine has no network namespaces, or not the programs for them")
    command = [*PRIVATE_NAMESPACES, sys.executable, "-m", "tests.chaos.test_network", name, str(directory)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    if "skip:" in done.stdout:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stderr


def _check_cuts(directory: Path) -> None:
    with NodeNetwork(directory) as network:
        for node in NODES:
            network.add_node(node)
        hosts = {node: network.prefix(node) for node in NODES} | {ZOOKEEPER: []}
        everything = {(sender, receiver) for sender in hosts for receiver in hosts if sender != receiver}
        receivers = [
            subprocess.Popen([*prefix, sys.executable, "-c", RECEIVE, str(PORT), str(directory / host)])
            for host, prefix in hosts.items()
        ]
        try:
            wait_until(lambda: all((directory / host).exists() for host in hosts), 20.0, "all hosts receive")
            assert _find_open_directions(network, hosts, directory) == everything
            for action, target in itertools.product(("cut", "cut-in", "cut-out"), sorted(PARTITION_TARGETS)):
                blocked = blocked_directions(action, target, node="n1", nodes=NODES)
                network.block(blocked)
                assert _find_open_directions(network, hosts, directory) == everything - blocked, (action, target)
                network.unblock(blocked)
            assert _find_open_directions(network, hosts, directory) == everything
        finally:
            for receiver in receivers:
                receiver.kill()
                receiver.wait()
    # The kernel removes the namespace of a process some time after its end.
    wait_until(lambda: [name for _, name in socket.if_nameindex()] == ["lo"], 20.0, "no interface is left")


def _find_open_directions(network: NodeNetwork, hosts: dict[str, list[str]], directory: Path) -> set[tuple[str, str]]:
    """Send a datagram from each host to each other one. Return the directions in which it arrives.

    The last datagram to each host comes from itself: when it has arrived, all others have arrived or were dropped.
    """
    for host in hosts:
        (directory / host).write_text("")
    for sender, prefix in hosts.items():
        for receiver in hosts.keys() - {sender}:
            _send(prefix, network.address(receiver), f"{sender}>{receiver} ")
    for prefix in hosts.values():
        _send(prefix, LOOPBACK, LAST)
    wait_until(lambda: all(LAST in (directory / host).read_text() for host in hosts), 20.0, "the last datagram has arrived")
    words = [word for host in hosts for word in (directory / host).read_text().split() if word != LAST]
    return {(sender, receiver) for sender, _, receiver in (word.partition(">") for word in words)}


def _send(prefix: list[str], address: str, text: str) -> None:
    subprocess.run([*prefix, sys.executable, "-c", SEND, address, str(PORT), text], check=True)


def _check_storage(directory: Path) -> None:
    (directory / "file").write_text("")

    def is_visible(node: str) -> bool:
        command = [*network.prefix(node), "test", "-e", str(directory / "file")]
        return subprocess.run(command, check=False).returncode == 0

    with NodeNetwork(directory) as network:
        for node in NODES:
            network.add_node(node)
        network.unmount_storage("n1")
        assert not is_visible("n1") and is_visible("n2") and (directory / "file").exists()
        network.mount_storage("n1")
        assert is_visible("n1")


def _check_freeze(directory: Path) -> None:
    if not can_freeze(directory / "probe"):
        sys.stdout.write("skip: this machine has no file system that can be frozen\n")
        return
    with mounted_storage(directory / "storage") as disk:
        disk.freeze()
        writer = subprocess.Popen(["touch", str(directory / "storage" / "file")])
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(0.5)
        disk.thaw()
        assert writer.wait(10) == 0


if __name__ == "__main__":
    {"cuts": _check_cuts, "storage": _check_storage, "freeze": _check_freeze}[sys.argv[1]](Path(sys.argv[2]))
