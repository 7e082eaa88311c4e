"""What differs between the file systems that pyarrow reaches: those that rename, and objects that cannot be touched."""

import hashlib
import time
from pathlib import Path

import pytest
from pyarrow.fs import FileSystem, LocalFileSystem

from holdfast.storage.filesystem.remote_folder import RENEW_AFTER_S, RemoteFolder
from tests.harness.s3 import Bucket


@pytest.fixture
def renaming(directory: Path) -> RemoteFolder:
    """pyarrow's own local file system, treated as HDFS is: files that are being written can be seen."""
    (directory / "blobs").mkdir()
    return RemoteFolder(LocalFileSystem(), f"{directory}/blobs", "somewhere/blobs")


@pytest.fixture
def folder(bucket: Bucket) -> RemoteFolder:
    files, path = FileSystem.from_uri(bucket.location.replace("?", "/blobs?"))
    return RemoteFolder(files, path, "s3://somewhere/blobs")


def test_where_files_can_be_renamed_only_whole_ones_get_their_name(renaming: RemoteFolder, directory: Path) -> None:
    def visible() -> list[str]:
        return [path.name for path in (directory / "blobs").iterdir() if not path.name.startswith(".")]

    with renaming.writing("file") as write:
        write(memoryview(b"one "))
        assert visible() == []
    with renaming.writing("file") as write:
        write(memoryview(b"two"))
        assert (directory / "blobs" / "file").read_bytes() == b"one "
    assert (directory / "blobs" / "file").read_bytes() == b"two"
    with pytest.raises(KeyError), renaming.writing("file") as write:
        write(memoryview(b"three"))
        raise KeyError
    assert (directory / "blobs" / "file").read_bytes() == b"two"
    renaming.tidy(time.time() + 10)
    assert [path.name for path in (directory / "blobs").iterdir()] == ["file"]


def test_creating_is_exclusive_without_a_conditional_write(renaming: RemoteFolder, directory: Path) -> None:
    assert renaming.create("claim", b"first")
    assert not renaming.create("claim", b"second")
    assert not renaming.create("claim", b"first")
    assert renaming.read("claim", 100) == b"first"
    assert [path.name for path in (directory / "blobs").iterdir()] == ["claim"]


def test_a_candidate_that_was_killed_uses_up_the_name_for_all_but_itself(renaming: RemoteFolder, directory: Path) -> None:
    left = f"claim.candidate-{hashlib.sha256(b'first').hexdigest()[:16]}"
    (directory / "blobs" / left).write_bytes(b"first")
    assert not renaming.create("claim", b"second")
    assert [path.name for path in (directory / "blobs").iterdir()] == [left]
    assert renaming.create("claim", b"first"), "whoever it was tries again"
    assert [path.name for path in (directory / "blobs").iterdir()] == ["claim"]


def test_a_young_object_is_fresh_enough_and_an_older_one_is_to_be_written_again(folder: RemoteFolder, bucket: Bucket) -> None:
    bucket.put("blobs/young", b"x")
    assert folder.renew("young")
    assert not folder.renew("missing")
    files, path = FileSystem.from_uri(bucket.location.replace("?", "/blobs?"))
    later = RemoteFolder(files, path, "s3://somewhere/blobs", wall=lambda: time.time() + RENEW_AFTER_S + 60)
    assert not later.renew("young")
