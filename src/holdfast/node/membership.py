"""Registration of a node: an ephemeral znode with its slots, address, version and health."""

from dataclasses import replace

from holdfast.errors import Conflict
from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import encode
from holdfast.model.identifiers import NodeId
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, Create, NodeExists, Rejected, SetData, Stat


class Membership:
    def __init__(self, client: Client, paths: Paths, node: NodeId, record: NodeRecord) -> None:
        self._client = client
        self._path = paths.node(node)
        self._node = node
        self._record = record
        self._registered_health: str | None = None
        """Health in the znode; None if it is unknown."""

    async def ensure_registered(self, health: str = "") -> None:
        """Create the znode unless this session already owns it, and write the node's health if it has changed.

        Raises Conflict if another session or no session owns the znode.
        """
        record = self._record if self._record.health == health else replace(self._record, health=health)
        stat = await self._client.exists(self._path, watch=True)
        if stat is None:
            self._registered_health = None
            outcome = await self._client.commit([Create(self._path, encode(record), ephemeral=True)])
            if not isinstance(outcome, Rejected):
                self._registered_health = health
                return
            if not isinstance(outcome.error, NodeExists):
                raise outcome.error
            stat = await self._client.exists(self._path, watch=True)
        session = self._client.session
        if stat is None:
            return
        if session is None or stat.ephemeral_owner == session.id:
            await self._update_health(record, stat)
            return
        if stat.ephemeral_owner == 0:
            raise Conflict(f"{self._path} was not created by a node (no session owns it): delete it")
        raise Conflict(
            f"node '{self._node}' is registered by another session (0x{stat.ephemeral_owner & (2**64 - 1):x}); "
            "waiting for that session to end. If this message persists, two nodes use the same node.id"
        )

    async def _update_health(self, record: NodeRecord, stat: Stat) -> None:
        if self._registered_health == record.health:
            return
        self._registered_health = None
        outcome = await self._client.commit([SetData(self._path, encode(record), stat.version)])
        if isinstance(outcome, Rejected):
            raise outcome.error
        self._registered_health = record.health
