"""Who leads.

Contenders queue up as ephemeral sequential znodes; the first of them may take the next epoch. The epoch is the version of one
znode that is never deleted, so it only grows, and every write of a leader checks it (`reign`). The queue only decides who
tries: two nodes that both believed themselves first would still be told apart by the epoch.
"""

import re

from holdfast.errors import Conflict
from holdfast.model.cluster_records import EpochRecord
from holdfast.model.codec import Garbage, decode, encode
from holdfast.model.identifiers import Epoch, NodeId
from holdfast.zk.leadership.leadership import Reign
from holdfast.zk.records.paths import CONTENDER_PREFIX, Paths
from holdfast.zk.session.client import Check, Client, Committed, Create, Delete, SetData, Znode

_SEQUENCE = re.compile(r"[\w-]+-(\d{10})", re.ASCII)


class Election:
    """One contender, for one session."""

    def __init__(self, client: Client, paths: Paths, node: NodeId, nonce: str) -> None:
        self._client = client
        self._paths = paths
        self._node = node
        self._prefix = f"{CONTENDER_PREFIX}{nonce}-"
        self.obstacles: tuple[str, ...] = ()
        """What stands in the queue and was not put there by a contender, one sentence each."""
        self.ahead = 0
        """How many contenders stand before this one, dead ones among them."""

    async def stand(self) -> str:
        """Join the queue, once. A lost reply is no reason to join twice: our own name is looked for first."""
        if (mine := await self._mine()) is None:
            # What was sent before a reply got lost may still be on its way through the ensemble. After a sync it is not.
            await self._client.sync(self._paths.election)
            mine = await self._mine()
        if mine is None:
            await self._client.commit([Create(self._paths.contender(self._prefix), ephemeral=True, sequential=True)])
            mine = await self._mine()
        if mine is None:
            raise Conflict("this node's place in the election is gone")
        return mine

    async def _mine(self) -> str | None:
        names = await self._client.children(self._paths.election, watch=True)
        return next((name for name in sorted(names) if name.startswith(self._prefix)), None)

    async def withdraw(self) -> None:
        """Leave the queue."""
        if (mine := await self._mine()) is not None:
            await self._client.commit([Delete(self._paths.contender(mine), 0)])

    async def first(self, mine: str) -> bool:
        """Whether no living contender stands before `mine`; if one does, its end wakes us."""
        names = await self._client.children(self._paths.election, watch=True)
        if mine not in names:
            raise Conflict("this node's place in the election is gone")
        self.ahead = sum(_sequence(name) < _sequence(mine) for name in names)
        obstacles = []
        for name in sorted((name for name in names if _sequence(name) < _sequence(mine)), key=_sequence):
            stat = await self._client.exists(self._paths.contender(name), watch=True)
            if stat is not None and stat.owner != 0:
                return False
            if stat is not None:
                obstacles.append(f"{self._paths.contender(name)} belongs to no session and is passed over: delete it")
        self.obstacles = tuple(obstacles)
        return True

    async def ascend(self, mine: str, epoch: Znode) -> Reign | None:
        """Take the next epoch, or find that it was taken already, by us. None: somebody else was faster."""
        if self.won_by(mine, epoch):
            return self._reign(mine, Epoch(epoch.stat.version))
        record = encode(EpochRecord(leader=self._node, contender=mine))
        outcome = await self._client.commit(
            [Check(self._paths.contender(mine), 0), SetData(self._paths.epoch, record, epoch.stat.version)]
        )
        if not isinstance(outcome, Committed):
            return None
        return self._reign(mine, Epoch(epoch.stat.version + 1))

    def won_by(self, mine: str, epoch: Znode) -> bool:
        """Contender names are never used twice, so a record that names ours was written by us."""
        record = read_epoch(self._paths, epoch)
        return record is not None and record.contender == mine

    def _reign(self, mine: str, epoch: Epoch) -> Reign:
        return Reign(self._client, self._paths, node=self._node, epoch=epoch, contender=mine)


def read_epoch(paths: Paths, znode: Znode) -> EpochRecord | None:
    """None for no leader so far, and for garbage: the next leader writes over it. Raises NewerSchema."""
    if not znode.data:
        return None
    try:
        return decode(EpochRecord, znode.data, where=paths.epoch)
    except Garbage:
        return None


def is_contender(name: str) -> bool:
    return _sequence(name) < float("inf")


def _sequence(name: str) -> float:
    """The place in the queue. What has no number was not made by a contender and stands behind everyone."""
    match = _SEQUENCE.fullmatch(name)
    return int(match[1]) if match and name.startswith(CONTENDER_PREFIX) else float("inf")
