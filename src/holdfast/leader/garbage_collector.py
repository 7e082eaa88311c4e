"""Garbage collection: deletes the records of jobs that ended long ago, their checkpoints, and blobs that no record refers to.

One transaction deletes a whole record, because a partly deleted record could be mistaken for a job. While any spec is
unreadable, no blob is deleted: the spec may refer to it.
"""

import asyncio
from collections.abc import Callable

from holdfast.clock import Clock
from holdfast.errors import HoldfastError
from holdfast.leader.checkpoint_collector import CheckpointCollector, RemoveCheckpoint
from holdfast.leader.observer import Observer
from holdfast.log import Log
from holdfast.model.codec import MalformedRecord, NewerRecord, NewerSchema, decode
from holdfast.model.identifiers import JobId
from holdfast.model.job import JobState, Spec
from holdfast.plan.retention import RetentionPolicy, select_expired
from holdfast.zk.leadership.leadership import Leadership
from holdfast.zk.leadership.write_outcome import WriteCommitted
from holdfast.zk.records.job_records import decode_znode
from holdfast.zk.records.paths import SPEC_PREFIX, Paths
from holdfast.zk.records.submission import RequestRecord
from holdfast.zk.session.client import Client, Delete, NoNode, Operation, Znode

RECORDS_INTERVAL_S = 60.0
BLOBS_INTERVAL_S = 3600.0
RECORDS_PER_ROUND_MAX = 50
"""Records deleted per round, so that a round does not delay the leader's next pass."""
BACKLOG_INTERVAL_S = 5.0
"""Time until the next round if a round has left expired records."""

CollectBlobs = Callable[[Callable[[], set[str]]], list[str]]
"""Blocking function that deletes the blobs its argument does not return, and returns the names of the deleted blobs."""


class GarbageCollector:
    def __init__(
        self,
        client: Client,
        paths: Paths,
        leadership: Leadership,
        observer: Observer,
        *,
        clock: Clock,
        retention: RetentionPolicy,
        log: Log,
        collect_blobs: CollectBlobs | None = None,
        remove_checkpoint: RemoveCheckpoint | None = None,
    ) -> None:
        self._client = client
        self._paths = paths
        self._leadership = leadership
        self._observer = observer
        self._clock = clock
        self._retention = retention
        self._log = log
        self._collect_blobs = collect_blobs
        self._checkpoints = CheckpointCollector(
            client, paths, leadership, clock=clock, retention=retention, log=log, remove=remove_checkpoint
        )
        # A new leader confirms the running jobs first.
        self._records_at = clock.boottime() + RECORDS_INTERVAL_S
        self._blobs_at = clock.boottime() + BLOBS_INTERVAL_S / 4
        self._blob_task: asyncio.Task[None] | None = None

    async def collect_if_due(self) -> None:
        now = self._clock.boottime()
        if now >= self._records_at:
            expired = select_expired(self._observer.ended_at, self._retention, self._clock.wall())
            self._records_at = now + (BACKLOG_INTERVAL_S if len(expired) > RECORDS_PER_ROUND_MAX else RECORDS_INTERVAL_S)
            for job in expired[:RECORDS_PER_ROUND_MAX]:
                await self._delete_job(job)
        if now >= self._blobs_at and self._collect_blobs is not None and (self._blob_task is None or self._blob_task.done()):
            self._blobs_at = now + BLOBS_INTERVAL_S
            self._blob_task = asyncio.ensure_future(self._run_blob_collection(self._collect_blobs))
        self._checkpoints.start_if_due()

    async def _delete_job(self, job: JobId) -> None:
        """Delete a job in the versions that are read now. Skip it if it has changed or has not ended."""
        path = self._paths.job(job)
        try:
            parts = sorted(await self._client.children(path))
            znodes = {part: await self._client.get(f"{path}/{part}") for part in parts}
            state = decode(JobState, znodes["state"].data, where=path)
        except (NoNode, KeyError, MalformedRecord, NewerSchema):
            return  # the job has changed since it was observed; the next pass observes it again
        if not state.phase.final or "lease" in znodes or any(map(_is_newer, znodes.values())):
            return
        operations: list[Operation] = [Delete(f"{path}/{part}", znode.stat.version) for part, znode in znodes.items()]
        operations += [Delete(path, 0), *await self._request_deletion(job, state.request)]
        operations += await self._checkpoints.build_tombstone(job)
        if isinstance(await self._leadership.commit(operations), WriteCommitted):
            self._log.info("job record deleted", job=job, phase=state.phase)

    async def _request_deletion(self, job: JobId, request: str) -> list[Operation]:
        """Return the deletion of the submit request, if the request still belongs to this job."""
        if not request:
            return []
        path = self._paths.request(request)
        try:
            znode = await self._client.get(path)
            belongs_to_job = decode(RequestRecord, znode.data, where=path).job == job
        except (NoNode, MalformedRecord, NewerSchema):
            return []
        return [Delete(path, znode.stat.version)] if belongs_to_job else []

    async def _run_blob_collection(self, collect: CollectBlobs) -> None:
        loop = asyncio.get_running_loop()

        def referenced_blobs() -> set[str]:
            return asyncio.run_coroutine_threadsafe(self._referenced_blobs(), loop).result(timeout=300)

        try:
            removed = await asyncio.to_thread(collect, referenced_blobs)
        except (HoldfastError, OSError, TimeoutError) as error:
            self._log.warning("unused blobs not deleted", problem=str(error))
        else:
            if removed:
                self._log.info("unused blobs deleted", blobs=len(removed))

    async def _referenced_blobs(self) -> set[str]:
        """Return every blob that a spec refers to, including ended jobs. Raise MalformedRecord if a spec cannot be read."""
        blobs: set[str] = set()
        for job in map(JobId, await self._client.children(self._paths.jobs)):
            try:
                for part in await self._client.children(self._paths.job(job)):
                    if part == "spec" or part.startswith(SPEC_PREFIX):
                        blobs |= await self._blobs_of_spec(self._paths.job(job, part))
            except NoNode:
                continue
        return blobs

    async def _blobs_of_spec(self, path: str) -> set[str]:
        try:
            spec = decode(Spec, (await self._client.get(path)).data, where=path)
        except (MalformedRecord, NewerSchema) as error:
            raise MalformedRecord(f"a spec cannot be read, so its blobs are unknown: {error}") from error
        return {spec.blob, *(blob for _, blob in spec.py_files)}


def _is_newer(znode: Znode) -> bool:
    """Return True if a later version of Holdfast wrote the record, of whichever type."""
    return isinstance(decode_znode(JobState, znode, "a part of the job"), NewerRecord)
