"""One folder of the storage: what blobs and claims need of a file system, and no more."""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from holdfast.storage.digest import ReadInto, Write


class Entry(NamedTuple):
    name: str
    size: int
    modified_wall_s: float
    """By the clock of whoever keeps the file."""
    is_file: bool
    """A plain file, and no link or anything else."""


class Folder(Protocol):
    """Names are single segments that the caller has checked. Raises Unavailable, and what each method says."""

    shown: str
    """For people."""
    trusts_size: bool
    """Whether the right size means the right content, because the store shows only whole files and checks them itself."""

    def entries(self) -> Iterator[Entry]: ...

    def stat(self, name: str) -> Entry | None: ...

    def reading(self, name: str) -> contextlib.AbstractContextManager[ReadInto | None]:
        """None if there is no such file. Raises Unreadable for what is no file."""

    def read(self, name: str, limit: int) -> bytes | None:
        """The same, at once; no more than the limit and one byte."""

    def writing(self, name: str) -> contextlib.AbstractContextManager[Write]:
        """Appears whole, and in place of what was there, when the block is left; not at all if it is left by an exception."""

    def create(self, name: str, data: bytes) -> bool:
        """False if it is there already, or somebody else is creating it at this moment. Never replaces anything."""

    def renew(self, name: str) -> bool:
        """Make it look new to a sweeper. False: write it again instead."""

    def remove(self, name: str) -> None:
        """Gone afterwards, whether or not it was there."""

    def retire(self, name: str, before_wall_s: float) -> bool:
        """Remove it if it is still not renewed since then; says whether it did."""

    def tidy(self, before_wall_s: float) -> None:
        """Remove what crashes left behind before then."""


OpenFolder = Callable[[bool], contextlib.AbstractContextManager[Folder]]
"""Opens the folder; with True, it is made if it is not there. Raises FolderMissing."""
