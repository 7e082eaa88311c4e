"""A node's entry in the cluster: an ephemeral znode that says what it offers."""

from holdfast.errors import Conflict
from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import encode
from holdfast.model.identifiers import NodeId
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, Create, NodeExists, Rejected


class Membership:
    def __init__(self, client: Client, paths: Paths, node: NodeId, record: NodeRecord) -> None:
        self._client = client
        self._path = paths.node(node)
        self._node = node
        self._record = record

    async def hold(self) -> None:
        """See to it that the entry is there and is ours. Raises Conflict with a sentence while it is not."""
        stat = await self._client.exists(self._path, watch=True)
        if stat is None:
            outcome = await self._client.commit([Create(self._path, encode(self._record), ephemeral=True)])
            if not isinstance(outcome, Rejected):
                return
            if not isinstance(outcome.error, NodeExists):
                raise outcome.error
            stat = await self._client.exists(self._path, watch=True)
        session = self._client.session
        if stat is None or (session is not None and stat.owner == session.id):
            return
        if stat.owner == 0:
            raise Conflict(f"{self._path} was not made by a node (it belongs to no session): delete it")
        raise Conflict(
            f"node '{self._node}' is registered by another session (0x{stat.owner & (2**64 - 1):x}); waiting for that to end, "
            "and if it does not, two nodes have the same id"
        )
