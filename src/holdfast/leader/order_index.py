"""Orders that exist in ZooKeeper, by node."""

import asyncio

from holdfast.model.identifiers import JobId, NodeId
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client
from holdfast.zk.session.missing_znode import none_if_missing


class OrderIndex:
    def __init__(self, client: Client, paths: Paths) -> None:
        self._client = client
        self._paths = paths
        self.jobs_by_node: dict[NodeId, frozenset[JobId]] = {}
        """Jobs with an order, for each node that has an order directory."""
        self._changed: set[str] = set()
        """Paths of orders that another process has modified."""
        self._versions: dict[str, int] = {}
        """Versions of the modified orders. Every other order has version 0, as the leader created it."""

    def mark_changed(self, path: str) -> None:
        """Note that another process has modified an order; the next refresh reads its version."""
        self._changed.add(path)

    async def refresh(self) -> None:
        nodes = sorted(await self._client.children(self._paths.orders))
        reads = [none_if_missing(self._client.children(self._paths.node_orders(NodeId(node)))) for node in nodes]
        listed = zip(nodes, await asyncio.gather(*reads), strict=True)
        self.jobs_by_node = {NodeId(node): frozenset(map(JobId, jobs)) for node, jobs in listed if jobs is not None}
        changed = sorted(self._changed)
        stats = await asyncio.gather(*(self._client.exists(path) for path in changed))
        self._versions = {path: stat.version for path, stat in zip(changed, stats, strict=True) if stat is not None}
        self._changed = set(self._versions)

    def nodes_with_order(self, job: JobId) -> list[NodeId]:
        return [node for node, jobs in self.jobs_by_node.items() if job in jobs]

    def has_directory(self, node: NodeId) -> bool:
        return node in self.jobs_by_node

    def version(self, path: str) -> int:
        return self._versions.get(path, 0)
