"""`Files` in a local directory, with the standard library alone."""

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from holdfast.atomic_file import write_atomically
from holdfast.checkpoint.file_tree import ELSEWHERE, HERE, MISSING, File
from holdfast.checkpoint.relocation.spark_path import FILE, parse_spark_path
from holdfast.storage.digest import ReadInto, Write
from holdfast.storage.filesystem.local_io import open_plain_file
from holdfast.storage.filesystem.os_errors import os_errors_as_unavailable
from holdfast.storage.storage_errors import NotAFile


class LocalFiles:
    """Files below a directory. Links are not followed; reading a link or a pipe counts as reading a missing file."""

    read_bytes_max = 256 << 20

    def __init__(self, root: Path) -> None:
        self._root = root
        self.display_name = self.spark_root = str(root)

    def walk(self, files_max: int | None = None, *, below: str = "") -> tuple[list[File], bool]:
        found: list[File] = []
        with os_errors_as_unavailable(f"cannot list {self._root}"):
            for file in self._plain_files(below):
                if len(found) == files_max:
                    return found, True
                found.append(file)
        return found, False

    def _plain_files(self, below: str) -> Iterator[File]:
        """Yield files folder by folder, in order of folder names.

        A running query writes `offsets` before `commits`. `commits` is listed first, so each listed commit has its offsets.
        """
        folders = [below]
        while folders:
            folder = folders.pop()
            try:
                entries = sorted(os.scandir(self._root / folder), key=lambda entry: entry.name, reverse=True)
            except FileNotFoundError:
                continue
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                elif (file := _plain_file(entry, path)) is not None:
                    yield file

    def list_folders(self) -> list[str]:
        with os_errors_as_unavailable(f"cannot list {self._root}"):
            return sorted(entry.name for entry in self._root.iterdir() if entry.is_dir()) if self._root.is_dir() else []

    def read_files(self, paths: Iterable[str], bytes_max: int) -> dict[str, bytes]:
        contents: dict[str, bytes] = {}
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                data = self._read(path, bytes_max + 1)
                if len(data) <= bytes_max:
                    contents[path] = data
        return contents

    def read(self, path: str) -> bytes:
        return self._read(path, -1)

    def _read(self, path: str, size: int) -> bytes:
        with open(self._open(path), "rb") as file, os_errors_as_unavailable(f"cannot read {self._root}/{path}"):
            return file.read(size)

    @contextlib.contextmanager
    def open_reader(self, path: str) -> Iterator[ReadInto]:
        with open(self._open(path), "rb", buffering=0) as file:

            def read_into(buffer: memoryview) -> int:
                with os_errors_as_unavailable(f"cannot read {self._root}/{path}"):
                    return file.readinto(buffer) or 0

            yield read_into

    def locate(self, path: str) -> str | None:
        return locate_local_file(path, self._root)

    def _open(self, path: str) -> int:
        display_name = f"{self._root}/{path}"
        with os_errors_as_unavailable(f"cannot read {display_name}"):
            try:
                return open_plain_file(self._root / path, display_name=display_name)
            except (FileNotFoundError, NotAFile):
                pass
        raise FileNotFoundError(display_name)

    @contextlib.contextmanager
    def open_writer(self, path: str) -> Iterator[Write]:
        from holdfast.storage.filesystem.disk_sync import WriteBehind  # loads ctypes, which only savepoints need

        target = self._root / path
        action = f"cannot write {target}"
        with os_errors_as_unavailable(action):
            target.parent.mkdir(parents=True, exist_ok=True)
            file = target.open("wb", buffering=0)
        with os_errors_as_unavailable(action), file:
            write_behind = WriteBehind(file.fileno())

            def write(data: memoryview) -> None:
                with os_errors_as_unavailable(action):
                    write_behind.write(data)

            yield write

    def sync(self) -> None:
        from holdfast.storage.filesystem.disk_sync import sync_filesystem

        with os_errors_as_unavailable(f"cannot write {self._root}"):
            sync_filesystem(self._root)

    def replace(self, path: str, data: bytes) -> None:
        with os_errors_as_unavailable(f"cannot write {self._root}/{path}"):
            write_atomically(self._root / path, data, mode=0o644)

    def move(self, path: str, to: str) -> None:
        source, target = self._root / path, self._root / to
        with os_errors_as_unavailable(f"cannot move {source} to {target}"), contextlib.suppress(FileNotFoundError):
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)

    def remove_file(self, path: str) -> None:
        with os_errors_as_unavailable(f"cannot remove {self._root}/{path}"):
            (self._root / path).unlink(missing_ok=True)

    def remove_tree(self) -> None:
        with os_errors_as_unavailable(f"cannot remove {self._root}"), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._root)

    def subtree(self, *names: str) -> "LocalFiles":
        return LocalFiles(self._root.joinpath(*names))


def locate_local_file(path: str, root: Path | None) -> str | None:
    """Return the place of a file by its path in Spark's form, or None for a path that is not local or cannot be accessed.

    A link to a file below the root counts as this file.
    """
    parsed = parse_spark_path(path)
    if parsed is None or parsed.scheme != FILE:
        return None
    try:
        if not stat.S_ISREG(os.stat(parsed.path).st_mode):
            return MISSING
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    except (OSError, ValueError):
        return None
    is_here = root is not None and Path(os.path.realpath(parsed.path)).is_relative_to(os.path.realpath(root))
    return HERE if is_here else ELSEWHERE


def _plain_file(entry: "os.DirEntry[str]", path: str) -> File | None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return File(path, status.st_size, status.st_mtime) if stat.S_ISREG(status.st_mode) else None
