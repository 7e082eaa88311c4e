"""`Folder` in a store that pyarrow reaches. Only for short-lived processes (see `subprocess_call`).

An object store publishes an object when its upload completes, so a plain write is atomic. pyarrow also completes the upload
when a stream is garbage-collected, for example after an exception, which would publish a partial object. Unfinished streams
are therefore referenced until the process ends. The store may keep their parts: configure the bucket to abort incomplete
uploads. HDFS shows partially written files, so there a file is written under a temporary name and renamed.
"""

import contextlib
import hashlib
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl

from holdfast.errors import Refused
from holdfast.storage.digest import ReadInto, Write, read_limited
from holdfast.storage.filesystem.folder import FolderEntry
from holdfast.storage.filesystem.hadoop_filesystem import TYPE_NAME as HADOOP
from holdfast.storage.filesystem.hadoop_filesystem import connect_hadoop
from holdfast.storage.filesystem.os_errors import first_line, os_errors_as_unavailable
from holdfast.storage.location import HADOOP_SCHEMES, Location
from holdfast.storage.storage_errors import FolderMissing, NotAFile

OBJECT_STORES = ("s3", "gcs", "abfs")
RENEW_AFTER_S = 3600.0
"""Age in seconds above which an object is written again: its modification time cannot be set. See `BLOB_GRACE_S`."""
READ_AHEAD_BYTES = 8 << 20
REQUEST_S, CONNECT_S = 15.0, 5.0
_CANDIDATE = ".candidate-"
_CREATE_PAUSES_S = (0.0, 0.5, 1.0, 2.0)
_TEMPORARY = ".holdfast-"
_S3_OPTIONS: dict[str, Callable[[str], Any]] = {
    "region": str,
    "scheme": str,
    "endpoint_override": str,
    "tls_ca_file_path": str,
    "allow_bucket_creation": lambda text: text.lower() in ("1", "true"),
    "allow_bucket_deletion": lambda text: text.lower() in ("1", "true"),
}
_unfinished: list[Any] = []
"""Output streams that were not closed, kept alive until the process ends."""


def _ignore() -> None:
    pass


class TransferProgress:
    """Callback after each transferred chunk. It lets the parent process distinguish a slow call from a stuck one."""

    report: Callable[[], None] = staticmethod(_ignore)


class RemoteFolder:
    """Folder in a store. `wall` returns the current time in seconds since the epoch."""

    trusts_size = True

    def __init__(self, files: Any, path: str, display_name: str, *, wall: Callable[[], float] = time.time) -> None:
        self._files = files
        self._wall = wall
        self._path = path
        self._is_object_store = files.type_name in OBJECT_STORES
        self._is_hadoop = files.type_name == HADOOP
        self.display_name = display_name

    def entries(self) -> Iterator[FolderEntry]:
        from pyarrow.fs import FileSelector  # type: ignore[import-untyped,unused-ignore]  # not installed everywhere

        with os_errors_as_unavailable(f"cannot list {self.display_name}"):
            infos = self._files.get_file_info(FileSelector(self._path, allow_not_found=True))
        return (entry for info in infos if (entry := _entry(info)) is not None)

    def stat(self, name: str) -> FolderEntry | None:
        with os_errors_as_unavailable(f"cannot read the attributes of {self.display_name}/{name}"):
            return _entry(self._files.get_file_info(self._at(name)))

    @contextlib.contextmanager
    def open_reader(self, name: str) -> Iterator[ReadInto | None]:
        entry = self.stat(name)
        if entry is not None and not entry.is_file:
            raise NotAFile(f"{self.display_name}/{name} is not a file")
        action = f"cannot read {self.display_name}/{name}"
        with os_errors_as_unavailable(action):
            try:
                stream = self._files.open_input_stream(self._at(name), buffer_size=READ_AHEAD_BYTES) if entry else None
            except FileNotFoundError:
                stream = None
        if stream is None:
            yield None
            return

        def read_into(buffer: memoryview) -> int:
            with os_errors_as_unavailable(action):
                count = int(stream.readinto(buffer))
            TransferProgress.report()
            return count

        with stream:
            yield read_into

    def read(self, name: str, limit: int) -> bytes | None:
        with self.open_reader(name) as read_into:
            return read_limited(read_into, limit) if read_into is not None else None

    @contextlib.contextmanager
    def open_writer(self, name: str) -> Iterator[Write]:
        action = f"cannot write to {self.display_name}"
        target = self._at(name) if self._is_object_store else self._at(self._temporary_name())
        with os_errors_as_unavailable(action):
            stream = self._files.open_output_stream(target)
        _unfinished.append(stream)

        def write(data: memoryview) -> None:
            with os_errors_as_unavailable(action):
                stream.write(data)
            TransferProgress.report()

        yield write
        with os_errors_as_unavailable(action):
            stream.close()
            if not self._is_object_store:
                self._files.move(target, self._at(name))
        _unfinished.remove(stream)

    def create(self, name: str, data: bytes) -> bool:
        """Create a file exclusively. HDFS refuses to rename a file to a path in use.

        pyarrow has no conditional write for the other stores. A writer first creates a candidate object, then lists the folder,
        then creates the file. It withdraws if it sees the file or another candidate. Of two concurrent writers, the one that
        lists last sees the other, so at most one creates the file. This requires a store with read-after-write consistency:
        S3, GCS and Azure have it. Both writers may withdraw; they then retry after random pauses. The candidate of a killed
        writer blocks the name for every other writer.
        """
        if self._is_hadoop:
            return self._create_by_rename(name, data)
        candidate = f"{name}{_CANDIDATE}{hashlib.sha256(data).hexdigest()[:16]}"
        for pause_s in _CREATE_PAUSES_S:
            time.sleep(pause_s * random.random())
            if self.stat(name) is not None:
                return False
            self._write(candidate, data)
            rivals = [entry.name for entry in self.entries() if entry.name.startswith(f"{name}{_CANDIDATE}")]
            # This check follows the listing: a rival that is no longer listed has created the file by now.
            if rivals == [candidate] and self.stat(name) is None:
                self._write(name, data)
                self.remove(candidate)
                return True
            self.remove(candidate)
        return False

    def _create_by_rename(self, name: str, data: bytes) -> bool:
        if self.stat(name) is not None:
            return False
        temporary = self._temporary_name()
        self._write_in_place(temporary, data)
        with os_errors_as_unavailable(f"cannot create {self.display_name}/{name}"):
            created = bool(self._files.move_exclusively(self._at(temporary), self._at(name)))
        if not created:
            self.remove(temporary)
        return created

    def _write_in_place(self, name: str, data: bytes) -> None:
        with (
            os_errors_as_unavailable(f"cannot write to {self.display_name}"),
            self._files.open_output_stream(self._at(name)) as stream,
        ):
            stream.write(data)

    def _temporary_name(self) -> str:
        return f"{_TEMPORARY}{os.urandom(8).hex()}.tmp"

    def _write(self, name: str, data: bytes) -> None:
        with self.open_writer(name) as write:
            write(memoryview(data))

    def renew(self, name: str) -> bool:
        """Set the modification time of a file of HDFS. An object has none that can be set, so return True if it is young."""
        entry = self.stat(name)
        if entry is None or not self._is_hadoop:
            return entry is not None and (not self._is_object_store or self._wall() - entry.modified_wall_s < RENEW_AFTER_S)
        with os_errors_as_unavailable(f"cannot renew {self.display_name}/{name}"):
            try:
                self._files.touch(self._at(name), self._wall())
            except FileNotFoundError:
                return False
        return True

    def remove(self, name: str) -> None:
        with os_errors_as_unavailable(f"cannot remove {self.display_name}/{name}"), contextlib.suppress(FileNotFoundError):
            self._files.delete_file(self._at(name))

    def remove_if_older(self, name: str, before_wall_s: float) -> bool:
        entry = self.stat(name)
        if entry is None or not entry.is_file or entry.modified_wall_s >= before_wall_s:
            return False
        self.remove(name)
        return True

    def remove_leftovers(self, before_wall_s: float) -> None:
        for entry in self.entries():
            if (entry.name.startswith(_TEMPORARY) or _CANDIDATE in entry.name) and entry.modified_wall_s < before_wall_s:
                self.remove(entry.name)

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"


@contextlib.contextmanager
def open_remote_folder(location: Location, folder: str, make: bool) -> Iterator[RemoteFolder]:
    """Open a folder of a location. Folders need not be created: they exist as soon as a file does."""
    try:
        from pyarrow.fs import FileType
    except ImportError as error:
        raise Refused(
            f"{location.display_name} needs pyarrow, which cannot be loaded ({error}): install holdfast[remote]"
        ) from error
    with os_errors_as_unavailable(f"cannot reach {location.display_name}"):
        try:
            files, path = connect(location.join(folder))
        except ValueError as error:
            raise Refused(f"{location.display_name} cannot be used as a location: {first_line(error)}") from error
        if not make and files.get_file_info(path).type == FileType.NotFound:
            raise FolderMissing(location.display_name)
    yield RemoteFolder(files, path, f"{location.display_name}/{folder}")


def connect(location: Location) -> tuple[Any, str]:
    """Return the file system and the path of a location. Raises ValueError, ImportError, OSError, and the errors of a JVM.

    Hadoop's own client serves HDFS. S3 gets two settings that a URI cannot express. Background writes are off: they would pile
    up in memory and hide whether an upload makes progress. Timeouts are longer than the default of 3 s, which a busy server
    sometimes exceeds.
    """
    from pyarrow.fs import FileSystem, S3FileSystem

    if location.scheme in HADOOP_SCHEMES:
        return connect_hadoop(location)
    files, path = FileSystem.from_uri(str(location))
    parameters = dict(parse_qsl(location.query))
    if files.type_name != "s3" or not parameters.keys() <= _S3_OPTIONS.keys():
        return files, path
    options = {name: _S3_OPTIONS[name](value) for name, value in parameters.items()}
    options |= {"region": files.region, "background_writes": False, "request_timeout": REQUEST_S, "connect_timeout": CONNECT_S}
    return S3FileSystem(**options), path


def _entry(info: Any) -> FolderEntry | None:
    from pyarrow.fs import FileType

    if info.type == FileType.NotFound:
        return None
    modified_wall_s = info.mtime_ns / 1e9 if info.mtime_ns else 0.0
    return FolderEntry(info.base_name, info.size or 0, modified_wall_s, info.type == FileType.File)
