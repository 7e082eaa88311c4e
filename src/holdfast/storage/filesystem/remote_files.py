"""`Files` in a store that pyarrow reaches. Only for processes that may load pyarrow."""

import concurrent.futures
import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.checkpoint.file_tree import ELSEWHERE, HERE, MISSING, File
from holdfast.checkpoint.relocation.spark_path import parse_spark_path, path_below
from holdfast.errors import Refused
from holdfast.storage.digest import ReadInto, Write
from holdfast.storage.filesystem.local_files import locate_local_file
from holdfast.storage.filesystem.os_errors import first_line, os_errors_as_unavailable
from holdfast.storage.filesystem.remote_folder import OBJECT_STORES, READ_AHEAD_BYTES, TransferProgress, connect
from holdfast.storage.location import Location

READ_THREADS = 16
"""Files read at the same time. Each read costs a round trip."""


class RemoteFiles:
    """Files below a location. The store verifies its own data, so only a little state is read to check it."""

    read_bytes_max = 16 << 20

    def __init__(self, location: Location) -> None:
        self._location = location
        self.display_name = location.display_name
        self.spark_root = location.spark_uri
        with os_errors_as_unavailable(f"cannot reach {self.display_name}"):
            try:
                self._files, self._path = connect(location)
            except ImportError as error:
                raise Refused(f"{self.display_name} needs pyarrow, which cannot be loaded ({error})") from error
            except ValueError as error:
                raise Refused(f"{self.display_name} cannot be used as a location: {first_line(error)}") from error

    def walk(self, files_max: int | None = None, *, below: str = "") -> tuple[list[File], bool]:
        from pyarrow.fs import FileType  # type: ignore[import-untyped,unused-ignore]  # not installed everywhere

        infos = self._list(f"{self._path}/{below}" if below else self._path, recursive=True)
        found = [self._file(info) for info in infos if info.type == FileType.File]
        return found[:files_max], files_max is not None and len(found) > files_max

    def list_folders(self) -> list[str]:
        return sorted(info.base_name for info in self._list(self._path, recursive=False) if not info.is_file)

    def _list(self, path: str, *, recursive: bool) -> list[Any]:
        from pyarrow.fs import FileSelector

        with os_errors_as_unavailable(f"cannot list {self.display_name}"):
            infos: list[Any] = self._files.get_file_info(FileSelector(path, recursive=recursive, allow_not_found=True))
        TransferProgress.report()
        return infos

    def _file(self, info: Any) -> File:
        path = info.path.removeprefix(self._path).lstrip("/")
        return File(path, info.size or 0, info.mtime_ns / 1e9 if info.mtime_ns else 0.0)

    def read_files(self, paths: Iterable[str], bytes_max: int) -> dict[str, bytes]:
        def read(path: str) -> bytes | None:
            try:
                return self._read(path, bytes_max + 1)
            except FileNotFoundError:
                return None

        requested = list(paths)
        with concurrent.futures.ThreadPoolExecutor(READ_THREADS) as pool:
            contents = dict(zip(requested, pool.map(read, requested), strict=True))
        return {path: data for path, data in contents.items() if data is not None and len(data) <= bytes_max}

    def locate(self, path: str) -> str | None:
        from pyarrow.fs import FileType

        named, root = parse_spark_path(path), parse_spark_path(f"{self._location.spark_uri}/")
        if named is None or root is None or not named.is_in_same_store(root):
            return locate_local_file(path, None)
        store = self._path.removesuffix(self._location.path)
        with os_errors_as_unavailable(f"cannot read {path}"):
            info = self._files.get_file_info(f"{store}{named.path.lstrip('/')}")
        if info.type != FileType.File:
            return MISSING
        return HERE if path_below(root, named) is not None else ELSEWHERE

    def read(self, path: str) -> bytes:
        return self._read(path, None)

    def _read(self, path: str, size: int | None) -> bytes:
        with self._open(path) as stream, os_errors_as_unavailable(f"cannot read {self.display_name}/{path}"):
            data = bytes(stream.read(size))
        TransferProgress.report()
        return data

    @contextlib.contextmanager
    def open_reader(self, path: str) -> Iterator[ReadInto]:
        with self._open(path, buffer_size=READ_AHEAD_BYTES) as stream:

            def read_into(buffer: memoryview) -> int:
                with os_errors_as_unavailable(f"cannot read {self.display_name}/{path}"):
                    count = int(stream.readinto(buffer))
                TransferProgress.report()
                return count

            yield read_into

    def _open(self, path: str, **options: int) -> Any:
        with os_errors_as_unavailable(f"cannot read {self.display_name}/{path}"):
            try:
                return self._files.open_input_stream(f"{self._path}/{path}", **options)
            except FileNotFoundError:
                pass
        raise FileNotFoundError(f"{self.display_name}/{path}")

    @contextlib.contextmanager
    def open_writer(self, path: str) -> Iterator[Write]:
        target = f"{self._path}/{path}"
        action = f"cannot write {self.display_name}/{path}"
        with os_errors_as_unavailable(action):
            if self._files.type_name not in OBJECT_STORES:
                self._files.create_dir(target.rpartition("/")[0], recursive=True)
            stream = self._files.open_output_stream(target)

        def write(data: memoryview) -> None:
            with os_errors_as_unavailable(action):
                stream.write(data)
            TransferProgress.report()

        with os_errors_as_unavailable(action), stream:  # closing the stream completes the write
            yield write

    def sync(self) -> None:
        """Do nothing: closing a stream waits until the store has the data."""

    def replace(self, path: str, data: bytes) -> None:
        target = f"{self._path}/{path}"
        is_object_store = self._files.type_name in OBJECT_STORES
        temporary = target if is_object_store else f"{target}.{os.urandom(8).hex()}.tmp"
        with os_errors_as_unavailable(f"cannot write {self.display_name}/{path}"):
            with self._files.open_output_stream(temporary) as stream:
                stream.write(data)
            if not is_object_store:  # a store publishes the object when the stream is closed, a file system needs a rename
                self._files.move(temporary, target)
        TransferProgress.report()

    def move(self, path: str, to: str) -> None:
        """Move a file. An object store copies and then removes; after a crash in between, repeating the move is safe."""
        from pyarrow.fs import FileType

        source, target = f"{self._path}/{path}", f"{self._path}/{to}"
        with os_errors_as_unavailable(f"cannot move {self.display_name}/{path} to {self.display_name}/{to}"):
            if self._files.get_file_info(source).type == FileType.NotFound:
                return
            self._files.create_dir(target.rpartition("/")[0], recursive=True)
            self._files.move(source, target)

    def remove_file(self, path: str) -> None:
        with os_errors_as_unavailable(f"cannot remove {self.display_name}/{path}"), contextlib.suppress(FileNotFoundError):
            self._files.delete_file(f"{self._path}/{path}")

    def remove_tree(self) -> None:
        from pyarrow.fs import FileType

        with os_errors_as_unavailable(f"cannot remove {self.display_name}"):
            if self._files.get_file_info(self._path).type != FileType.NotFound:
                self._files.delete_dir(self._path)
        TransferProgress.report()

    def subtree(self, *names: str) -> "RemoteFiles":
        return RemoteFiles(self._location.join(*names))
