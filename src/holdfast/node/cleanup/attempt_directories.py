"""Removal of the attempt directories of deleted jobs, which hold the logs of their last attempts."""

import asyncio
import shutil
import time
from collections.abc import Callable, Collection
from pathlib import Path

from holdfast.clock import Clock
from holdfast.errors import HoldfastError
from holdfast.log import Log
from holdfast.model.identifiers import JobId, is_valid_name
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client

INTERVAL_S = 900.0
AGE_S_MIN = 3600.0
"""Time since the last attempt of a job began. Protects the directory of a job that was submitted a moment ago."""
JOBS_PER_ROUND_MAX = 200


def list_old_job_directories(root: Path, *, wall_s: float) -> list[Path]:
    """Return the directories of jobs without a recent attempt, at most `JOBS_PER_ROUND_MAX`. Blocks."""
    old = []
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if is_valid_name(path.name) and path.is_dir() and path.stat().st_mtime < wall_s - AGE_S_MIN:
            old.append(path)
    return old[:JOBS_PER_ROUND_MAX]


class AttemptDirectoryCleanup:
    """Removal of directories in a separate task, so that a slow disk does not delay the node's heartbeat."""

    def __init__(
        self, root: Path, list_open_jobs: Callable[[], Collection[JobId]], paths: Paths, clock: Clock, log: Log
    ) -> None:
        """`list_open_jobs` returns the jobs with attempts that are not closed."""
        self._root = root
        self._list_open_jobs = list_open_jobs
        self._paths = paths
        self._clock = clock
        self._log = log
        self._due_at = clock.boottime() + INTERVAL_S
        self._task: asyncio.Task[None] | None = None

    def start_if_due(self, client: Client) -> None:
        """Start a round. Call it only while the node is registered: then ZooKeeper is certainly that of the node's cluster."""
        now = self._clock.boottime()
        if now < self._due_at or (self._task is not None and not self._task.done()):
            return
        self._due_at = now + INTERVAL_S
        self._task = asyncio.ensure_future(self._run(client))

    async def _run(self, client: Client) -> None:
        try:
            await self.remove_deleted_jobs(client)
        except (HoldfastError, OSError) as error:
            self._log.info("attempt directories not removed", problem=str(error))

    async def remove_deleted_jobs(self, client: Client) -> None:
        """Remove the directories of jobs that have neither a record nor a quarantine record. Raises the client's errors."""
        old = await asyncio.to_thread(list_old_job_directories, self._root, wall_s=time.time())
        open_jobs = frozenset(self._list_open_jobs())
        candidates = [path for path in old if path.name not in open_jobs]
        if not candidates:
            return
        await client.sync(self._paths.jobs)
        for path in candidates:
            if await self._is_deleted(client, JobId(path.name)):
                await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
                self._log.info("attempt directories removed", job=path.name)

    async def _is_deleted(self, client: Client, job: JobId) -> bool:
        records = (self._paths.job(job), self._paths.quarantine_entry(job))
        return not any([await client.exists(path) for path in records])
