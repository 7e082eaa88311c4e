"""Registration of a node: an ephemeral znode with its slots, address and version."""

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

    async def ensure_registered(self) -> None:
        """Create the znode unless this session already owns it. Raises Conflict if another session or no session owns it."""
        stat = await self._client.exists(self._path, watch=True)
        if stat is None:
            outcome = await self._client.commit([Create(self._path, encode(self._record), ephemeral=True)])
            if not isinstance(outcome, Rejected):
                return
            if not isinstance(outcome.error, NodeExists):
                raise outcome.error
            stat = await self._client.exists(self._path, watch=True)
        session = self._client.session
        if stat is None or (session is not None and stat.ephemeral_owner == session.id):
            return
        if stat.ephemeral_owner == 0:
            raise Conflict(f"{self._path} was not created by a node (no session owns it): delete it")
        raise Conflict(
            f"node '{self._node}' is registered by another session (0x{stat.ephemeral_owner & (2**64 - 1):x}); "
            "waiting for that session to end. If this message persists, two nodes use the same node.id"
        )
