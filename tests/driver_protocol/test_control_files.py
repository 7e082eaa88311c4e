"""Control files: atomic replacement, and readers that accept anything."""

from pathlib import Path

import pytest

from holdfast.driver_protocol.control_files import (
    FILE_BYTES_MAX,
    PROGRESS_FILE,
    is_stop_requested,
    read_control_file,
    request_stop,
    write_control_file,
)


def test_written_file_is_read_back(tmp_path: Path) -> None:
    assert write_control_file(str(tmp_path), PROGRESS_FILE, {"batch_id": 1, "text": "\ud800"})
    assert read_control_file(tmp_path, PROGRESS_FILE) == {"batch_id": 1, "text": "\ud800"}
    assert [path.name for path in tmp_path.iterdir()] == [PROGRESS_FILE]


def test_failed_write_returns_false(tmp_path: Path) -> None:
    assert not write_control_file(str(tmp_path / "missing"), PROGRESS_FILE, {})
    assert not write_control_file("", PROGRESS_FILE, {})


@pytest.mark.parametrize(
    "content", [b"", b"7", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"a": "' + b"x" * FILE_BYTES_MAX + b'"}']
)
def test_malformed_file_counts_as_missing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / PROGRESS_FILE).write_bytes(content)
    assert read_control_file(tmp_path, PROGRESS_FILE) is None


def test_stop_request_is_visible_to_the_driver(tmp_path: Path) -> None:
    directory = tmp_path / "control"
    assert not is_stop_requested(str(directory)) and not is_stop_requested("")
    request_stop(directory)
    request_stop(directory)
    assert is_stop_requested(str(directory))


def test_stop_request_in_an_unusable_directory_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    request_stop(tmp_path / "file")
