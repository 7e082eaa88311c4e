"""Verification that ZooKeeper still holds the cluster that this node knows.

A ZooKeeper that comes back empty, or with older data, is treated as unreachable until an operator accepts it. Otherwise changes
that it has lost would be undone: a cancelled job, for example, would run again.
"""

from holdfast.errors import Conflict, Refused, Unavailable
from holdfast.log import Log
from holdfast.model.cluster_records import HeartbeatRecord
from holdfast.model.cluster_watermark import ClusterWatermark
from holdfast.model.codec import MalformedRecord, NewerSchema, decode
from holdfast.node.last_seen import LastSeen
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, Create, NodeExists, NoNode, Rejected, Znode
from holdfast.zk.session.verified_client import VerifiedClient


class UnrecognizedCluster(Refused):
    """ZooKeeper holds another cluster, or older data than this node has seen."""


class ClusterIdentity:
    def __init__(self, paths: Paths, last_seen: LastSeen, log: Log) -> None:
        self._paths = paths
        self._last_seen = last_seen
        self._log = log
        self._znodes_checked_for: Client | None = None
        """Session in which all required znodes were found or created."""
        self._logged_write_problem = ""
        self._heartbeat_problem = ""

    def invalidate(self) -> None:
        """Check the required znodes again during the next read."""
        self._znodes_checked_for = None

    async def read_verified_epoch(self, client: VerifiedClient) -> Znode:
        """Verify the cluster, allow calls of `client` on this connection, and return the epoch znode.

        The znodes of a new cluster are created. Raises UnrecognizedCluster if ZooKeeper is empty or older than what this node
        has seen, and NewerSchema; after UnrecognizedCluster the client refuses all calls until a later verification succeeds.
        """
        connection = client.connection_count
        try:
            epoch, beat = await self._read_recognized(client.unverified)
        except UnrecognizedCluster:
            client.revoke()
            raise
        if client.connection_count != connection:
            raise Unavailable("the connection to ZooKeeper changed during the verification")
        self._record(_watermark_of(epoch, beat))
        client.accept(connection)
        self._log_unreadable_heartbeat(beat)
        return epoch

    async def _read_recognized(self, client: Client) -> tuple[Znode, Znode]:
        """Return the epoch and the beat znode of a cluster that is not older than what this node has seen."""
        known = self._last_seen.latest()
        znodes = await self._read_znodes(client)
        if known is not None and known.mismatch_with(_watermark_of(*znodes)):
            # A server that lags behind its leader also returns older data. Decide only after a sync.
            await client.sync(self._paths.root)
            znodes = await self._read_znodes(client)
            if mismatch := known.mismatch_with(_watermark_of(*znodes)):
                raise UnrecognizedCluster(
                    f"{mismatch}; this node does nothing until an operator accepts this ZooKeeper (--accept-zookeeper)"
                )
        if None in znodes or self._znodes_checked_for is not client:
            await self._create_missing_znodes(client)
            self._znodes_checked_for = client
            znodes = await self._read_znodes(client)
        epoch, beat = znodes
        if epoch is None or beat is None:
            raise Conflict("the cluster's znodes were deleted while they were being created")
        return epoch, beat

    async def _read_znodes(self, client: Client) -> tuple[Znode | None, Znode | None]:
        try:
            return await client.get(self._paths.epoch, watch=True), await client.get(self._paths.beat)
        except NoNode:
            return None, None

    def _record(self, watermark: ClusterWatermark | None) -> None:
        if watermark is not None:
            self._last_seen.record(watermark)
        problem = self._last_seen.write_problem
        if problem and problem != self._logged_write_problem:
            # On a full disk the check gets weaker, but the node can continue.
            self._log.warning(
                "watermark not written",
                problem=f"{problem}; if this agent restarts, it may not notice that ZooKeeper came back older",
            )
        self._logged_write_problem = problem

    def _log_unreadable_heartbeat(self, beat: Znode) -> None:
        """Log once that the heartbeat is unreadable. Only its znode version matters, and the next heartbeat replaces it."""
        problem = ""
        try:
            if beat.data:
                decode(HeartbeatRecord, beat.data, where=self._paths.beat)
        except (MalformedRecord, NewerSchema) as error:
            problem = str(error)
        if problem and problem != self._heartbeat_problem:
            self._log.warning("beat unreadable", problem=problem)
        self._heartbeat_problem = problem

    async def _create_missing_znodes(self, client: Client) -> None:
        """Create each required znode that is missing. Another node may do the same concurrently."""
        for path in self._paths.required_znodes:
            if await client.exists(path) is not None:
                continue
            outcome = await client.commit([Create(path, shared=path in self._paths.shared_parents)])
            if isinstance(outcome, Rejected) and not isinstance(outcome.error, NodeExists):
                raise outcome.error


def _watermark_of(epoch: Znode | None, beat: Znode | None) -> ClusterWatermark | None:
    if epoch is None or beat is None:
        return None
    # From the znode statistics, not from the data: overwriting the data does not change identity and counters.
    identity = f"{epoch.stat.created_zxid:x}-{epoch.stat.created_ms:x}"
    return ClusterWatermark(identity, epoch.stat.version, beat.stat.version)
