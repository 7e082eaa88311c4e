"""Garbage collection removes old, unreferenced blobs and nothing else."""

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import Unavailable
from holdfast.storage import BLOB_GRACE_S, Storage, open_storage
from holdfast.storage.filesystem.folder import FolderEntry
from holdfast.storage.filesystem.local_folder import LocalFolder
from tests.harness.processes import start_python

MakeFile = Callable[[bytes], Path]
LATER = 2 * BLOB_GRACE_S


def age(directory: Path, digest: str, by_s: float) -> None:
    then = time.time() - by_s
    os.utime(directory / "blobs" / digest, (then, then))


def digests(storage: Storage) -> set[str]:
    return {blob.digest for blob in storage.list_blobs()}


def test_old_unreferenced_blob_is_removed(location: str, file: MakeFile) -> None:
    storage = open_storage(location, in_subprocess=False)
    referenced, unreferenced = storage.put(file(b"referenced")), storage.put(file(b"unreferenced"))
    assert storage.collect_garbage(lambda: [referenced], now_wall=time.time()) == [], (
        "both blobs are younger than the grace period"
    )
    assert storage.collect_garbage(lambda: [referenced], now_wall=time.time() + LATER) == [unreferenced]
    assert digests(storage) == {referenced}


def test_put_restarts_the_grace_period(directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    source = file(b"x")
    digest = storage.put(source)
    age(directory, digest, LATER)
    storage.put(source)
    assert storage.collect_garbage(lambda: [], now_wall=time.time()) == []
    age(directory, digest, LATER)
    assert storage.collect_garbage(lambda: [], now_wall=time.time()) == [digest]


def test_blob_stored_while_references_are_listed_is_kept(directory: Path, file: MakeFile) -> None:
    """List references after blobs: a blob that is stored in between is not a candidate for removal."""
    storage = open_storage(str(directory))
    source = file(b"x")
    age(directory, storage.put(source), LATER)
    late = file(b"late")

    def list_referenced() -> list[str]:
        age(directory, storage.put(late), LATER)
        return []

    storage.collect_garbage(list_referenced, now_wall=time.time())
    assert digests(storage) == {storage.put(late)}, "the blob was stored after the listing"


def test_blob_renewed_while_references_are_listed_is_kept(directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    source = file(b"x")
    digest = storage.put(source)
    age(directory, digest, LATER)

    def list_referenced() -> list[str]:
        storage.put(source)
        return []

    assert storage.collect_garbage(list_referenced, now_wall=time.time()) == []
    assert storage.has(digest)


def test_nothing_is_removed_if_references_cannot_be_listed(location: str, file: MakeFile) -> None:
    storage = open_storage(location, in_subprocess=False)
    digest = storage.put(file(b"x"))

    def list_referenced() -> list[str]:
        raise Unavailable("no connection")

    with pytest.raises(Unavailable, match="no connection"):
        storage.collect_garbage(list_referenced, now_wall=time.time() + LATER)
    assert storage.has(digest)


def test_invalid_digests_among_the_references_are_ignored(directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    digest = storage.put(file(b"x"))
    age(directory, digest, LATER)
    assert storage.collect_garbage(lambda: ["", "../../x", "é"], now_wall=time.time()) == [digest]


def test_grace_period_must_be_positive(directory: Path) -> None:
    for grace_s in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="grace"):
            open_storage(str(directory)).collect_garbage(lambda: [], now_wall=0.0, grace_s=grace_s)


def test_collection_in_an_empty_storage_removes_nothing(location: str) -> None:
    assert open_storage(location, in_subprocess=False).collect_garbage(lambda: [], now_wall=time.time()) == []


def test_many_blobs_are_removed_in_several_calls(directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    storage.put(file(b"x"))
    for number in range(1001):
        (directory / "blobs" / f"{number:064x}").write_bytes(b"")
        age(directory, f"{number:064x}", LATER)
    assert len(storage.collect_garbage(lambda: [f"{7:064x}"], now_wall=time.time())) == 1000
    assert storage.has(f"{7:064x}")


def test_old_temporary_files_of_killed_writers_are_removed(directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    storage.put(file(b"x"))
    old, new = (directory / "blobs" / f".holdfast-{digit * 16}.tmp" for digit in "01")
    stranger = directory / "blobs" / ".nfs0001"
    for path in (old, new, stranger):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    os.utime(stranger, (1, 1))
    storage.collect_garbage(lambda: [], now_wall=time.time())
    assert not old.exists()
    assert new.exists(), "a writer may still use it"
    assert stranger.exists(), "Holdfast did not write it"


def test_renewed_blob_moved_aside_by_a_killed_collector_can_be_fetched_and_is_moved_back(
    directory: Path, file: MakeFile, tmp_path: Path
) -> None:
    """Simulate a collector that was killed between moving the blob aside and checking its age again."""
    storage = open_storage(str(directory))
    storage.put(file(b"another"))
    digest = storage.put(file(b"renewed at the last moment"))
    (directory / "blobs" / digest).rename(directory / "blobs" / f".swept-{digest}-{'0' * 16}")
    storage.fetch(digest, tmp_path / "out")
    assert not storage.has(digest), "has() is False, so ensure_stored() stores it again"
    assert storage.collect_garbage(lambda: [], now_wall=time.time()) == []
    assert storage.has(digest)


def test_old_blob_moved_aside_by_a_killed_collector_is_removed(directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    digest = storage.put(file(b"x"))
    age(directory, digest, LATER)
    (directory / "blobs" / digest).rename(directory / "blobs" / f".swept-{digest}-{'0' * 16}")
    storage.collect_garbage(lambda: [], now_wall=time.time())
    assert list((directory / "blobs").iterdir()) == []


class InterruptedLocalFolder(LocalFolder):
    """Folder that runs a function once, after the first check of a blob's age."""

    def __init__(self, directory: Path, meanwhile: Callable[[], None]) -> None:
        super().__init__(os.open(directory, os.O_RDONLY), str(directory))
        self._meanwhile = [meanwhile]

    def stat(self, name: str) -> FolderEntry | None:
        entry = super().stat(name)
        while self._meanwhile:
            self._meanwhile.pop()()
        return entry

    def close(self) -> None:
        os.close(self._fd)


def test_blob_submitted_between_age_check_and_removal_is_kept(directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    source = file(b"x")
    digest = storage.put(source)
    age(directory, digest, LATER)

    def submit() -> None:
        assert storage.put(source) == digest
        storage.ensure_stored(source, digest)

    folder = InterruptedLocalFolder(directory / "blobs", submit)
    assert not folder.remove_if_older(digest, time.time() - BLOB_GRACE_S)
    folder.close()
    assert [path.name for path in (directory / "blobs").iterdir()] == [digest]


def test_only_one_of_two_concurrent_collectors_reports_a_removal(directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    digest = storage.put(file(b"x"))
    age(directory, digest, LATER)
    other: list[str] = []
    folder = InterruptedLocalFolder(
        directory / "blobs", lambda: other.extend(storage.collect_garbage(lambda: [], now_wall=time.time()))
    )
    assert not folder.remove_if_older(digest, time.time() - BLOB_GRACE_S)
    folder.close()
    assert other == [digest]


COLLECT_GARBAGE = """
import sys, time
from holdfast.storage import open_storage
storage = open_storage(sys.argv[1])
print("ready", flush=True)
while True:
    storage.collect_garbage(lambda: [], now_wall=time.time(), grace_s=100)
"""


@pytest.mark.slow
def test_submitted_blob_survives_concurrent_and_paused_collectors(directory: Path, file: MakeFile, tmp_path: Path) -> None:
    """Put and ensure a blob while two collectors run that do not see its record: it exists afterwards."""
    storage = open_storage(str(directory))
    source = file(b"code")
    digest = storage.put(source)
    collectors = [start_python(COLLECT_GARBAGE, directory) for _ in range(2)]
    try:
        for collector in collectors:
            assert collector.stdout is not None
            assert collector.stdout.readline() == "ready\n"
        removals = 0
        give_up_at = time.monotonic() + 60
        for number in itertools.count():
            if number >= 300 and (removals or time.monotonic() > give_up_at):
                break
            with contextlib.suppress(FileNotFoundError):
                age(directory, digest, 200)
            collectors[number % 2].send_signal(signal.SIGSTOP)
            removals += not storage.has(digest)
            assert storage.put(source) == digest
            storage.ensure_stored(source, digest)
            collectors[number % 2].send_signal(signal.SIGCONT)
            storage.fetch(digest, tmp_path / "out")
        assert removals > 0, "the collectors removed the blob at least once"
    finally:
        for collector in collectors:
            collector.kill()
            collector.communicate()
