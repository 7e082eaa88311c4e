"""Leader election.

Contenders queue up as ephemeral sequential znodes, and the first one takes the next epoch. The epoch is the version of a
znode that is never deleted, so it only grows. Every write of a leader checks it (`leadership`). The queue only decides which
node tries to lead: if two nodes believe that they are first, only one of them can take the epoch.
"""

from holdfast.errors import Conflict
from holdfast.model.codec import encode
from holdfast.model.epoch_record import EpochRecord
from holdfast.model.identifiers import Epoch, NodeId
from holdfast.zk.leadership.leadership import Leadership
from holdfast.zk.records.epoch import decode_epoch, sequence_number
from holdfast.zk.records.paths import CONTENDER_PREFIX, Paths
from holdfast.zk.session.client import Check, Client, Committed, Create, Delete, SetData, Znode


class Election:
    """One contender of the election, tied to one session."""

    def __init__(self, client: Client, paths: Paths, node: NodeId, nonce: str) -> None:
        self._client = client
        self._paths = paths
        self._node = node
        self._prefix = f"{CONTENDER_PREFIX}{nonce}-"
        self.queue_problems: tuple[str, ...] = ()
        """One sentence for each znode in the queue that belongs to no session."""
        self.contenders_ahead = 0
        """Number of queued znodes before this contender, including those of dead contenders."""

    async def join(self) -> str:
        """Join the queue and return the name of this contender's znode. Joins only once, even after a lost reply."""
        if (contender := await self._find_own_contender()) is None:
            # Sync first: a create request whose reply was lost may still be in flight.
            await self._client.sync(self._paths.election)
            contender = await self._find_own_contender()
        if contender is None:
            await self._client.commit([Create(self._paths.contender(self._prefix), ephemeral=True, sequential=True)])
            contender = await self._find_own_contender()
        if contender is None:
            raise Conflict("this node's znode in the election queue was deleted")
        return contender

    async def _find_own_contender(self) -> str | None:
        names = await self._client.children(self._paths.election, watch=True)
        return next((name for name in sorted(names) if name.startswith(self._prefix)), None)

    async def leave(self, client: Client) -> None:
        """Leave the queue. `client` is the same session; a node also leaves the queue of a cluster that it did not verify."""
        for name in await client.children(self._paths.election):
            if name.startswith(self._prefix):
                await client.commit([Delete(self._paths.contender(name), 0)])

    async def is_first(self, contender: str) -> bool:
        """Return True if no live contender is before `contender`; otherwise watch the first one that is."""
        names = await self._client.children(self._paths.election, watch=True)
        if contender not in names:
            raise Conflict("this node's znode in the election queue was deleted")
        own_number = sequence_number(contender)
        ahead = [name for name in names if sequence_number(name) < own_number]
        self.contenders_ahead = len(ahead)
        problems = []
        for name in sorted(ahead, key=sequence_number):
            stat = await self._client.exists(self._paths.contender(name), watch=True)
            if stat is not None and stat.ephemeral_owner != 0:
                return False
            if stat is not None:
                problems.append(f"{self._paths.contender(name)} belongs to no session and is ignored: delete it")
        self.queue_problems = tuple(problems)
        return True

    async def take_epoch(self, contender: str, epoch: Znode) -> Leadership | None:
        """Take the next epoch and return the leadership, or None if another contender was faster.

        If this contender already holds the epoch, because a reply was lost, nothing is written.
        """
        if self.holds_epoch(contender, epoch):
            return self._make_leadership(contender, Epoch(epoch.stat.version))
        record = encode(EpochRecord(leader=self._node, contender=contender))
        outcome = await self._client.commit(
            [Check(self._paths.contender(contender), 0), SetData(self._paths.epoch, record, epoch.stat.version)]
        )
        if not isinstance(outcome, Committed):
            return None
        return self._make_leadership(contender, Epoch(epoch.stat.version + 1))

    def holds_epoch(self, contender: str, epoch: Znode) -> bool:
        """Return True if this contender wrote the epoch record. Contender names are never reused."""
        record = decode_epoch(self._paths, epoch)
        return record is not None and record.contender == contender

    def _make_leadership(self, contender: str, epoch: Epoch) -> Leadership:
        return Leadership(self._client, self._paths, node=self._node, epoch=epoch, contender=contender)
