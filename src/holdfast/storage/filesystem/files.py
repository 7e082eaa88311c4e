"""All files below one location, as checkpoints and savepoints use them."""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from holdfast.checkpoint.file_tree import File
from holdfast.storage.digest import ReadInto, Write
from holdfast.storage.filesystem.local_files import LocalFiles
from holdfast.storage.location import Location


class Files(Protocol):
    """Files below one root. Paths are relative and use slashes. Every method raises Unavailable."""

    display_name: str
    """Location of the root, without its query, for messages."""
    spark_root: str
    """Location of the root in Spark's form."""
    read_bytes_max: int
    """Bytes of state that a check of a checkpoint may read."""

    def walk(self, files_max: int | None = None, *, below: str = "") -> tuple[list[File], bool]:
        """Return the plain files below a folder, and True if there are more than `files_max`.

        A missing folder has no files.
        """

    def list_folders(self) -> list[str]:
        """Return the names of the folders directly below the root."""

    def read_files(self, paths: Iterable[str], bytes_max: int) -> dict[str, bytes]:
        """Return the contents of the files that exist and have at most `bytes_max` bytes each."""

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises FileNotFoundError."""

    def locate(self, path: str) -> str | None:
        """Return the place of a file by its absolute path in Spark's form, which can be outside of the root.

        None if this process cannot tell: the path is in a store that it does not access.
        """

    def open_reader(self, path: str) -> contextlib.AbstractContextManager[ReadInto]:
        """Open a file for reading. Raises FileNotFoundError."""

    def open_writer(self, path: str) -> contextlib.AbstractContextManager[Write]:
        """Open a file for writing in place, creating its folders. A failed write leaves a partial file."""

    def sync(self) -> None:
        """Wait until everything written so far survives a power failure."""

    def replace(self, path: str, data: bytes) -> None:
        """Replace a file atomically and durably. Its folder must exist."""

    def move(self, path: str, to: str) -> None:
        """Move a file to an unused path, creating its folders. Do nothing if the file does not exist."""

    def remove_file(self, path: str) -> None:
        """Remove a file if it exists."""

    def remove_tree(self) -> None:
        """Remove the root and everything below it, if it exists."""

    def subtree(self, *names: str) -> "Files":
        """Return the files below a folder of the root."""


def open_files(location: Location) -> Files:
    """Return the files below a location. Loads pyarrow unless the location is a directory."""
    if location.is_directory:
        return LocalFiles(Path(location.path))
    from holdfast.storage.filesystem.remote_files import RemoteFiles

    return RemoteFiles(location)
