"""Blobs in a directory under faults: kills, full disks, denied permissions, planted links and races."""

import hashlib
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.storage import BlobDamaged, open_storage
from tests.harness.processes import run_on_small_disk, run_python, run_without_root_powers, start_python
from tests.harness.waiting import wait_until

MakeFile = Callable[[bytes], Path]

PUT = """
import sys
from pathlib import Path
from holdfast.storage import open_storage
print("ready", flush=True)
sys.stdin.readline()
for source in sys.argv[2:]:
    print(open_storage(sys.argv[1]).put(Path(source)), flush=True)
"""


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in (directory / "blobs").iterdir()) if (directory / "blobs").exists() else []


@pytest.mark.slow
@pytest.mark.parametrize("after_bytes", [1, 10_000_000, 40_000_000])
def test_killed_put_leaves_no_blob_and_can_be_repeated(
    directory: Path, tmp_path: Path, file: MakeFile, after_bytes: int
) -> None:
    source = file(os.urandom(1_000_000) * 80)
    writer = start_python(PUT, directory, source)

    def has_written() -> bool:
        entries = (directory / "blobs").iterdir() if (directory / "blobs").exists() else []
        return any(entry.stat().st_size >= after_bytes for entry in entries if entry.name.startswith(".holdfast-"))

    try:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
        wait_until(has_written, 60, "some of the blob is written")
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
    storage = open_storage(str(directory))
    for blob in storage.list_blobs():  # the blob is complete if the put was faster than the kill
        storage.fetch(blob.digest, tmp_path / "out")
    digest = storage.put(source)
    storage.fetch(digest, tmp_path / "out")
    assert hashlib.sha256((tmp_path / "out").read_bytes()).hexdigest() == digest


@pytest.mark.slow
def test_two_processes_that_put_the_same_files_store_each_once(directory: Path, file: MakeFile) -> None:
    sources = [file(os.urandom(4) * (1 + 5000 * number)) for number in range(100)]
    racers = [start_python(PUT, directory, *sources) for _ in range(2)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    printed = [racer.communicate(timeout=120)[0].split() for racer in racers]
    expected = [hashlib.sha256(source.read_bytes()).hexdigest() for source in sources]
    assert printed == [expected, expected]
    assert names(directory) == sorted(set(expected)), "no temporary file is left"
    for digest in names(directory):
        assert hashlib.sha256((directory / "blobs" / digest).read_bytes()).hexdigest() == digest


@pytest.mark.slow
def test_file_that_changes_during_put_is_stored_consistently_or_refused(directory: Path, file: MakeFile) -> None:
    source = file(b"a" * 2_000_000)
    storage, over = open_storage(str(directory)), False

    def change() -> None:
        with source.open("r+b") as changing:
            while not over:
                changing.seek(1_500_000)
                changing.write(os.urandom(8))
                changing.flush()

    refusals = 0
    with ThreadPoolExecutor() as pool:
        changer = pool.submit(change)
        try:
            for _ in range(40):
                try:
                    storage.put(source)
                except Refused as error:
                    assert "changed while it was being stored" in str(error)
                    refusals += 1
        finally:
            over = True
        changer.result()
    assert refusals > 0
    for name in names(directory):
        assert hashlib.sha256((directory / "blobs" / name).read_bytes()).hexdigest() == name


FULL_STORAGE = """
import sys
from pathlib import Path
from holdfast.errors import Unavailable
from holdfast.storage import open_storage
disk, source = Path(sys.argv[1]), Path(sys.argv[2])
storage = open_storage(str(disk))
try:
    storage.put(source)
except Unavailable as error:
    print(error)
print(sorted(path.name for path in (disk / "blobs").iterdir()))
"""


def test_full_storage_is_unavailable_and_keeps_no_partial_file(tmp_path: Path, file: MakeFile) -> None:
    error, remaining = run_on_small_disk(FULL_STORAGE, tmp_path / "disk", file(b"x" * 3_000_000)).splitlines()
    assert error.startswith(f"cannot write to {tmp_path}/disk/blobs: ")
    assert error.endswith(("No space left on device", "File too large"))
    assert remaining == "[]"


FULL_NODE = """
import sys
from pathlib import Path
from holdfast.errors import Unavailable
from holdfast.storage import open_storage
disk, location, digest = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
try:
    open_storage(location).fetch(digest, disk / "job.py")
except Unavailable as error:
    print(error)
print(sorted(path.name for path in disk.iterdir()))
"""


def test_full_disk_of_the_node_is_unavailable_and_keeps_no_partial_file(
    tmp_path: Path, directory: Path, file: MakeFile
) -> None:
    digest = open_storage(str(directory)).put(file(b"x" * 3_000_000))
    error, remaining = run_on_small_disk(FULL_NODE, tmp_path / "disk", directory, digest).splitlines()
    assert error.startswith(f"cannot write to {tmp_path}/disk: ")
    assert remaining == "[]"


CALLS_WITHOUT_PERMISSION = """
import sys
from pathlib import Path
from holdfast.errors import Unavailable
from holdfast.storage import open_storage
storage, source, digest, out = open_storage(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
put, fetch, has, blobs = storage.put, storage.fetch, storage.has, storage.list_blobs
for call in (lambda: put(source), lambda: fetch(digest, out), lambda: has(digest), lambda: list(blobs())):
    try:
        print("done", call())
    except Unavailable as error:
        print(error)
"""


@pytest.mark.parametrize("closed", ["storage", "storage/blobs"])
def test_directory_without_permission_is_unavailable(tmp_path: Path, directory: Path, file: MakeFile, closed: str) -> None:
    source = file(b"x")
    digest = open_storage(str(directory)).put(source)
    (tmp_path / closed).chmod(0)
    try:
        printed = run_without_root_powers(CALLS_WITHOUT_PERMISSION, directory, source, digest, tmp_path / "out").splitlines()
    finally:
        (tmp_path / closed).chmod(0o700)
    assert len(printed) == 4
    for line in printed:
        assert line.startswith("cannot ")
        assert line.endswith(": Permission denied")


def test_blobs_can_be_fetched_from_a_read_only_storage(tmp_path: Path, directory: Path, file: MakeFile) -> None:
    source = file(b"x")
    digest = open_storage(str(directory)).put(source)
    (directory / "blobs").chmod(0o500)
    try:
        printed = run_without_root_powers(
            CALLS_WITHOUT_PERMISSION, directory, file(b"another"), digest, tmp_path / "out"
        ).splitlines()
    finally:
        (directory / "blobs").chmod(0o700)
    assert printed[0].startswith("cannot write to ")
    assert printed[1:3] == ["done None", "done True"]


PUT_ONE = """
import sys
from pathlib import Path
from holdfast.storage import open_storage
print(open_storage(sys.argv[1]).put(Path(sys.argv[2])))
"""


def test_put_replaces_a_blob_without_read_permission(tmp_path: Path, directory: Path, file: MakeFile) -> None:
    source = file(b"code")
    digest = open_storage(str(directory)).put(source)
    (directory / "blobs" / digest).chmod(0)
    assert run_without_root_powers(PUT_ONE, directory, source) == digest
    assert (directory / "blobs" / digest).stat().st_mode & 0o400
    assert names(directory) == [digest]


def test_link_in_place_of_a_blob_is_not_followed(tmp_path: Path, directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    source, outside = file(b"code"), file(b"code")
    digest = storage.put(source)
    place = directory / "blobs" / digest
    place.unlink()
    place.symlink_to(outside)
    assert not storage.has(digest)
    assert list(storage.list_blobs()) == []
    with pytest.raises(BlobDamaged, match="is not a file"):
        storage.fetch(digest, tmp_path / "out")
    os.utime(outside, (1, 1))
    assert storage.put(source) == digest
    assert not place.is_symlink()
    assert outside.stat().st_mtime == 1
    storage.remove(digest)
    assert outside.read_bytes() == b"code"


def test_garbage_collection_keeps_links_and_their_targets(directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    storage.put(file(b"x"))
    outside = file(b"precious")
    link = directory / "blobs" / ("c" * 64)
    link.symlink_to(outside)
    os.utime(link, (1, 1), follow_symlinks=False)
    os.utime(outside, (1, 1))
    assert storage.collect_garbage(lambda: [], now_wall=1e9) == []
    assert link.is_symlink()
    assert outside.read_bytes() == b"precious"


def test_link_in_place_of_the_blobs_folder_is_refused(tmp_path: Path, directory: Path, file: MakeFile) -> None:
    (tmp_path / "elsewhere").mkdir()
    (directory / "blobs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="blobs must be a folder, not a link or a file"):
        open_storage(str(directory)).put(file(b"x"))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_path_of_the_storage_may_contain_a_link(tmp_path: Path, directory: Path, file: MakeFile) -> None:
    (tmp_path / "link").symlink_to(directory)
    digest = open_storage(str(tmp_path / "link")).put(file(b"x"))
    assert open_storage(str(directory)).has(digest)


def test_pipe_in_place_of_a_blob_does_not_block(tmp_path: Path, directory: Path, file: MakeFile) -> None:
    storage = open_storage(str(directory))
    storage.put(file(b"x"))
    os.mkfifo(directory / "blobs" / ("d" * 64))
    with pytest.raises(BlobDamaged, match="is not a file"):
        storage.fetch("d" * 64, tmp_path / "out")
    os.mkfifo(tmp_path / "pipe.py")
    with pytest.raises(Refused, match=r"pipe\.py is not a file"):
        storage.put(tmp_path / "pipe.py")


MEASURE_PEAK = """
import re, sys
from pathlib import Path
from holdfast.storage import CheckpointClaim, Claims, checkpoint_location, open_storage, spark_checkpoint_uri
location, source, out = sys.argv[1:]
storage = open_storage(location)
storage.fetch(storage.put(Path(source)), Path(out))
claims = Claims(checkpoint_location(spark_checkpoint_uri(location, "job"), location))
claims.claim(CheckpointClaim("c", "job", 1, "n", "nonce"))
claims.write_outcome(1, {"how": "finished"})
assert claims.read_latest_outcome().outcome == {"how": "finished"}
loaded = {"pyarrow", "numpy", "asyncio", "kazoo", "structlog"} & set(sys.modules)
assert not loaded, loaded
print(int(re.search("VmHWM:\\s*([0-9]+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


def test_storage_in_a_directory_needs_only_the_standard_library(
    tmp_path: Path, directory: Path, file: MakeFile, report: Callable[[str], None]
) -> None:
    peak_mb = int(run_python(MEASURE_PEAK, directory, file(os.urandom(1000) * 5000), tmp_path / "out"))
    report(f"a process that stores, fetches and claims in a directory: {peak_mb} MB at its peak")
    assert peak_mb < 30
