"""Deletion of the checkpoints of deleted jobs, after `cluster.keep_checkpoints`.

The transaction that deletes a job's record leaves a tombstone. Only a tombstone makes a checkpoint expire, never the absence of
a record: after a loss of ZooKeeper's data, or in a storage that several clusters share, records are absent too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from holdfast.clock import Clock
from holdfast.errors import HoldfastError
from holdfast.log import Log
from holdfast.model.cluster_records import TombstoneRecord
from holdfast.model.codec import MalformedRecord, NewerSchema, decode, encode
from holdfast.model.identifiers import JobId
from holdfast.plan.retention import RetentionPolicy, select_expired_checkpoints
from holdfast.storage import NotRemovable
from holdfast.zk.leadership.leadership import Leadership
from holdfast.zk.records.batch_reads import read_in_groups, read_znodes
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, Create, Delete, NoNode, Operation, SetData, Znode
from holdfast.zk.session.missing_znode import children_or_empty, none_if_missing

INTERVAL_S = 600.0
FIRST_ROUND_S = 30.0
"""Time until the first round of a new leader, which confirms the running jobs first."""
BACKLOG_INTERVAL_S = 10.0
"""Time until the next round if a round has left expired checkpoints."""
CHECKPOINTS_PER_ROUND_MAX = 20

RemoveCheckpoint = Callable[[JobId], Awaitable[int]]
"""Function that removes the checkpoint of a job and returns the number of its files.

Raises NotRemovable if the checkpoint must be kept, and Unavailable.
"""


class CheckpointCollector:
    def __init__(
        self,
        client: Client,
        paths: Paths,
        leadership: Leadership,
        *,
        clock: Clock,
        retention: RetentionPolicy,
        log: Log,
        remove: RemoveCheckpoint | None,
    ) -> None:
        self._client = client
        self._paths = paths
        self._leadership = leadership
        self._clock = clock
        self._retention = retention
        self._log = log
        self._remove = remove
        self._deleted_at: dict[JobId, float] = {}
        """Times of the tombstones that were read."""
        self._failed: set[JobId] = set()
        """Jobs whose checkpoint could not be deleted. They are tried last, so that they do not delay the others."""
        self._due_at = clock.boottime() + FIRST_ROUND_S
        self._task: asyncio.Task[None] | None = None

    @property
    def _enabled(self) -> bool:
        return self._retention.checkpoints_s is not None and self._remove is not None

    async def build_tombstone(self, job: JobId) -> list[Operation]:
        """Return the operations that record the deletion of a job, for the transaction that deletes its record."""
        if not self._enabled:
            return []
        record, path = encode(TombstoneRecord(round(self._clock.wall(), 3))), self._paths.tombstone(job)
        self._deleted_at.pop(job, None)
        older = await none_if_missing(self._client.get(path))
        if older is not None:  # the job was restored from a copy of ZooKeeper's data and has been deleted again
            return [SetData(path, record, older.stat.version)]
        parent = [] if await self._client.exists(self._paths.tombstones) is not None else [Create(self._paths.tombstones)]
        return [*parent, Create(path, record)]

    def start_if_due(self) -> None:
        """Start a round in a separate task, so that a slow storage does not delay the leader."""
        now = self._clock.boottime()
        if not self._enabled or now < self._due_at or (self._task is not None and not self._task.done()):
            return
        self._due_at = now + INTERVAL_S
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            if await self.collect():
                self._due_at = self._clock.boottime() + BACKLOG_INTERVAL_S
        except (HoldfastError, OSError) as error:
            self._log.warning("expired checkpoints not deleted", problem=str(error))

    async def collect(self) -> bool:
        """Delete expired checkpoints. Return True if more are left. Raises the errors of the client."""
        await self._read_tombstones()
        expired = select_expired_checkpoints(self._deleted_at, self._retention, self._clock.wall())
        if expired:
            await self._client.sync(self._paths.jobs)
        expired.sort(key=self._failed.__contains__)
        for job in expired[:CHECKPOINTS_PER_ROUND_MAX]:
            await self._collect_job(job)
        return len(expired) > CHECKPOINTS_PER_ROUND_MAX

    async def _read_tombstones(self) -> None:
        jobs = [JobId(name) for name in await children_or_empty(self._client, self._paths.tombstones)]
        self._deleted_at = {job: self._deleted_at[job] for job in jobs if job in self._deleted_at}
        new = [job for job in jobs if job not in self._deleted_at]
        for job, znode in zip(new, await read_in_groups(self._read_group, new), strict=True):
            if znode is not None and (wall_s := _deletion_time(znode)) is not None:
                self._deleted_at[job] = wall_s

    async def _read_group(self, jobs: Sequence[JobId]) -> list[Znode | None]:
        return await read_znodes(self._client, map(self._paths.tombstone, jobs))

    async def _collect_job(self, job: JobId) -> None:
        """Delete the checkpoint unless the job exists again, and then the tombstone."""
        self._deleted_at.pop(job)
        try:
            tombstone = await self._client.get(self._paths.tombstone(job))
        except NoNode:
            return
        if await self._exists(job):
            self._log.warning("checkpoint kept", job=job, reason="a record of the job exists again")
        elif not await self._remove_checkpoint(job):
            return
        await self._leadership.commit([Delete(self._paths.tombstone(job), tombstone.stat.version)])

    async def _exists(self, job: JobId) -> bool:
        records = (self._paths.job(job), self._paths.quarantine_entry(job))
        return any([await self._client.exists(path) is not None for path in records])

    async def _remove_checkpoint(self, job: JobId) -> bool:
        """Return False if the storage cannot be used. The tombstone then stays for a later round."""
        assert self._remove is not None
        self._failed.discard(job)
        try:
            files = await self._remove(job)
        except NotRemovable as error:
            self._log.warning("checkpoint kept", job=job, reason=str(error))
        except (HoldfastError, OSError) as error:
            self._failed.add(job)
            self._log.warning("checkpoint not deleted", job=job, problem=str(error))
            return False
        else:
            if files:
                self._log.info("checkpoint deleted", job=job, files=files)
        return True


def _deletion_time(tombstone: Znode) -> float | None:
    """Return the time of the deletion, or None if this version cannot read the tombstone."""
    try:
        return decode(TombstoneRecord, tombstone.data, where="a tombstone").wall_s
    except (MalformedRecord, NewerSchema):
        return None
