"""Network of the cluster under attack: one network and mount namespace per node, and a bridge between them.

The bridge is in the network namespace of this process, where the ZooKeeper servers and the users are. That namespace must be
private (`enter_private_namespaces`), so that the machine's own network never changes. A process per node keeps the namespaces
of the node open. The kernel removes namespaces, interfaces, packet filters and mounts when these processes have ended.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.zk.embedded import with_parent_death_signal
from tests.chaos.partitions import ZOOKEEPER, Direction

BRIDGE = "chaos-bridge"
PREFIX = "10.77.0"
"""First three bytes of all addresses. They exist in the private namespaces only."""
PREFIX_BITS = 24
ZOOKEEPER_ADDRESS = f"{PREFIX}.254"
API_PORT = 7070
PROGRAMS = ("ip", "nft", "nsenter", "unshare", "mount")
NAMESPACE_TIMEOUT_S = 10.0
# The filter is at the receiver. So the sender notices nothing but silence, as if a cable were broken. It names the receiver,
# because the kernel may also filter packets that the bridge passes from one node to another (bridge-nf-call-iptables).
PACKET_FILTER = """
table inet chaos {{
    set blocked {{ type ipv4_addr; }}
    chain incoming {{
        type filter hook prerouting priority -300; policy accept;
        ip saddr @blocked ip daddr {address} counter drop
    }}
}}
"""
PRIVATE_NAMESPACES = ("unshare", "--net", "--mount", "--propagation", "private", "--")
PROBE = "ip link add bridge0 type bridge && ip link add veth0 type veth peer name veth1 && nft add table inet probe"


def can_partition() -> bool:
    """Return True if this machine has the programs, and this process the permission, to build such a network."""
    if any(shutil.which(program) is None for program in PROGRAMS):
        return False
    return subprocess.run([*PRIVATE_NAMESPACES, "sh", "-c", PROBE], check=False, capture_output=True).returncode == 0


def enter_private_namespaces(command: Sequence[str]) -> None:
    """Replace this process by a command that runs in a network and a mount namespace of its own."""
    os.execvp(PRIVATE_NAMESPACES[0], [*PRIVATE_NAMESPACES, *command])


class NodeNetwork:
    """Bridge with one namespace per node. Packets can be dropped in each direction between two hosts."""

    def __init__(self, storage: Path) -> None:
        self._storage = storage
        self._keepers: dict[str, subprocess.Popen[bytes]] = {}
        self._blocked: set[Direction] = set()
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> "NodeNetwork":
        _run(["ip", "link", "set", "lo", "up"])
        _run(["ip", "link", "add", BRIDGE, "type", "bridge"])
        self._cleanup.callback(_run, ["ip", "link", "delete", BRIDGE])
        _run(["ip", "address", "add", f"{ZOOKEEPER_ADDRESS}/{PREFIX_BITS}", "dev", BRIDGE])
        _run(["ip", "link", "set", BRIDGE, "up"])
        _run(["nft", "-f", "-"], PACKET_FILTER.format(address=ZOOKEEPER_ADDRESS))
        self._cleanup.callback(_run, ["nft", "delete", "table", "inet", "chaos"])
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the rules, the interfaces and the namespaces. The processes of the nodes must have ended."""
        for keeper in self._keepers.values():
            keeper.kill()
            keeper.wait()
        self._cleanup.close()

    def add_node(self, node: str) -> None:
        """Create the namespaces of a node. Only the main thread may call this."""
        command = with_parent_death_signal([*PRIVATE_NAMESPACES, "sleep", "infinity"], signal.SIGKILL)
        keeper = self._keepers[node] = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        _wait_for_namespaces(keeper.pid)
        link = f"chaos-{node}"
        _run(["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(keeper.pid)])
        _run(["ip", "link", "set", link, "master", BRIDGE, "up"])
        self._run_in(node, ["ip", "address", "add", f"{self.address(node)}/{PREFIX_BITS}", "dev", "eth0"])
        for interface in ("lo", "eth0"):
            self._run_in(node, ["ip", "link", "set", interface, "up"])
        self._run_in(node, ["nft", "-f", "-"], PACKET_FILTER.format(address=self.address(node)))
        # Shared, so that later mounts on it also appear in the mount namespaces of drivers.
        self._run_in(node, ["mount", "--bind", str(self._storage), str(self._storage)])
        self._run_in(node, ["mount", "--make-shared", str(self._storage)])

    def address(self, host: str) -> str:
        """Return the address of a node, or of the ZooKeeper servers."""
        return ZOOKEEPER_ADDRESS if host == ZOOKEEPER else f"{PREFIX}.{1 + list(self._keepers).index(host)}"

    def prefix(self, node: str) -> list[str]:
        """Return the beginning of a command line that runs the rest of it in the namespaces of the node."""
        return ["nsenter", f"--target={self._keepers[node].pid}", "--net", "--mount", "--"]

    # Faults

    def block(self, directions: Iterable[Direction]) -> None:
        """Drop all packets from the first to the second host of each pair, from now on."""
        new = set(directions) - self._blocked
        self._blocked |= new
        self._change_filters("add", new)

    def unblock(self, directions: Iterable[Direction]) -> None:
        old = self._blocked & set(directions)
        self._blocked -= old
        self._change_filters("delete", old)

    def _change_filters(self, action: str, directions: Iterable[Direction]) -> None:
        senders: dict[str, list[str]] = defaultdict(list)
        for sender, receiver in sorted(directions):
            senders[receiver].append(self.address(sender))
        for receiver, addresses in senders.items():
            command = ["nft", f"{action} element inet chaos blocked {{ {', '.join(addresses)} }}"]
            if receiver == ZOOKEEPER:
                _run(command)
            else:
                self._run_in(receiver, command)

    def unmount_storage(self, node: str) -> None:
        """Hide the storage from all processes of a node. They see an empty directory that can be written, the mount point."""
        self._run_in(node, ["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(self._storage)])

    def mount_storage(self, node: str) -> None:
        """Make the storage visible again. Files that are open in the empty directory stay open."""
        self._run_in(node, ["umount", "--lazy", str(self._storage)])

    def _run_in(self, node: str, command: Sequence[str], text: str = "") -> None:
        _run([*self.prefix(node), *command], text)


def _run(command: Sequence[str], text: str = "") -> None:
    done = subprocess.run(command, check=False, input=text, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


def _wait_for_namespaces(pid: int) -> None:
    """Wait until the process has left the namespaces of this process."""
    give_up_at = time.monotonic() + NAMESPACE_TIMEOUT_S
    while any(os.readlink(f"/proc/{pid}/ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "mnt")):
        if time.monotonic() > give_up_at:
            raise OSError("unshare has not created the namespaces of a node")
        time.sleep(0.005)
    # `unshare` sets the propagation of mounts after it has created the namespaces, and then runs `sleep`.
    while Path(f"/proc/{pid}/comm").read_text().strip() != "sleep":
        if time.monotonic() > give_up_at:
            raise OSError("unshare has not prepared the namespaces of a node")
        time.sleep(0.005)
