"""Nodes that can be asked for failsafe promises: their addresses, and the secret that authenticates the runner to them."""

from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import MalformedRecord, NewerSchema, decode
from holdfast.model.identifiers import NodeId
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, NoNode


class FailsafeNodes:
    """Registered nodes of the cluster, as of the last `refresh`."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._addresses: dict[NodeId, str] = {}
        self.secret = ""
        """Secret of the cluster."""

    @property
    def names(self) -> tuple[NodeId, ...]:
        return tuple(sorted(self._addresses))

    def address(self, node: NodeId) -> str:
        """Return the node's HTTP address, or an empty string if it is unknown."""
        return self._addresses.get(node, "")

    async def refresh(self, client: Client) -> None:
        """Read the nodes and the secret, and watch for changes of the nodes. Raises the errors of the client."""
        self.secret = await self._read_secret(client)
        addresses: dict[NodeId, str] = {}
        for name in await client.children(self._paths.nodes, watch=True):
            try:
                znode = await client.get(self._paths.node(NodeId(name)))
                addresses[NodeId(name)] = decode(NodeRecord, znode.data, where=name).address
            except NoNode:
                continue
            except (MalformedRecord, NewerSchema):
                # Keep the node without an address: it may start the job, so no promise is complete without it.
                addresses[NodeId(name)] = ""
        self._addresses = addresses

    async def _read_secret(self, client: Client) -> str:
        try:
            return (await client.get(self._paths.secret)).data.decode(errors="replace").strip()
        except NoNode:
            return ""
