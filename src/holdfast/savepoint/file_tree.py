"""A tree of files in the storage: a directory, or whatever pyarrow reaches."""

import contextlib
import ctypes
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from holdfast.errors import Refused, Unavailable
from holdfast.storage.digest import ReadInto, Write
from holdfast.storage.filesystem.remote_folder import READ_AHEAD_BYTES, reached
from holdfast.storage.location import Location

WRITE_BEHIND_BYTES = 8 << 20
_SYNC_FILE_RANGE_WRITE = 2
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


class Files(Protocol):
    """Paths are relative, with slashes. Raises Unavailable, and FileNotFoundError for what is not there."""

    shown: str

    def walk(self) -> dict[str, int]:
        """Every file, and its size. Nothing if the tree is not there."""

    def reading(self, path: str) -> contextlib.AbstractContextManager[ReadInto]: ...

    def read(self, path: str) -> bytes: ...

    def writing(self, path: str) -> contextlib.AbstractContextManager[Write]:
        """In place of what was there."""

    def settle(self) -> None:
        """What was written is there to stay, even if the power fails now."""

    def remove(self) -> None:
        """The whole tree, whether or not it was there."""

    def remove_file(self, path: str) -> None: ...

    def folders(self) -> list[str]:
        """The names of those right below."""

    def below(self, *names: str) -> "Files": ...


def files_at(location: Location) -> Files:
    if location.is_directory:
        return LocalFiles(Path(location.path))
    return ArrowFiles(location)


class LocalFiles:
    def __init__(self, root: Path) -> None:
        self._root = root
        self.shown = str(root)

    def walk(self) -> dict[str, int]:
        found: dict[str, int] = {}
        with _saying(f"cannot read {self.shown}"):
            waiting = [self._root] if self._root.is_dir() else []
            while waiting:
                with contextlib.suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(Path(entry.path))
                        elif entry.is_file(follow_symlinks=False):
                            with contextlib.suppress(FileNotFoundError):  # it was there a moment ago
                                found[str(Path(entry.path).relative_to(self._root))] = entry.stat().st_size
        return found

    @contextlib.contextmanager
    def reading(self, path: str) -> Iterator[ReadInto]:
        with _saying(f"cannot read {self.shown}/{path}"), (self._root / path).open("rb", buffering=0) as file:
            yield file.readinto

    def read(self, path: str) -> bytes:
        with _saying(f"cannot read {self.shown}/{path}"):
            return (self._root / path).read_bytes()

    @contextlib.contextmanager
    def writing(self, path: str) -> Iterator[Write]:
        target = self._root / path
        with _saying(f"cannot write {target}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb", buffering=0) as file:
                behind = _WriteBehind(file.fileno())
                yield behind.write

    def settle(self) -> None:
        """Once for all files: each by itself would take as long as the disk takes to answer, thousands of times."""
        with _saying(f"cannot write {self.shown}"):
            folder = os.open(self._root, os.O_RDONLY)
            try:
                if _LIBC.syncfs(folder) != 0:
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            finally:
                os.close(folder)

    def remove(self) -> None:
        with _saying(f"cannot remove {self.shown}"), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._root)

    def remove_file(self, path: str) -> None:
        with _saying(f"cannot remove {self.shown}/{path}"):
            (self._root / path).unlink()

    def folders(self) -> list[str]:
        with _saying(f"cannot read {self.shown}"):
            return sorted(entry.name for entry in self._root.iterdir() if entry.is_dir()) if self._root.is_dir() else []

    def below(self, *names: str) -> "LocalFiles":
        return LocalFiles(self._root.joinpath(*names))


class ArrowFiles:
    def __init__(self, location: Location) -> None:
        self._location = location
        self.shown = location.shown
        try:
            self._files, self._path = reached(location)
        except ValueError as error:
            raise Refused(f"{location.shown} cannot be used as a location: {error}") from error

    def walk(self) -> dict[str, int]:
        return {
            info.path.removeprefix(f"{self._path}/"): info.size or 0 for info in self._infos(recursive=True) if info.is_file
        }

    def _infos(self, *, recursive: bool) -> list[Any]:
        from pyarrow.fs import FileSelector  # type: ignore[import-untyped,unused-ignore]

        with _saying(f"cannot list {self.shown}"):
            found: list[Any] = self._files.get_file_info(FileSelector(self._path, recursive=recursive, allow_not_found=True))
        return found

    @contextlib.contextmanager
    def reading(self, path: str) -> Iterator[ReadInto]:
        opened = self._files.open_input_stream
        with _saying(f"cannot read {self.shown}/{path}"), opened(f"{self._path}/{path}", buffer_size=READ_AHEAD_BYTES) as file:
            yield file.readinto

    def read(self, path: str) -> bytes:
        with _saying(f"cannot read {self.shown}/{path}"), self._files.open_input_stream(f"{self._path}/{path}") as file:
            return bytes(file.read())

    @contextlib.contextmanager
    def writing(self, path: str) -> Iterator[Write]:
        target = f"{self._path}/{path}"
        with _saying(f"cannot write {self.shown}/{path}"):
            if self._files.type_name not in ("s3", "gcs", "abfs"):
                self._files.create_dir(target.rpartition("/")[0], recursive=True)
            with self._files.open_output_stream(target) as file:
                yield file.write

    def settle(self) -> None:
        """A store answers when it has it."""

    def remove(self) -> None:
        from pyarrow.fs import FileType

        with _saying(f"cannot remove {self.shown}"):
            if self._files.get_file_info(self._path).type != FileType.NotFound:
                self._files.delete_dir(self._path)

    def remove_file(self, path: str) -> None:
        with _saying(f"cannot remove {self.shown}/{path}"):
            self._files.delete_file(f"{self._path}/{path}")

    def folders(self) -> list[str]:
        return sorted(info.base_name for info in self._infos(recursive=False) if not info.is_file)

    def below(self, *names: str) -> "ArrowFiles":
        return ArrowFiles(self._location.joined(*names))


class _WriteBehind:
    """Has the disk begin while there is more to come. Otherwise it would idle until all is there, and then be waited for."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._begun = 0
        self._written = 0

    def write(self, piece: memoryview) -> None:
        while piece:
            count = os.write(self._descriptor, piece)
            self._written += count
            piece = piece[count:]
        waiting = self._written - self._begun
        if waiting >= WRITE_BEHIND_BYTES:
            # Only a hint: that all of it has arrived is what `settle` makes sure of, and where that fails it is told.
            _LIBC.sync_file_range(self._descriptor, self._begun, waiting, _SYNC_FILE_RANGE_WRITE)
            self._begun = self._written


@contextlib.contextmanager
def _saying(what: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        said = error.strerror or (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        raise Unavailable(f"{what}: {said}") from error
