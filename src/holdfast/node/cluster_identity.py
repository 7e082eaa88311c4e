"""Whether the ZooKeeper that answers is the one this node knows.

A ZooKeeper that comes back empty or older than it was is treated as unreachable until a person accepts it: what it has
forgotten, cancelled jobs among it, would come back to life.
"""

from holdfast.errors import Conflict, Refused
from holdfast.log import Log
from holdfast.model.cluster_records import BeatRecord
from holdfast.model.cluster_watermark import Sighting
from holdfast.model.codec import Garbage, decode
from holdfast.node.last_seen import Memory
from holdfast.zk.leadership.election import read_epoch
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, Create, NodeExists, NoNode, Rejected, Znode


class Unrecognized(Refused):
    """This ZooKeeper has lost what the node remembers."""


class Recognition:
    def __init__(self, paths: Paths, memory: Memory, log: Log) -> None:
        self._paths = paths
        self._memory = memory
        self._log = log
        self._whole_for: Client | None = None
        """The session in which every part of the skeleton was seen."""

    def doubt(self) -> None:
        """Something was not as it should be: look at the skeleton again."""
        self._whole_for = None

    async def epoch(self, client: Client) -> Znode:
        """The epoch, once the ZooKeeper is recognized; a cluster that nobody has seen before is founded."""
        known = self._memory.recall()
        znode, sighting = await self._look(client)
        if known is not None and known.objection_to(sighting):
            # A server that lags behind looks older too: only what holds after a sync is true.
            await client.sync(self._paths.root)
            znode, sighting = await self._look(client)
            if objection := known.objection_to(sighting):
                raise Unrecognized(f"{objection}; nothing is done until a person accepts this ZooKeeper (--accept-zookeeper)")
        if znode is None or self._whole_for is not client:
            await self._found(client)
            self._whole_for = client
            znode, sighting = await self._look(client)
        if znode is None or sighting is None:
            raise Conflict("the cluster's znodes were deleted while they were being created")
        try:
            self._memory.remember(sighting)
        except OSError as error:
            # A full disk makes the check weaker. It is no reason to stop.
            self._log.warning(
                "memory not written", problem=f"what was seen of the cluster cannot be written down: {error.strerror}"
            )
        return znode

    async def _look(self, client: Client) -> tuple[Znode | None, Sighting | None]:
        try:
            epoch = await client.get(self._paths.epoch, watch=True)
            beat = await client.get(self._paths.beat)
        except NoNode:
            return None, None
        self._check_schemas(epoch, beat)
        # From the statistics, never from the data: whatever bytes somebody writes there, identity and counters hold.
        identity = f"{epoch.stat.created_zxid:x}-{epoch.stat.created_ms:x}"
        return epoch, Sighting(identity, epoch.stat.version, beat.stat.version)

    def _check_schemas(self, epoch: Znode, beat: Znode) -> None:
        """Raises NewerSchema. Garbage is said, and written over by the next leader and the next beat."""
        read_epoch(self._paths, epoch)
        if beat.data:
            try:
                decode(BeatRecord, beat.data, where=self._paths.beat)
            except Garbage as error:
                self._log.warning("beat unreadable", problem=str(error))

    async def _found(self, client: Client) -> None:
        """Create what every cluster has, and what somebody deleted of it. Whoever comes second finds it there."""
        for path in self._paths.skeleton:
            if await client.exists(path) is not None:
                continue
            outcome = await client.commit([Create(path, shared=path in self._paths.parents)])
            if isinstance(outcome, Rejected) and not isinstance(outcome.error, NodeExists):
                raise outcome.error
