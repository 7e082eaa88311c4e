"""Other nodes of the cluster, as last read from ZooKeeper. They are kept on disk, for a start without ZooKeeper."""

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.atomic_file import write_atomically
from holdfast.clock import Clock
from holdfast.model.identifiers import NodeId
from holdfast.runner.failsafe_nodes import read_addresses
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client

REFRESH_S = 30.0
"""Interval at which all addresses are read again, besides at each change of the set of nodes."""
OUTDATED_REFRESH_S = 3.0
"""The same interval while some node does not answer at its address."""
UNREGISTERED_S_MAX = 600.0
"""Time for which a node that is no longer registered is still asked: its agent may be restarting, and reports may name it."""


class PeersFile:
    """File with the addresses of the other nodes. Readable by the node's user only."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[NodeId, str]:
        try:
            return {NodeId(node): str(address) for node, address in json.loads(self._path.read_bytes())["peers"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def write(self, addresses: Mapping[NodeId, str]) -> None:
        write_atomically(self._path, json.dumps({"peers": dict(addresses)}).encode())


class KnownPeers:
    def __init__(
        self,
        paths: Paths,
        node: NodeId,
        clock: Clock,
        *,
        saved: Mapping[NodeId, str],
        save: Callable[[Mapping[NodeId, str]], None],
    ) -> None:
        self._paths = paths
        self._node = node
        self._clock = clock
        self._save = save
        self._missing_s: dict[NodeId, float] = {}
        """Time for which each node has been missing in ZooKeeper. Time without ZooKeeper does not count."""
        self._names: frozenset[NodeId] = frozenset()
        self._refresh_at = self._refreshed_at = clock.boottime()
        self.addresses: dict[NodeId, str] = dict(saved)
        """HTTP address of each other node; empty if its record is unreadable."""

    def mark_outdated(self) -> None:
        """Read the addresses again soon, because a node does not answer."""
        self._refresh_at = min(self._refresh_at, self._refreshed_at + OUTDATED_REFRESH_S)

    async def refresh(self, client: Client) -> None:
        """Read the registered nodes, and their addresses if they may have changed. Raises the errors of the client."""
        names = frozenset(NodeId(name) for name in await client.children(self._paths.nodes)) - {self._node}
        now = self._clock.boottime()
        if names == self._names and now < self._refresh_at:
            return
        read = await read_addresses(client, self._paths, sorted(names))
        self._refresh_at, self._names = now + REFRESH_S, names
        self._update(read, now)

    def _update(self, read: Mapping[NodeId, str], now: float) -> None:
        elapsed_s, self._refreshed_at = min(now - self._refreshed_at, REFRESH_S), now
        known = {**self.addresses, **read}
        self._missing_s = {node: 0.0 if node in read else self._missing_s.get(node, 0.0) + elapsed_s for node in known}
        addresses = {node: address for node, address in known.items() if self._missing_s[node] < UNREGISTERED_S_MAX}
        if addresses != self.addresses:
            self.addresses = addresses
            with contextlib.suppress(OSError):  # a full disk: only a restart without ZooKeeper needs the file
                self._save(addresses)
