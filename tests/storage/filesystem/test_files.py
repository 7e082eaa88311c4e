"""File trees in a directory and in a real S3 server, as checkpoints and savepoints use them."""

import os
from pathlib import Path

import pytest

from holdfast.errors import Unavailable
from holdfast.storage import Checkpoints
from holdfast.storage.filesystem.files import Files, open_files
from holdfast.storage.location import parse_location
from tests.harness.checkpoint_trees import checkpoint_files, write_files


@pytest.fixture
def files(location: str) -> Files:
    return open_files(parse_location(location).join("tree"))


def write(files: Files, path: str, data: bytes) -> None:
    with files.open_writer(path) as write_chunk:
        write_chunk(memoryview(data))
    files.sync()


def test_files_are_written_listed_read_moved_and_removed(files: Files) -> None:
    write(files, "a/1", b"one")
    write(files, "b/c/2", b"two")
    assert sorted((file.path, file.size) for file in files.walk()[0]) == [("a/1", 3), ("b/c/2", 3)]
    assert [file.path for file in files.walk(below="b")[0]] == ["b/c/2"]
    assert files.list_folders() == ["a", "b"]
    assert files.read_files(["a/1", "b/c/2", "missing"], 3) == {"a/1": b"one", "b/c/2": b"two"}
    assert files.subtree("b").read("c/2") == b"two"
    files.replace("a/1", b"longer")
    assert files.read_files(["a/1"], 3) == {}, "a file above the limit is left out"
    files.move("a/1", "d/1")
    files.move("missing", "d/2")
    files.remove_file("b/c/2")
    files.remove_file("missing")
    assert [file.path for file in files.walk()[0]] == ["d/1"]
    files.remove_tree()
    files.remove_tree()
    assert files.walk() == ([], False)
    assert files.list_folders() == []


def test_listing_stops_at_the_limit(files: Files) -> None:
    for number in range(3):
        write(files, str(number), b"x")
    assert (len(files.walk(2)[0]), files.walk(2)[1]) == (2, True)
    assert (len(files.walk(3)[0]), files.walk(3)[1]) == (3, False)


def test_reading_a_missing_file_raises_file_not_found(files: Files) -> None:
    with pytest.raises(FileNotFoundError):
        files.read("missing")
    with pytest.raises(FileNotFoundError), files.open_reader("missing"):
        pass


def test_link_or_pipe_counts_as_a_missing_file(directory: Path) -> None:
    (directory / "target").write_bytes(b"x")
    (directory / "link").symlink_to(directory / "target")
    os.mkfifo(directory / "pipe")
    files = open_files(parse_location(str(directory)))
    assert [file.path for file in files.walk()[0]] == ["target"]
    for name in ("link", "pipe"):
        with pytest.raises(FileNotFoundError):
            files.read(name)


def test_failed_write_is_unavailable_and_not_a_missing_source(directory: Path) -> None:
    """Raise Unavailable also for ENOENT of the target, which a copy must not mistake for a missing source."""
    (directory / "dangling").symlink_to(directory / "nowhere" / "file")
    with (
        pytest.raises(Unavailable, match=r"cannot write .*dangling"),
        open_files(parse_location(str(directory))).open_writer("dangling"),
    ):
        pass


def test_name_that_is_not_utf8_is_listed_but_not_examined(directory: Path) -> None:
    write_files(checkpoint_files(3), directory)
    (directory / "offsets" / os.fsdecode(b"\xff")).write_bytes(b"x")
    names = [file.path for file in open_files(parse_location(str(directory))).walk()[0]]
    assert os.fsdecode(b"offsets/\xff") in names
    (query,) = Checkpoints(str(directory)).examine_queries()
    assert query.findings == ()
