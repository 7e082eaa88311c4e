"""Blobs in a directory and in a real S3 server."""

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


def open_in_process(location: str) -> Storage:
    """Open a storage without a subprocess. test_subprocess_call.py tests the subprocess."""
    return open_storage(location, in_subprocess=False)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("content", [b"print(1)", b"", b"x" * 3_000_001], ids=["small", "empty", "chunks"])
def test_stored_file_is_fetched_by_its_digest(location: str, file: MakeFile, tmp_path: Path, content: bytes) -> None:
    storage = open_in_process(location)
    digest = storage.put(file(content))
    assert digest == sha256(content)
    assert storage.has(digest)
    storage.fetch(digest, tmp_path / "fetched.py")
    assert (tmp_path / "fetched.py").read_bytes() == content


def test_same_content_is_stored_once(location: str, file: MakeFile) -> None:
    storage = open_in_process(location)
    first, second = storage.put(file(b"same")), storage.put(file(b"same"))
    assert first == second
    assert [(blob.digest, blob.size) for blob in storage.list_blobs()] == [(first, 4)]


def test_blob_has_its_modification_time(location: str, file: MakeFile) -> None:
    storage = open_in_process(location)
    before = time.time()
    storage.put(file(b"now"))
    (blob,) = storage.list_blobs()
    assert before - 2 <= blob.modified_wall_s <= time.time() + 2


def test_fetching_a_missing_blob_raises_blob_missing(location: str, file: MakeFile, tmp_path: Path) -> None:
    storage = open_in_process(location)
    storage.put(file(b"another"))
    assert not storage.has(ABSENT)
    with pytest.raises(BlobMissing, match=f"the blob {ABSENT} is not in .*: submit the job again"):
        storage.fetch(ABSENT, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_fetching_from_an_empty_storage_is_unavailable(location: str, tmp_path: Path) -> None:
    """Raise Unavailable, not BlobMissing: a missing mount on one node must not fail a job that other nodes can run."""
    with pytest.raises(Unavailable, match="contains no blobs: check the location and that it is mounted on this machine"):
        open_in_process(location).fetch(ABSENT, tmp_path / "out")


def test_blob_can_be_removed_repeatedly(location: str, file: MakeFile) -> None:
    storage = open_in_process(location)
    digest, kept = storage.put(file(b"1")), storage.put(file(b"2"))
    storage.remove(digest)
    storage.remove(digest)
    assert not storage.has(digest)
    assert [blob.digest for blob in storage.list_blobs()] == [kept]


def test_ensure_stored_replaces_a_removed_blob(location: str, file: MakeFile) -> None:
    storage = open_in_process(location)
    source = file(b"code")
    digest = storage.put(source)
    storage.remove(digest)
    storage.ensure_stored(source, digest)
    assert storage.has(digest)
    source.unlink()
    storage.ensure_stored(source, digest)  # the blob exists, so the file is not read


def test_ensure_stored_refuses_a_changed_file(location: str, file: MakeFile) -> None:
    storage = open_in_process(location)
    source = file(b"before")
    digest = storage.put(source)
    storage.remove(digest)
    source.write_bytes(b"after")
    with pytest.raises(Refused, match="changed during the submission"):
        storage.ensure_stored(source, digest)


INVALID_DIGESTS = ["", "..", "../../etc/passwd", "a" * 63, "A" * 64, "a" * 65, "a" * 63 + "/", "a" * 63 + "\n", f"./{'a' * 62}"]


@pytest.mark.parametrize("name", INVALID_DIGESTS)
def test_invalid_digest_is_refused(directory: Path, tmp_path: Path, name: str) -> None:
    storage = open_storage(str(directory))
    for call in (storage.has, storage.remove, lambda digest: storage.fetch(digest, tmp_path / "out")):
        with pytest.raises(Refused, match="is not the name of a blob"):
            call(name)


def test_directory_cannot_be_stored(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    with pytest.raises(Refused, match=r"package is a directory: pack it into one file"):
        open_storage(str(directory)).put(tmp_path / "package")


def test_unreadable_source_is_refused(location: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"cannot read .*nowhere\.py: No such file"):
        open_in_process(location).put(tmp_path / "nowhere.py")


def test_missing_storage_directory_is_not_created(tmp_path: Path, file: MakeFile) -> None:
    """Refuse to create it: it may be an unmounted disk, and other nodes would not see code stored on the mount point."""
    with pytest.raises(Unavailable, match="does not exist: check the location and that it is mounted"):
        open_storage(str(tmp_path / "mnt")).put(file(b"x"))
    assert not (tmp_path / "mnt").exists()


def test_fetching_to_a_directory_is_refused(directory: Path, file: MakeFile, tmp_path: Path) -> None:
    storage = open_storage(str(directory))
    digest = storage.put(file(b"x"))
    with pytest.raises(Refused, match="is a directory"):
        storage.fetch(digest, tmp_path)


def test_fetched_file_replaces_the_target_and_is_private(directory: Path, file: MakeFile, tmp_path: Path) -> None:
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
def test_damaged_blob_is_not_fetched_and_is_replaced_by_the_next_put(
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


@pytest.mark.slow
def test_damaged_object_is_not_fetched_and_a_truncated_one_is_replaced(bucket: Bucket, file: MakeFile, tmp_path: Path) -> None:
    storage = open_in_process(bucket.location)
    digest = storage.put(file(b"print(1)"))
    bucket.put(f"blobs/{digest}", b"prinT(1)")
    with pytest.raises(BlobDamaged, match="remove it and submit the same file again"):
        storage.fetch(digest, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    bucket.put(f"blobs/{digest}", b"short")
    storage.put(file(b"print(1)"))
    assert bucket.get(f"blobs/{digest}") == b"print(1)"


def test_files_with_other_names_are_not_blobs(location: str, request: pytest.FixtureRequest, file: MakeFile) -> None:
    storage = open_in_process(location)
    digest = storage.put(file(b"x"))
    if location.startswith("s3:"):
        request.getfixturevalue("bucket").put("blobs/README", b"hello")
    else:
        (Path(location) / "blobs" / "README").write_bytes(b"hello")
        (Path(location) / "blobs" / ("a" * 64)).mkdir()
    assert [blob.digest for blob in storage.list_blobs()] == [digest]
    assert not storage.has("a" * 64)
