"""Verification that ZooKeeper still holds the cluster that this node knows.

A ZooKeeper that comes back empty, or with older data, is treated as unreachable until an operator accepts it. Otherwise changes
that it has lost would be undone: a cancelled job, for example, would run again.
"""

from holdfast.errors import Conflict, Refused
from holdfast.log import Log
from holdfast.model.cluster_records import HeartbeatRecord
from holdfast.model.cluster_watermark import ClusterWatermark
from holdfast.model.codec import MalformedRecord, decode
from holdfast.node.last_seen import LastSeen
from holdfast.zk.records.epoch import decode_epoch
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, Create, NodeExists, NoNode, Rejected, Znode


class UnrecognizedCluster(Refused):
    """ZooKeeper holds another cluster, or older data than this node has seen."""


class ClusterIdentity:
    def __init__(self, paths: Paths, last_seen: LastSeen, log: Log) -> None:
        self._paths = paths
        self._last_seen = last_seen
        self._log = log
        self._znodes_checked_for: Client | None = None
        """Session in which all required znodes were found or created."""

    def invalidate(self) -> None:
        """Check the required znodes again during the next read."""
        self._znodes_checked_for = None

    async def read_verified_epoch(self, client: Client) -> Znode:
        """Return the epoch znode after verifying the cluster; create the znodes of a new cluster.

        Raises UnrecognizedCluster if ZooKeeper is empty or older than what this node has seen.
        """
        known = self._last_seen.latest()
        znode, watermark = await self._read_watermark(client)
        if known is not None and known.mismatch_with(watermark):
            # A server that lags behind its leader also returns older data. Decide only after a sync.
            await client.sync(self._paths.root)
            znode, watermark = await self._read_watermark(client)
            if mismatch := known.mismatch_with(watermark):
                raise UnrecognizedCluster(
                    f"{mismatch}; this node does nothing until an operator accepts this ZooKeeper (--accept-zookeeper)"
                )
        if znode is None or self._znodes_checked_for is not client:
            await self._create_missing_znodes(client)
            self._znodes_checked_for = client
            znode, watermark = await self._read_watermark(client)
        if znode is None or watermark is None:
            raise Conflict("the cluster's znodes were deleted while they were being created")
        try:
            self._last_seen.record(watermark)
        except OSError as error:
            # On a full disk the check gets weaker, but the node can continue.
            self._log.warning("memory not written", problem=f"the cluster's epoch and beat cannot be saved: {error.strerror}")
        return znode

    async def _read_watermark(self, client: Client) -> tuple[Znode | None, ClusterWatermark | None]:
        try:
            epoch = await client.get(self._paths.epoch, watch=True)
            beat = await client.get(self._paths.beat)
        except NoNode:
            return None, None
        self._check_schemas(epoch, beat)
        # From the znode statistics, not from the data: overwriting the data does not change identity and counters.
        identity = f"{epoch.stat.created_zxid:x}-{epoch.stat.created_ms:x}"
        return epoch, ClusterWatermark(identity, epoch.stat.version, beat.stat.version)

    def _check_schemas(self, epoch: Znode, beat: Znode) -> None:
        """Raise NewerSchema. Malformed data is only logged: the next leader and the next heartbeat overwrite it."""
        decode_epoch(self._paths, epoch)
        if beat.data:
            try:
                decode(HeartbeatRecord, beat.data, where=self._paths.beat)
            except MalformedRecord as error:
                self._log.warning("beat unreadable", problem=str(error))

    async def _create_missing_znodes(self, client: Client) -> None:
        """Create each required znode that is missing. Another node may do the same concurrently."""
        for path in self._paths.required_znodes:
            if await client.exists(path) is not None:
                continue
            outcome = await client.commit([Create(path, shared=path in self._paths.shared_parents)])
            if isinstance(outcome, Rejected) and not isinstance(outcome.error, NodeExists):
                raise outcome.error
