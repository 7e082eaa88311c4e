"""Fenced writes of one leader, for one epoch. Leaders write only through this module.

Every write is one transaction that first checks the epoch. So a leader that was paused, cut off or superseded cannot change
anything, however late its packets arrive. This needs no clock.
"""

from collections.abc import Sequence

from holdfast.errors import HoldfastError, OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.model.cluster_records import HeartbeatRecord
from holdfast.model.codec import encode
from holdfast.model.identifiers import Epoch, NodeId
from holdfast.zk.leadership.write_outcome import (
    LeadershipLost,
    WriteCommitted,
    WriteConflict,
    WriteNotSent,
    WriteOutcome,
    WriteRefused,
    WriteUnknown,
)
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import BadVersion, Check, Client, NoNode, Operation, Rejected, SetData, Stat


class Leadership:
    """One epoch of one leader."""

    def __init__(self, client: Client, paths: Paths, *, node: NodeId, epoch: Epoch, contender: str) -> None:
        self._client = client
        self._paths = paths
        self._node = node
        self._beat_version: int | None = None
        self.epoch = epoch
        self.contender = contender

    async def commit(self, operations: Sequence[Operation]) -> WriteOutcome:
        """Commit all operations or none, and none if a later epoch has begun. Never retried, never queued."""
        try:
            result = await self._client.commit([*self._fence_checks(), *operations])
        except Unavailable as error:
            return WriteNotSent(str(error))
        except OutcomeUnknown as error:
            return WriteUnknown(str(error))
        except SessionEnded as error:
            return LeadershipLost(str(error))
        except Refused as error:
            return WriteRefused(str(error))
        fences = len(self._fence_checks())
        if not isinstance(result, Rejected):
            return WriteCommitted(result.results[fences:])
        if result.index < fences:
            return self._fence_failure(result.error)
        path = operations[result.index - fences].path
        return WriteRefused(str(result.error)) if isinstance(result.error, Refused) else WriteConflict(path, str(result.error))

    def _fence_checks(self) -> list[Operation]:
        return [Check(self._paths.epoch, self.epoch)]

    def _fence_failure(self, error: HoldfastError) -> WriteOutcome:
        if isinstance(error, BadVersion | NoNode):
            return LeadershipLost(f"epoch {self.epoch} has ended: a later epoch has begun")
        return WriteRefused(str(error))

    async def send_heartbeat(self, *, wall_s: float) -> WriteOutcome:
        """Write the heartbeat record. A WriteCommitted outcome confirms the leadership."""
        if self._beat_version is None:
            try:
                self._beat_version = (await self._client.get(self._paths.beat)).stat.version
            except NoNode as error:
                return WriteConflict(self._paths.beat, str(error))
            except Unavailable as error:
                return WriteNotSent(str(error))
        record = encode(HeartbeatRecord(leader=self._node, epoch=self.epoch, wall_s=round(wall_s, 3)))
        outcome = await self.commit([SetData(self._paths.beat, record, self._beat_version)])
        match outcome:
            case WriteCommitted((Stat(version), *_)):
                self._beat_version = version
            case _:
                self._beat_version = None  # the version may have changed: read it before the next heartbeat
        return outcome
