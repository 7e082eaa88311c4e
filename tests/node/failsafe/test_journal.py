"""Promise journal: group commit, compaction and a full disk."""

import asyncio
import json
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.clock import SystemClock
from holdfast.model.identifiers import Attempt, JobId
from holdfast.node.failsafe.journal import COMPACTION_BYTES, PromiseJournal
from holdfast.node.failsafe.promises import FailsafePromises
from tests.harness.processes import run_on_small_disk


def open_promises(path: Path) -> tuple[FailsafePromises, PromiseJournal]:
    journal = PromiseJournal(path)
    promises = FailsafePromises(journal, SystemClock(), boot="b1", period_s=10.0, newest_started=lambda _: Attempt(0))
    return promises, journal


def test_promises_that_arrive_together_share_a_commit(tmp_path: Path) -> None:
    promises, journal = open_promises(tmp_path / "journal")

    async def grant_many() -> None:
        await asyncio.gather(*(promises.grant(JobId(f"j{n}"), Attempt(1), 10.0) for n in range(500)))

    asyncio.run(grant_many())
    assert journal.commit_count <= 2
    loaded, _ = open_promises(tmp_path / "journal")
    assert all(loaded.remaining_s(JobId(f"j{n}"), Attempt(2)) > 5 for n in range(500))


def test_stalled_disk_does_not_block_the_event_loop_and_delays_only_the_promises(tmp_path: Path) -> None:
    stalled, resumed = threading.Event(), threading.Event()

    class StalledJournal(PromiseJournal):
        def _replace(self, data: bytes) -> None:
            stalled.set()
            assert resumed.wait(30)
            super()._replace(data)

    journal = StalledJournal(tmp_path / "journal")
    promises = FailsafePromises(journal, SystemClock(), boot="b1", period_s=10.0, newest_started=lambda _: Attempt(0))

    async def test() -> None:
        first = asyncio.ensure_future(promises.grant(JobId("j0"), Attempt(1), 10.0))
        assert await asyncio.to_thread(stalled.wait, 30)
        others = [asyncio.ensure_future(promises.grant(JobId(f"j{n}"), Attempt(1), 10.0)) for n in range(1, 200)]
        for _ in range(100):
            await asyncio.sleep(0)  # the loop runs other tasks meanwhile
        assert not any(task.done() for task in (first, *others)), "no promise is granted before it is saved"
        resumed.set()
        await asyncio.wait_for(asyncio.gather(first, *others), 30)

    asyncio.run(test())
    assert journal.commit_count == 2, "the promises that arrived during the stall share a commit"


def test_journal_is_compacted(tmp_path: Path) -> None:
    promises, journal = open_promises(tmp_path / "journal")
    attempts = {JobId(f"j{n}"): Attempt(1) for n in range(2000)}
    sizes = []

    async def renew() -> None:
        for _ in range(60):
            await promises.grant_all(attempts, 10.0)
            sizes.append((tmp_path / "journal").stat().st_size)

    asyncio.run(renew())
    assert any(later < earlier for earlier, later in pairwise(sizes)), "the journal was replaced"
    assert max(sizes) < 2 * COMPACTION_BYTES
    assert journal.commit_count == 60
    loaded, _ = open_promises(tmp_path / "journal")
    assert all(loaded.remaining_s(job, Attempt(2)) > 5 for job in attempts)


@pytest.mark.parametrize("content", [b"", b"x"])
def test_first_commit_replaces_a_damaged_journal(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "journal").write_bytes(content)
    promises, _ = open_promises(tmp_path / "journal")
    asyncio.run(promises.grant(JobId("j1"), Attempt(1), 10.0))
    loaded, _ = open_promises(tmp_path / "journal")
    assert loaded.remaining_s(JobId("j1"), Attempt(2)) > 5


FULL_DISK = """
import asyncio, json, os, sys
from pathlib import Path
from holdfast.clock import SystemClock
from holdfast.model.identifiers import Attempt, JobId
from holdfast.node.failsafe.journal import PromiseJournal
from holdfast.node.failsafe.promises import FailsafePromises

disk = Path(sys.argv[1])

def load():
    journal = PromiseJournal(disk / "journal")
    return FailsafePromises(journal, SystemClock(), boot="b1", period_s=10.0, newest_started=lambda _: Attempt(0))

def fill():
    try:
        with open(disk / "filler", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    except OSError:
        pass
    try:
        with open(disk / "filler", "ab", buffering=0) as file:
            while file.write(b"x"):
                pass
    except OSError:
        pass

promises = load()
batch = {JobId(f"j{n}"): Attempt(1) for n in range(3000)}
answers = {"before": asyncio.run(promises.grant_all({JobId("first"): Attempt(1)}, 10.0))}
fill()
answers["full"] = sorted(set(asyncio.run(promises.grant_all(batch, 10.0)).values()))
answers["kept"] = load().remaining_s(JobId("first"), Attempt(2)) > 5 and load().remaining_s(JobId("j1"), Attempt(2)) == 0
os.unlink(disk / "filler")
answers["after"] = asyncio.run(promises.grant_all(batch, 10.0))
answers["saved"] = load().remaining_s(JobId("j2999"), Attempt(2)) > 5
print(json.dumps(answers))
"""


def test_full_disk_refuses_promises_and_keeps_the_journal_readable(tmp_path: Path) -> None:
    answers = json.loads(run_on_small_disk(FULL_DISK, tmp_path / "disk"))
    assert answers["before"] == {}
    assert len(answers["full"]) == 1
    assert answers["full"][0].startswith("cannot save the promise: ")
    assert answers["kept"]
    assert answers["after"] == {}
    assert answers["saved"]
