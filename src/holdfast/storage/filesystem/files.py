"""All files below one place: listed, read, moved, replaced. What a checkpoint needs of a file system, and no more."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from holdfast.atomic_file import write_atomically
from holdfast.checkpoint.file_tree import File
from holdfast.storage.filesystem.local_folder import saying

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Files(Protocol):
    """Paths are relative, with slashes. Raises Unavailable."""

    shown: str
    """For people."""
    read_bytes_max: int
    """How much may be read to look at state, which can be large."""

    def walk(self, files_max: int, *, below: str = "") -> tuple[list[File], bool]:
        """All plain files there or in a folder of it, and whether there were more than that many. Empty if it is not there."""

    def read(self, paths: Iterable[str], limit: int) -> dict[str, bytes]:
        """Those that are there and not larger than the limit."""

    def move(self, path: str, to: str) -> None:
        """Under a name that is not taken. Its folders are made; what is not there is left alone."""

    def replace(self, path: str, data: bytes) -> None:
        """Whole and on disk, or not at all. Its folder is there."""

    def remove(self, path: str) -> None:
        """If it is there."""


class LocalFiles:
    """In a directory, with the standard library alone. Links are not followed."""

    read_bytes_max = 256 << 20

    def __init__(self, root: Path) -> None:
        self._root = root
        self.shown = str(root)

    def walk(self, files_max: int, *, below: str = "") -> tuple[list[File], bool]:
        found: list[File] = []
        folders = [below]
        with saying(f"cannot list {self._root}"):
            while folders:
                folder = folders.pop()
                try:
                    entries = sorted(os.scandir(self._root / folder), key=lambda entry: entry.name, reverse=True)
                except FileNotFoundError:
                    continue
                # In the order of names: a running query writes `offsets` before `commits`, so what is seen of it fits together.
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if not _is_text(path):
                        continue  # Spark did not write that
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                    elif (file := _file(entry, path)) is not None:
                        found.append(file)
                if len(found) > files_max:
                    return found[:files_max], True
        return found, False

    def read(self, paths: Iterable[str], limit: int) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for path in paths:
            with saying(f"cannot read {self._root}/{path}"), contextlib.suppress(FileNotFoundError):
                data = self._read(path, limit)
                if len(data) <= limit:
                    found[path] = data
        return found

    def _read(self, path: str, limit: int) -> bytes:
        try:
            descriptor = os.open(self._root / path, _READ)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise FileNotFoundError(path) from error
            raise
        with open(descriptor, "rb") as file:
            return file.read(limit + 1)

    def move(self, path: str, to: str) -> None:
        source, target = self._root / path, self._root / to
        with saying(f"cannot set {source} aside"), contextlib.suppress(FileNotFoundError):
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)

    def replace(self, path: str, data: bytes) -> None:
        with saying(f"cannot write {self._root}/{path}"):
            write_atomically(self._root / path, data, mode=0o644)

    def remove(self, path: str) -> None:
        with saying(f"cannot remove {self._root}/{path}"):
            (self._root / path).unlink(missing_ok=True)


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _file(entry: "os.DirEntry[str]", path: str) -> File | None:
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return File(path, found.st_size, found.st_mtime) if stat.S_ISREG(found.st_mode) else None
