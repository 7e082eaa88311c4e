"""Sweeping: what no record names goes, once it is old, and nothing else ever does."""

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import Unavailable
from holdfast.storage import GRACE_S, Storage, open_storage
from holdfast.storage.filesystem.folder import Entry
from holdfast.storage.filesystem.local_folder import LocalFolder
from tests.harness.processes import start

MakeFile = Callable[[bytes], Path]
LATER = 2 * GRACE_S


def age(directory: Path, digest: str, by_s: float) -> None:
    then = time.time() - by_s
    os.utime(directory / "blobs" / digest, (then, then))


def digests(storage: Storage) -> set[str]:
    return {blob.digest for blob in storage.blobs()}


def test_old_blobs_that_no_record_names_go(location: str, file: MakeFile) -> None:
    storage = open_storage(location, apart=False)
    named, unnamed = storage.put(file(b"named")), storage.put(file(b"unnamed"))
    assert storage.sweep(lambda: [named], now_wall=time.time()) == [], "both are young"
    assert storage.sweep(lambda: [named], now_wall=time.time() + LATER) == [unnamed]
    assert digests(storage) == {named}


def test_the_grace_time_is_counted_from_the_last_put(directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    source = file(b"x")
    digest = storage.put(source)
    age(directory, digest, LATER)
    storage.put(source)
    assert storage.sweep(lambda: [], now_wall=time.time()) == []
    age(directory, digest, LATER)
    assert storage.sweep(lambda: [], now_wall=time.time()) == [digest]


def test_records_are_read_after_the_blobs_were_listed(directory: Path, file: MakeFile) -> None:
    """A submission that comes in between is seen."""
    storage = open_storage(str(directory))
    source = file(b"x")
    age(directory, storage.put(source), LATER)
    late = file(b"late")

    def named() -> list[str]:
        age(directory, storage.put(late), LATER)
        return []

    storage.sweep(named, now_wall=time.time())
    assert digests(storage) == {storage.put(late)}, "it was not in the list, so nobody asked whether a record names it"


def test_a_blob_that_is_renewed_while_records_are_read_stays(directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    source = file(b"x")
    digest = storage.put(source)
    age(directory, digest, LATER)

    def named() -> list[str]:
        storage.put(source)
        return []

    assert storage.sweep(named, now_wall=time.time()) == []
    assert storage.has(digest)


def test_records_that_cannot_be_read_stop_the_sweep(location: str, file: MakeFile) -> None:
    storage = open_storage(location, apart=False)
    digest = storage.put(file(b"x"))

    def named() -> list[str]:
        raise Unavailable("no connection")

    with pytest.raises(Unavailable, match="no connection"):
        storage.sweep(named, now_wall=time.time() + LATER)
    assert storage.has(digest)


def test_odd_names_in_records_do_no_harm(directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    digest = storage.put(file(b"x"))
    age(directory, digest, LATER)
    assert storage.sweep(lambda: ["", "../../x", "é"], now_wall=time.time()) == [digest]


def test_a_sweep_without_grace_is_a_mistake(directory: Path) -> None:
    for grace_s in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="grace"):
            open_storage(str(directory)).sweep(lambda: [], now_wall=0.0, grace_s=grace_s)


def test_sweeping_where_nothing_was_ever_stored_does_nothing(location: str) -> None:
    assert open_storage(location, apart=False).sweep(lambda: [], now_wall=time.time()) == []


def test_more_blobs_than_fit_into_one_call_are_swept(directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    storage.put(file(b"x"))
    for number in range(1001):
        (directory / "blobs" / f"{number:064x}").write_bytes(b"")
        age(directory, f"{number:064x}", LATER)
    assert len(storage.sweep(lambda: [f"{7:064x}"], now_wall=time.time())) == 1000
    assert storage.has(f"{7:064x}")


def test_what_killed_puts_left_behind_goes_too(directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    storage.put(file(b"x"))
    old, new = (directory / "blobs" / f".holdfast-{digit * 16}.tmp" for digit in "01")
    stranger = directory / "blobs" / ".nfs0001"
    for litter in (old, new, stranger):
        litter.write_bytes(b"half")
    os.utime(old, (1, 1))
    os.utime(stranger, (1, 1))
    storage.sweep(lambda: [], now_wall=time.time())
    assert not old.exists()
    assert new.exists(), "somebody may be writing it"
    assert stranger.exists(), "it is not ours"


def test_a_blob_in_the_hands_of_a_sweeper_can_be_fetched_and_is_put_back_if_it_was_renewed(
    directory: Path, file: MakeFile, tmp_path: Path
) -> None:
    """As a sweeper leaves it that was killed between setting a blob aside and looking at it again."""
    storage = open_storage(str(directory))
    storage.put(file(b"another"))
    digest = storage.put(file(b"renewed at the last moment"))
    (directory / "blobs" / digest).rename(directory / "blobs" / f".swept-{digest}-{'0' * 16}")
    storage.fetch(digest, tmp_path / "out")
    assert not storage.has(digest), "so that ensure stores it again"
    assert storage.sweep(lambda: [], now_wall=time.time()) == []
    assert storage.has(digest)


def test_an_old_blob_in_the_hands_of_a_dead_sweeper_goes(directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    digest = storage.put(file(b"x"))
    age(directory, digest, LATER)
    (directory / "blobs" / digest).rename(directory / "blobs" / f".swept-{digest}-{'0' * 16}")
    storage.sweep(lambda: [], now_wall=time.time())
    assert list((directory / "blobs").iterdir()) == []


class Interrupted(LocalFolder):
    """Something happens between this sweeper's first look at a blob and what it does next."""

    def __init__(self, directory: Path, meanwhile: Callable[[], None]) -> None:
        super().__init__(os.open(directory, os.O_RDONLY), str(directory))
        self._meanwhile = [meanwhile]

    def stat(self, name: str) -> Entry | None:
        entry = super().stat(name)
        while self._meanwhile:
            self._meanwhile.pop()()
        return entry

    def close(self) -> None:
        os.close(self._fd)


def test_a_whole_submission_while_a_sweeper_is_paused_right_before_it_removes_the_blob_is_kept(
    directory: Path, file: MakeFile
) -> None:
    storage = open_storage(str(directory))
    source = file(b"x")
    digest = storage.put(source)
    age(directory, digest, LATER)

    def submit() -> None:
        assert storage.put(source) == digest
        storage.ensure(source, digest)

    folder = Interrupted(directory / "blobs", submit)
    assert not folder.retire(digest, time.time() - GRACE_S)
    folder.close()
    assert [path.name for path in (directory / "blobs").iterdir()] == [digest]


def test_two_sweepers_remove_a_blob_once(directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    digest = storage.put(file(b"x"))
    age(directory, digest, LATER)
    other: list[str] = []
    folder = Interrupted(directory / "blobs", lambda: other.extend(storage.sweep(lambda: [], now_wall=time.time())))
    assert not folder.retire(digest, time.time() - GRACE_S)
    folder.close()
    assert other == [digest]


SWEEP = """
import sys, time
from holdfast.storage import open_storage
storage = open_storage(sys.argv[1])
print("ready", flush=True)
while True:
    storage.sweep(lambda: [], now_wall=time.time(), grace_s=100)
"""


def test_a_submission_survives_sweepers_that_race_with_it_and_are_paused(
    directory: Path, file: MakeFile, tmp_path: Path
) -> None:
    """Put, record, ensure: whatever two sweepers do meanwhile that have not seen the record, the blob is there afterwards."""
    storage = open_storage(str(directory))
    source = file(b"code")
    digest = storage.put(source)
    sweepers = [start(SWEEP, directory) for _ in range(2)]
    try:
        for sweeper in sweepers:
            assert sweeper.stdout is not None
            assert sweeper.stdout.readline() == "ready\n"
        swept = 0
        give_up_at = time.monotonic() + 60
        for number in itertools.count():
            if number >= 300 and (swept or time.monotonic() > give_up_at):
                break
            with contextlib.suppress(FileNotFoundError):
                age(directory, digest, 200)
            sweepers[number % 2].send_signal(signal.SIGSTOP)
            swept += not storage.has(digest)
            assert storage.put(source) == digest
            storage.ensure(source, digest)
            sweepers[number % 2].send_signal(signal.SIGCONT)
            storage.fetch(digest, tmp_path / "out")
        assert swept > 0, "the sweepers did something"
    finally:
        for sweeper in sweepers:
            sweeper.kill()
            sweeper.communicate()
