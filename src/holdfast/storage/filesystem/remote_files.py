"""The same through pyarrow. Only loaded in processes that may load it."""

import concurrent.futures
import contextlib
from collections.abc import Iterable
from typing import Any

from holdfast.checkpoint.file_tree import File
from holdfast.errors import Refused
from holdfast.storage.filesystem.remote_folder import Progress, reached, saying
from holdfast.storage.location import Location

AT_ONCE = 16
"""Files that are read at the same time: each costs a round trip."""


class RemoteFiles:
    """A store that is not a local disk checks what it keeps by itself, so little of the state is read."""

    read_bytes_max = 16 << 20

    def __init__(self, location: Location) -> None:
        self.shown = location.shown
        with saying(f"cannot reach {self.shown}"):
            try:
                self._files, self._path = reached(location)
            except ImportError as error:
                raise Refused(f"{self.shown} needs pyarrow, which cannot be loaded ({error})") from error
            except ValueError as error:
                raise Refused(f"{self.shown} cannot be used as a location: {error}") from error

    def walk(self, files_max: int, *, below: str = "") -> tuple[list[File], bool]:
        from pyarrow.fs import FileSelector, FileType  # type: ignore[import-untyped,unused-ignore]

        with saying(f"cannot list {self.shown}"):
            place = f"{self._path}/{below}" if below else self._path
            infos = self._files.get_file_info(FileSelector(place, allow_not_found=True, recursive=True))
        Progress.report()
        found = [self._file(info) for info in infos if info.type == FileType.File]
        return found[:files_max], len(found) > files_max

    def _file(self, info: Any) -> File:
        path = info.path.removeprefix(self._path).lstrip("/")
        return File(path, info.size or 0, info.mtime_ns / 1e9 if info.mtime_ns else 0.0)

    def read(self, paths: Iterable[str], limit: int) -> dict[str, bytes]:
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            read = dict(zip(asked := list(paths), pool.map(lambda path: self._read(path, limit), asked), strict=True))
        return {path: data for path, data in read.items() if data is not None and len(data) <= limit}

    def _read(self, path: str, limit: int) -> bytes | None:
        with saying(f"cannot read {self.shown}/{path}"):
            try:
                with self._files.open_input_stream(f"{self._path}/{path}") as stream:
                    data = bytes(stream.read(limit + 1))
            except FileNotFoundError:
                return None
        Progress.report()
        return data

    def move(self, path: str, to: str) -> None:
        """An object store copies and then removes: a crash in between leaves both, and the next attempt does it again."""
        from pyarrow.fs import FileType

        source, target = f"{self._path}/{path}", f"{self._path}/{to}"
        with saying(f"cannot set {self.shown}/{path} aside"):
            if self._files.get_file_info(source).type == FileType.NotFound:
                return
            self._files.create_dir(target.rpartition("/")[0], recursive=True)
            self._files.move(source, target)

    def replace(self, path: str, data: bytes) -> None:
        """An object is there as a whole when it is closed."""
        with saying(f"cannot write {self.shown}/{path}"), self._files.open_output_stream(f"{self._path}/{path}") as stream:
            stream.write(data)
        Progress.report()

    def remove(self, path: str) -> None:
        with saying(f"cannot remove {self.shown}/{path}"), contextlib.suppress(FileNotFoundError):
            self._files.delete_file(f"{self._path}/{path}")
