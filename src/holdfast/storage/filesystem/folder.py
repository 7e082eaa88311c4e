"""One flat folder of the storage, as blobs and claims use it."""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from holdfast.storage.digest import ReadInto, Write


class FolderEntry(NamedTuple):
    name: str
    size: int
    modified_wall_s: float
    """Modification time, by the clock of the file system or store."""
    is_file: bool
    """True for a plain file, False for links, directories and pipes."""


class Folder(Protocol):
    """Files in one folder. Names are single path segments that the caller has checked. Every method raises Unavailable."""

    display_name: str
    """Location of the folder, for messages."""
    trusts_size: bool
    """True if a file of the right size has the right content: the store publishes only complete files and verifies them."""

    def entries(self) -> Iterator[FolderEntry]: ...

    def stat(self, name: str) -> FolderEntry | None: ...

    def open_reader(self, name: str) -> contextlib.AbstractContextManager[ReadInto | None]:
        """Open a file for reading; the value is None if it does not exist. Raises NotAFile."""

    def read(self, name: str, limit: int) -> bytes | None:
        """Return at most `limit` + 1 bytes of a file, or None if it does not exist. Raises NotAFile."""

    def open_writer(self, name: str) -> contextlib.AbstractContextManager[Write]:
        """Write a file that atomically replaces an existing one when the block ends, and is discarded on an exception."""

    def create(self, name: str, data: bytes) -> bool:
        """Create a file. Return False if it exists or another writer is creating it. Never replaces a file."""

    def renew(self, name: str) -> bool:
        """Protect a file from garbage collection by setting its modification time. Return False if it must be written again."""

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""

    def remove_if_older(self, name: str, before_wall_s: float) -> bool:
        """Remove a file that was modified before `before_wall_s`. Return True if it was removed."""

    def remove_leftovers(self, before_wall_s: float) -> None:
        """Remove temporary files of crashed writers that were modified before `before_wall_s`."""


OpenFolder = Callable[[bool], contextlib.AbstractContextManager[Folder]]
"""Function that opens a folder. Its argument says whether to create a missing folder. Raises FolderMissing."""
