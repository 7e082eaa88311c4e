"""Attempt directories on a node: those of deleted jobs are removed, all others stay."""

import asyncio
import os
from pathlib import Path
from typing import cast

from holdfast.errors import Unavailable
from holdfast.model.identifiers import JobId
from holdfast.node.cleanup.attempt_directories import (
    AGE_S_MIN,
    INTERVAL_S,
    JOBS_PER_ROUND_MAX,
    AttemptDirectoryCleanup,
    list_old_job_directories,
)
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client
from tests.contract.leader_scene import ErrorRaisingLog
from tests.harness.settable_clock import SettableClock

PATHS = Paths("c")


class KnownZnodes:
    """The two calls of a Client that the cleanup makes."""

    def __init__(self, *paths: str) -> None:
        self._paths = paths
        self.synced = False
        self.reachable = True

    async def sync(self, path: str) -> None:
        if not self.reachable:
            raise Unavailable("no connection")
        self.synced = True

    async def exists(self, path: str, *, watch: bool = False) -> object | None:
        assert self.synced, "a znode that looks missing may belong to a write still in flight"
        return object() if path in self._paths else None


def make_directory(root: Path, job: str, *, age_s: float = 2 * AGE_S_MIN) -> None:
    (root / job / "1").mkdir(parents=True)
    (root / job / "1" / "driver.log").write_text("log")
    modified = (root / job).stat().st_mtime - age_s
    os.utime(root / job, (modified, modified))


def names(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()}


def test_directories_of_deleted_jobs_are_removed_and_all_others_stay(tmp_path: Path) -> None:
    client = KnownZnodes(PATHS.job(JobId("known")), PATHS.quarantine_entry(JobId("quarantined")))
    for job in ("known", "quarantined", "deleted", "open", "not a job"):
        make_directory(tmp_path, job)
    make_directory(tmp_path, "new", age_s=0)
    (tmp_path / "file").write_text("")
    cleanup = AttemptDirectoryCleanup(tmp_path, lambda: [JobId("open")], PATHS, SettableClock(0.0), ErrorRaisingLog())
    asyncio.run(cleanup.remove_deleted_jobs(cast(Client, client)))
    assert names(tmp_path) == {"known", "quarantined", "open", "not a job", "new", "file"}


def test_nothing_is_removed_without_a_connection_and_the_next_round_is_made_when_due(tmp_path: Path) -> None:
    make_directory(tmp_path, "deleted")
    client, clock = KnownZnodes(), SettableClock(0.0)
    cleanup = AttemptDirectoryCleanup(tmp_path, list, PATHS, clock, ErrorRaisingLog())

    async def make_round() -> bool:
        cleanup.start_if_due(cast(Client, client))
        started = cleanup._task is not None
        if cleanup._task is not None:
            await cleanup._task
            cleanup._task = None
        return started

    async def test() -> None:
        assert not await make_round()
        clock.now = INTERVAL_S
        client.reachable = False
        assert await make_round()
        assert names(tmp_path) == {"deleted"}
        client.reachable = True
        assert not await make_round()
        clock.now = 2 * INTERVAL_S
        assert await make_round()
        assert names(tmp_path) == set()

    asyncio.run(test())


def test_number_of_directories_in_a_round_is_bounded(tmp_path: Path) -> None:
    assert list_old_job_directories(tmp_path / "missing", wall_s=0.0) == []
    for number in range(JOBS_PER_ROUND_MAX + 1):
        (tmp_path / f"j{number}").mkdir()
    far_future = (tmp_path / "j0").stat().st_mtime + 2 * AGE_S_MIN
    assert len(list_old_job_directories(tmp_path, wall_s=far_future)) == JOBS_PER_ROUND_MAX
