"""Forgetting what ended long ago, so that the records of a cluster stay bounded.

A record is swept in one transaction, or not at all: a half of it could be taken for a job. Blobs are swept only when no record
names them, and none at all while there is a spec that cannot be read, because nobody knows what that one names.
"""

import asyncio
from collections.abc import Callable

from holdfast.clock import Clock
from holdfast.errors import HoldfastError
from holdfast.leader.observer import Observer
from holdfast.log import Log
from holdfast.model.codec import Garbage, NewerSchema, decode
from holdfast.model.identifiers import JobId
from holdfast.model.job import Spec, State
from holdfast.plan.retention import Keep, due
from holdfast.zk.leadership.leadership import Reign
from holdfast.zk.leadership.write_outcome import Done
from holdfast.zk.records.paths import SPEC_PREFIX, Paths
from holdfast.zk.records.submission import RequestRecord
from holdfast.zk.session.client import Client, Delete, NoNode, Operation

RECORDS_S = 60.0
BLOBS_S = 3600.0
SWEPT_MAX = 50
"""Records per round."""

SweepBlobs = Callable[[Callable[[], set[str]]], list[str]]
"""Removes the blobs that the given function does not name. Blocks."""


class Sweeper:
    def __init__(
        self,
        client: Client,
        paths: Paths,
        reign: Reign,
        observer: Observer,
        *,
        clock: Clock,
        keep: Keep,
        log: Log,
        sweep_blobs: SweepBlobs | None = None,
    ) -> None:
        self._client = client
        self._paths = paths
        self._reign = reign
        self._observer = observer
        self._clock = clock
        self._keep = keep
        self._log = log
        self._sweep_blobs = sweep_blobs
        # A new leader has better things to do first.
        self._records_at = clock.boottime() + RECORDS_S
        self._blobs_at = clock.boottime() + BLOBS_S / 4
        self._blobs: asyncio.Task[None] | None = None

    async def sweep_if_due(self) -> None:
        now = self._clock.boottime()
        if now >= self._records_at:
            self._records_at = now + RECORDS_S
            for job in due(self._observer.ended(), self._keep, self._clock.wall())[:SWEPT_MAX]:
                await self._sweep(job)
        if now >= self._blobs_at and self._sweep_blobs is not None and (self._blobs is None or self._blobs.done()):
            self._blobs_at = now + BLOBS_S
            self._blobs = asyncio.ensure_future(self._sweep_all_blobs(self._sweep_blobs))

    async def _sweep(self, job: JobId) -> None:
        """Read as it is now, and deleted as it was read."""
        path = self._paths.job(job)
        try:
            parts = sorted(await self._client.children(path))
            found = {part: await self._client.get(f"{path}/{part}") for part in parts}
            state = decode(State, found["state"].data, where=path)
        except (NoNode, KeyError, Garbage):
            return  # it is not what it was: the next pass says what it is
        if not state.phase.final or "lease" in found:
            return
        operations: list[Operation] = [Delete(f"{path}/{part}", znode.stat.version) for part, znode in found.items()]
        operations += [Delete(path, 0), *await self._request(job, state.request)]
        if isinstance(await self._reign.commit(operations), Done):
            self._log.info("job swept", job=job, phase=state.phase)

    async def _request(self, job: JobId, request: str) -> list[Operation]:
        """If it is still that job's."""
        if not request:
            return []
        path = self._paths.request(request)
        try:
            znode = await self._client.get(path)
            ours = decode(RequestRecord, znode.data, where=path).job == job
        except (NoNode, Garbage):
            return []
        return [Delete(path, znode.stat.version)] if ours else []

    async def _sweep_all_blobs(self, sweep: SweepBlobs) -> None:
        loop = asyncio.get_running_loop()

        def named() -> set[str]:
            return asyncio.run_coroutine_threadsafe(self._named(), loop).result(timeout=300)

        try:
            removed = await asyncio.to_thread(sweep, named)
        except (HoldfastError, OSError, TimeoutError) as error:
            self._log.warning("blobs not swept", problem=str(error))
        else:
            if removed:
                self._log.info("blobs swept", blobs=len(removed))

    async def _named(self) -> set[str]:
        """Every blob that a record names, ended jobs included. Raises if one cannot be read."""
        blobs: set[str] = set()
        for job in map(JobId, await self._client.children(self._paths.jobs)):
            try:
                for part in await self._client.children(self._paths.job(job)):
                    if part == "spec" or part.startswith(SPEC_PREFIX):
                        blobs |= await self._named_by(self._paths.job(job, part))
            except NoNode:
                continue
        return blobs

    async def _named_by(self, path: str) -> set[str]:
        try:
            spec = decode(Spec, (await self._client.get(path)).data, where=path)
        except (Garbage, NewerSchema) as error:
            raise Garbage(f"nobody knows which blobs it needs: {error}") from error
        return {spec.blob, *(blob for _, blob in spec.py_files)}
