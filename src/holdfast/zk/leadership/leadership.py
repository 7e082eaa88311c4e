"""One epoch of one leader, and the only way in which a leader writes.

Every write is one transaction that begins with a check of the epoch. So a leader that was paused, cut off or superseded
cannot change anything, whatever it believes and however late its packets arrive; it needs no clock for that.
"""

from collections.abc import Sequence

from holdfast.errors import HoldfastError, OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.model.cluster_records import BeatRecord
from holdfast.model.codec import encode
from holdfast.model.identifiers import Epoch, NodeId
from holdfast.zk.leadership.write_outcome import Conflict, Done, Final, LeadershipLost, Outcome, Unknown, Unsent
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import BadVersion, Check, Client, NoNode, Operation, Rejected, SetData, Stat


class Reign:
    def __init__(self, client: Client, paths: Paths, *, node: NodeId, epoch: Epoch, contender: str) -> None:
        self._client = client
        self._paths = paths
        self._node = node
        self._beat_version: int | None = None
        self.epoch = epoch
        self.contender = contender

    async def commit(self, operations: Sequence[Operation]) -> Outcome:
        """All operations or none, and none unless this reign is still the newest. Never retried, never queued."""
        try:
            result = await self._client.commit([*self._fence(), *operations])
        except Unavailable as error:
            return Unsent(str(error))
        except OutcomeUnknown as error:
            return Unknown(str(error))
        except SessionEnded as error:
            return LeadershipLost(str(error))
        except Refused as error:
            return Final(str(error))
        fences = len(self._fence())
        if not isinstance(result, Rejected):
            return Done(result.results[fences:])
        if result.index < fences:
            return self._fenced(result.error)
        path = operations[result.index - fences].path
        return Final(str(result.error)) if isinstance(result.error, Refused) else Conflict(path, str(result.error))

    def _fence(self) -> list[Operation]:
        return [Check(self._paths.epoch, self.epoch)]

    def _fenced(self, error: HoldfastError) -> Outcome:
        if isinstance(error, BadVersion | NoNode):
            return LeadershipLost(f"epoch {self.epoch} is over: a later one has begun")
        return Final(str(error))

    async def beat(self, *, wall_s: float) -> Outcome:
        """The leader's sign of life, and its confirmation if the outcome is Done."""
        if self._beat_version is None:
            try:
                self._beat_version = (await self._client.get(self._paths.beat)).stat.version
            except NoNode as error:
                return Conflict(self._paths.beat, str(error))
            except Unavailable as error:
                return Unsent(str(error))
        record = encode(BeatRecord(leader=self._node, epoch=self.epoch, wall_s=round(wall_s, 3)))
        outcome = await self.commit([SetData(self._paths.beat, record, self._beat_version)])
        match outcome:
            case Done((Stat(version), *_)):
                self._beat_version = version
            case _:
                self._beat_version = None  # unknown or changed by somebody: read it before the next one
        return outcome
