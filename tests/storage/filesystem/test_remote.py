"""Differences between the file systems that pyarrow reaches: some rename files, object stores do not."""

import hashlib
import time
from pathlib import Path

import pytest
from pyarrow.fs import FileSystem, LocalFileSystem

from holdfast.storage.filesystem.remote_folder import RENEW_AFTER_S, RemoteFolder
from tests.harness.s3 import Bucket


@pytest.fixture
def renaming_folder(directory: Path) -> RemoteFolder:
    """Folder in pyarrow's local file system, which shows partially written files, as HDFS does."""
    (directory / "blobs").mkdir()
    return RemoteFolder(LocalFileSystem(), f"{directory}/blobs", "somewhere/blobs")


@pytest.fixture
def folder(bucket: Bucket) -> RemoteFolder:
    files, path = FileSystem.from_uri(bucket.location.replace("?", "/blobs?"))
    return RemoteFolder(files, path, "s3://somewhere/blobs")


def test_file_gets_its_name_only_when_it_is_complete(renaming_folder: RemoteFolder, directory: Path) -> None:
    def visible() -> list[str]:
        return [path.name for path in (directory / "blobs").iterdir() if not path.name.startswith(".")]

    with renaming_folder.open_writer("file") as write:
        write(memoryview(b"one "))
        assert visible() == []
    with renaming_folder.open_writer("file") as write:
        write(memoryview(b"two"))
        assert (directory / "blobs" / "file").read_bytes() == b"one "
    assert (directory / "blobs" / "file").read_bytes() == b"two"
    with pytest.raises(KeyError), renaming_folder.open_writer("file") as write:
        write(memoryview(b"three"))
        raise KeyError
    assert (directory / "blobs" / "file").read_bytes() == b"two"
    renaming_folder.remove_leftovers(time.time() + 10)
    assert [path.name for path in (directory / "blobs").iterdir()] == ["file"]


def test_create_is_exclusive_without_a_conditional_write(renaming_folder: RemoteFolder, directory: Path) -> None:
    assert renaming_folder.create("claim", b"first")
    assert not renaming_folder.create("claim", b"second")
    assert not renaming_folder.create("claim", b"first")
    assert renaming_folder.read("claim", 100) == b"first"
    assert [path.name for path in (directory / "blobs").iterdir()] == ["claim"]


@pytest.mark.slow
def test_candidate_of_a_killed_writer_blocks_the_name_for_other_writers(renaming_folder: RemoteFolder, directory: Path) -> None:
    left = f"claim.candidate-{hashlib.sha256(b'first').hexdigest()[:16]}"
    (directory / "blobs" / left).write_bytes(b"first")
    assert not renaming_folder.create("claim", b"second")
    assert [path.name for path in (directory / "blobs").iterdir()] == [left]
    assert renaming_folder.create("claim", b"first"), "the same writer retries"
    assert [path.name for path in (directory / "blobs").iterdir()] == ["claim"]


@pytest.mark.slow
def test_only_a_young_object_counts_as_renewed(folder: RemoteFolder, bucket: Bucket) -> None:
    bucket.put("blobs/young", b"x")
    assert folder.renew("young")
    assert not folder.renew("missing")
    files, path = FileSystem.from_uri(bucket.location.replace("?", "/blobs?"))
    later = RemoteFolder(files, path, "s3://somewhere/blobs", wall=lambda: time.time() + RENEW_AFTER_S + 60)
    assert not later.renew("young")
