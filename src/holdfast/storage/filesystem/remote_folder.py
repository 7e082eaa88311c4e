"""A folder in anything that pyarrow reaches. Only for processes that end soon: see `apart.py`.

Object stores publish an object when it is complete, so there a plain write is whole or nothing. pyarrow completes it even when
a stream is only dropped, for example by an exception: a torn upload would appear under the right name. Streams that were not
finished are therefore kept until the process ends, which forgets them. (The store may keep the parts: give the bucket a rule
that aborts incomplete uploads.) File systems like HDFS show files that are being written: there a temporary name is renamed.
"""

import contextlib
import hashlib
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl

from holdfast.errors import Refused, Unavailable
from holdfast.storage.digest import ReadInto, Write
from holdfast.storage.filesystem.folder import Entry
from holdfast.storage.location import Location
from holdfast.storage.storage_errors import FolderMissing, Unreadable

OBJECT_STORES = ("s3", "gcs", "abfs")
RENEW_AFTER_S = 3600.0
"""An object cannot be touched, only written again. One that is younger than this is far enough from being swept."""
READ_AHEAD_BYTES = 8 << 20
REQUEST_S, CONNECT_S = 15.0, 5.0
_CANDIDATE = ".candidate-"
_PAUSES_S = (0.0, 0.5, 1.0, 2.0)
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


def _unseen() -> None:
    pass


class Progress:
    """Called whenever some bytes have moved, so that whoever waits for this process can tell slow from stuck."""

    report: Callable[[], None] = staticmethod(_unseen)


class RemoteFolder:
    trusts_size = True

    def __init__(self, files: Any, path: str, shown: str, *, wall: Callable[[], float] = time.time) -> None:
        self._files = files
        self._wall = wall
        self._path = path
        self._is_object_store = files.type_name in OBJECT_STORES
        self.shown = shown

    def entries(self) -> Iterator[Entry]:
        from pyarrow.fs import FileSelector  # type: ignore[import-untyped,unused-ignore]

        with saying(f"cannot list {self.shown}"):
            found = self._files.get_file_info(FileSelector(self._path, allow_not_found=True))
        return (entry for info in found if (entry := _entry(info)) is not None)

    def stat(self, name: str) -> Entry | None:
        with saying(f"cannot look at {self.shown}/{name}"):
            return _entry(self._files.get_file_info(self._at(name)))

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[ReadInto | None]:
        entry = self.stat(name)
        if entry is not None and not entry.is_file:
            raise Unreadable(f"{self.shown}/{name} is not a file")
        what = f"cannot read {self.shown}/{name}"
        with saying(what):
            try:
                stream = self._files.open_input_stream(self._at(name), buffer_size=READ_AHEAD_BYTES) if entry else None
            except FileNotFoundError:
                stream = None
        if stream is None:
            yield None
            return

        def read_into(buffer: memoryview) -> int:
            with saying(what):
                count = int(stream.readinto(buffer))
            Progress.report()
            return count

        with stream:
            yield read_into

    def read(self, name: str, limit: int) -> bytes | None:
        with self.reading(name) as read_into:
            if read_into is None:
                return None
            buffer = memoryview(bytearray(limit + 1))
            filled = 0
            while filled <= limit and (count := read_into(buffer[filled:])):
                filled += count
            return bytes(buffer[:filled])

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Write]:
        what = f"cannot write to {self.shown}"
        target = self._at(name) if self._is_object_store else self._at(f"{_TEMPORARY}{os.urandom(8).hex()}.tmp")
        with saying(what):
            stream = self._files.open_output_stream(target)
        _unfinished.append(stream)

        def write(piece: memoryview) -> None:
            with saying(what):
                stream.write(piece)
            Progress.report()

        yield write
        with saying(what):
            stream.close()
            if not self._is_object_store:
                self._publish(target, name)
        _unfinished.remove(stream)

    def _publish(self, temporary: str, name: str) -> None:
        """HDFS does not rename over a file that is there."""
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_file(self._at(name))
        self._files.move(temporary, self._at(name))

    def create(self, name: str, data: bytes) -> bool:
        """pyarrow has no write that fails if the object is there, so creating is in three steps, each under a name of its own.

        Stand as a candidate; look; create. Whoever sees the file or another candidate withdraws. Of two that stand at the same
        time at least the one who looks last sees the other, so that at most one creates, provided that the store shows
        what was written to everybody at once, as S3, GCS, Azure and HDFS do. Both may withdraw; then they try again after
        different times. A candidate that was killed in between uses up the name, except for itself.
        """
        candidate = f"{name}{_CANDIDATE}{hashlib.sha256(data).hexdigest()[:16]}"
        for pause_s in _PAUSES_S:
            time.sleep(pause_s * random.random())
            if self.stat(name) is not None:
                return False
            self._write(candidate, data)
            rivals = [entry.name for entry in self.entries() if entry.name.startswith(f"{name}{_CANDIDATE}")]
            # Looked for after the list was made: a rival that is not in it any more has created the file by then.
            if rivals == [candidate] and self.stat(name) is None:
                self._write(name, data)
                self.remove(candidate)
                return True
            self.remove(candidate)
        return False

    def _write(self, name: str, data: bytes) -> None:
        with self.writing(name) as write:
            write(memoryview(data))

    def renew(self, name: str) -> bool:
        """HDFS could only be renewed by removing the file for a moment; there, `ensure` after the submission has to do."""
        entry = self.stat(name)
        return entry is not None and (not self._is_object_store or self._wall() - entry.modified_wall_s < RENEW_AFTER_S)

    def remove(self, name: str) -> None:
        with saying(f"cannot remove {self.shown}/{name}"), contextlib.suppress(FileNotFoundError):
            self._files.delete_file(self._at(name))

    def retire(self, name: str, before_wall_s: float) -> bool:
        entry = self.stat(name)
        if entry is None or not entry.is_file or entry.modified_wall_s >= before_wall_s:
            return False
        self.remove(name)
        return True

    def tidy(self, before_wall_s: float) -> None:
        for entry in self.entries():
            if (entry.name.startswith(_TEMPORARY) or _CANDIDATE in entry.name) and entry.modified_wall_s < before_wall_s:
                self.remove(entry.name)

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"


@contextlib.contextmanager
def open_remote(location: Location, folder: str, make: bool) -> Iterator[RemoteFolder]:
    """Nothing has to be made: folders come with their files."""
    try:
        from pyarrow.fs import FileType
    except ImportError as error:
        raise Refused(f"{location.shown} needs pyarrow, which cannot be loaded ({error}): install holdfast[remote]") from error
    with saying(f"cannot reach {location.shown}"):
        try:
            files, path = reached(location.joined(folder))
        except ValueError as error:
            raise Refused(f"{location.shown} cannot be used as a location: {_first_line(error)}") from error
        if not make and files.get_file_info(path).type == FileType.NotFound:
            raise FolderMissing(location.shown)
    yield RemoteFolder(files, path, f"{location.shown}/{folder}")


def reached(location: Location) -> tuple[Any, str]:
    """As pyarrow reads the URI. For S3 with two settings that a URI has no words for.

    By default its writes return at once and pile up in memory, so that nobody can tell a slow upload from a stuck one; and
    a request is given up after three seconds of silence, which a busy server needs at times.
    """
    from pyarrow.fs import FileSystem, S3FileSystem

    files, path = FileSystem.from_uri(str(location))
    asked = dict(parse_qsl(location.query))
    if files.type_name != "s3" or not asked.keys() <= _S3_OPTIONS.keys():
        return files, path
    options = {name: _S3_OPTIONS[name](value) for name, value in asked.items()}
    options |= {"region": files.region, "background_writes": False, "request_timeout": REQUEST_S, "connect_timeout": CONNECT_S}
    return S3FileSystem(**options), path


def _entry(info: Any) -> Entry | None:
    from pyarrow.fs import FileType

    if info.type == FileType.NotFound:
        return None
    modified_wall_s = info.mtime_ns / 1e9 if info.mtime_ns else 0.0
    return Entry(info.base_name, info.size or 0, modified_wall_s, info.type == FileType.File)


@contextlib.contextmanager
def saying(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(f"{what}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
