"""Blobs, in a directory and in a real S3 server: the same cases."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import Refused, Unavailable
from holdfast.storage import BlobDamaged, BlobMissing, Storage, open_storage
from tests.harness.s3 import Bucket

MakeFile = Callable[[bytes], Path]
ABSENT = "0" * 64


def here(location: str) -> Storage:
    """In this process, S3 too: what the process of its own adds is shown in test_apart.py."""
    return open_storage(location, apart=False)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("content", [b"print(1)", b"", b"x" * 3_000_001], ids=["small", "empty", "chunks"])
def test_what_was_put_is_fetched_under_its_hash(location: str, file: MakeFile, tmp_path: Path, content: bytes) -> None:
    storage = here(location)
    digest = storage.put(file(content))
    assert digest == sha256(content)
    assert storage.has(digest)
    storage.fetch(digest, tmp_path / "fetched.py")
    assert (tmp_path / "fetched.py").read_bytes() == content


def test_putting_twice_is_one_blob(location: str, file: MakeFile) -> None:
    storage = here(location)
    first, second = storage.put(file(b"same")), storage.put(file(b"same"))
    assert first == second
    assert [(blob.digest, blob.size) for blob in storage.blobs()] == [(first, 4)]


def test_a_blob_says_when_it_was_stored(location: str, file: MakeFile) -> None:
    storage = here(location)
    before = time.time()
    storage.put(file(b"now"))
    (blob,) = storage.blobs()
    assert before - 2 <= blob.modified_wall_s <= time.time() + 2


def test_a_missing_blob_is_said_to_be_missing(location: str, file: MakeFile, tmp_path: Path) -> None:
    storage = here(location)
    storage.put(file(b"another"))
    assert not storage.has(ABSENT)
    with pytest.raises(BlobMissing, match=f"the blob {ABSENT} is not in .*: submit the job again"):
        storage.fetch(ABSENT, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_storage_without_any_blobs_is_not_believed(location: str, tmp_path: Path) -> None:
    """A mount that is missing on one node must not fail a job that other nodes can run."""
    with pytest.raises(Unavailable, match="holds no blobs at all: is it the right one, and mounted on this machine"):
        here(location).fetch(ABSENT, tmp_path / "out")


def test_a_removed_blob_is_gone_and_may_be_removed_again(location: str, file: MakeFile) -> None:
    storage = here(location)
    digest, kept = storage.put(file(b"1")), storage.put(file(b"2"))
    storage.remove(digest)
    storage.remove(digest)
    assert not storage.has(digest)
    assert [blob.digest for blob in storage.blobs()] == [kept]


def test_ensuring_stores_what_a_sweeper_took(location: str, file: MakeFile) -> None:
    storage = here(location)
    source = file(b"code")
    digest = storage.put(source)
    storage.remove(digest)
    storage.ensure(source, digest)
    assert storage.has(digest)
    source.unlink()
    storage.ensure(source, digest)  # it is there, so the file is not needed any more


def test_ensuring_refuses_a_file_that_is_another_one_by_now(location: str, file: MakeFile) -> None:
    storage = here(location)
    source = file(b"before")
    digest = storage.put(source)
    storage.remove(digest)
    source.write_bytes(b"after")
    with pytest.raises(Refused, match="is not what was submitted any more"):
        storage.ensure(source, digest)


BAD_NAMES = ["", "..", "../../etc/passwd", "a" * 63, "A" * 64, "a" * 65, "a" * 63 + "/", "a" * 63 + "\n", f"./{'a' * 62}"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_what_is_no_digest_is_refused_before_it_becomes_a_path(directory: Path, tmp_path: Path, name: str) -> None:
    storage = open_storage(str(directory))
    for call in (storage.has, storage.remove, lambda digest: storage.fetch(digest, tmp_path / "out")):
        with pytest.raises(Refused, match="is not the name of a blob"):
            call(name)


def test_a_directory_is_refused_as_a_source(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    with pytest.raises(Refused, match=r"package is a directory: pack it into one file"):
        open_storage(str(directory)).put(tmp_path / "package")


def test_a_source_that_cannot_be_read_is_refused(location: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"cannot read .*nowhere\.py: No such file"):
        here(location).put(tmp_path / "nowhere.py")


def test_a_storage_that_does_not_exist_is_not_made(tmp_path: Path, file: MakeFile) -> None:
    """It may only be not mounted: code stored on the bare mount point would be seen by nobody else."""
    with pytest.raises(Unavailable, match="does not exist: is it the right one, and mounted"):
        open_storage(str(tmp_path / "mnt")).put(file(b"x"))
    assert not (tmp_path / "mnt").exists()


def test_fetching_onto_a_directory_is_refused(directory: Path, file: MakeFile, tmp_path: Path) -> None:
    storage = open_storage(str(directory))
    digest = storage.put(file(b"x"))
    with pytest.raises(Refused, match="is a directory"):
        storage.fetch(digest, tmp_path)


def test_fetching_replaces_the_whole_file_and_keeps_others_out(directory: Path, file: MakeFile, tmp_path: Path) -> None:
    storage = open_storage(str(directory))
    digest = storage.put(file(b"new"))
    (tmp_path / "code").mkdir()
    target = tmp_path / "code" / "job.py"
    target.write_bytes(b"something longer than that")
    storage.fetch(digest, target)
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert list(target.parent.iterdir()) == [target]


DAMAGES = [b"", b"prinT(1)", b"print(1) and more"]


@pytest.mark.parametrize("content", DAMAGES, ids=["empty", "altered", "longer"])
def test_a_damaged_blob_is_not_handed_out_and_is_mended_by_submitting_again(
    directory: Path, file: MakeFile, tmp_path: Path, content: bytes
) -> None:
    storage = open_storage(str(directory))
    digest = storage.put(file(b"print(1)"))
    (directory / "blobs" / digest).write_bytes(content)
    with pytest.raises(BlobDamaged, match=f"{digest}.* is damaged: its {len(content)} bytes .* {sha256(content)}"):
        storage.fetch(digest, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert storage.put(file(b"print(1)")) == digest
    storage.fetch(digest, tmp_path / "out")


def test_a_damaged_object_is_not_handed_out_and_a_short_one_is_mended(bucket: Bucket, file: MakeFile, tmp_path: Path) -> None:
    storage = here(bucket.location)
    digest = storage.put(file(b"print(1)"))
    bucket.put(f"blobs/{digest}", b"prinT(1)")
    with pytest.raises(BlobDamaged, match="remove it and submit the same file again"):
        storage.fetch(digest, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    bucket.put(f"blobs/{digest}", b"short")
    storage.put(file(b"print(1)"))
    assert bucket.get(f"blobs/{digest}") == b"print(1)"


def test_stray_files_are_not_blobs(location: str, request: pytest.FixtureRequest, file: MakeFile) -> None:
    storage = here(location)
    digest = storage.put(file(b"x"))
    if location.startswith("s3:"):
        request.getfixturevalue("bucket").put("blobs/README", b"hello")
    else:
        (Path(location) / "blobs" / "README").write_bytes(b"hello")
        (Path(location) / "blobs" / ("a" * 64)).mkdir()
    assert [blob.digest for blob in storage.blobs()] == [digest]
    assert not storage.has("a" * 64)
