"""HDFS through Hadoop's own client, with those methods of pyarrow's file systems that this package uses.

pyarrow's own HDFS needs the native library libhdfs, which is part of a Hadoop installation only. Hadoop's Java client is part
of PySpark. See decision 39.
"""

import contextlib
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.storage.filesystem.hadoop_jvm import HadoopJvm, start_hadoop_jvm
from holdfast.storage.location import Location

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSelector

TYPE_NAME = "hadoop"
"""`type_name` of this file system, beside pyarrow's own names."""
CHUNK_BYTES = 1 << 20
"""Bytes per call: each call carries them as text."""
_MISSING = "java.io.FileNotFoundException"
_EXISTS = "org.apache.hadoop.fs.FileAlreadyExistsException"


def connect_hadoop(location: Location) -> tuple["HadoopFileSystem", str]:
    """Return the file system and the absolute path of a location. Raises OSError, Unavailable and Refused."""
    jvm = start_hadoop_jvm()
    with hadoop_errors():
        return HadoopFileSystem(jvm, f"{location.scheme}://{location.authority}/"), f"/{location.path}"


@contextlib.contextmanager
def hadoop_errors() -> Iterator[None]:
    """Raise an OSError with the message of Java for an exception of the block."""
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        raise _os_error(error.java_exception) from error
    except Py4JError as error:
        raise OSError(f"the Hadoop client has ended ({error})") from error


def _os_error(exception: Any) -> OSError:
    name, message = exception.getClass().getName(), str(exception.getMessage())
    kinds: dict[str, type[OSError]] = {_MISSING: FileNotFoundError, _EXISTS: FileExistsError}
    return kinds.get(name, OSError)(f"{message.splitlines()[0] if message else name} ({name.rpartition('.')[2]})")


class HadoopFileSystem:
    """File system of one name node or nameservice. Paths are absolute, without scheme and authority."""

    type_name = TYPE_NAME

    def __init__(self, jvm: HadoopJvm, root: str) -> None:
        configuration = jvm.configuration()
        self._jvm = jvm
        self._files = jvm.fs.FileSystem.get(jvm.uri(root), configuration)
        self._context = jvm.fs.FileContext.getFileContext(self._files.getUri(), configuration)

    def get_file_info(self, path: "str | FileSelector") -> Any:
        """Return the information about a path, or about the entries of the folder that a selector names."""
        with hadoop_errors():
            if isinstance(path, str):
                return self._stat(path)
            try:
                return list(self._list(path.base_dir, recursive=path.recursive))
            except FileNotFoundError:
                if path.allow_not_found:
                    return []
                raise

    def _stat(self, path: str) -> "FileInfo":
        from py4j.protocol import Py4JJavaError
        from pyarrow.fs import FileInfo, FileType

        try:
            return _file_info(path, self._files.getFileStatus(self._path(path)))
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() != _MISSING:
                raise
            return FileInfo(path, FileType.NotFound)

    def _list(self, folder: str, *, recursive: bool) -> Iterator["FileInfo"]:
        with hadoop_errors():
            statuses = list(self._files.listStatus(self._path(folder)))
        for status in statuses:
            info = _file_info(f"{folder}/{status.getPath().getName()}", status)
            yield info
            if recursive and not info.is_file:
                with contextlib.suppress(FileNotFoundError):  # another process has removed it meanwhile
                    yield from self._list(info.path, recursive=True)

    def open_input_stream(self, path: str, buffer_size: int | None = None) -> "InputStream":
        del buffer_size  # Hadoop has its own
        with hadoop_errors():
            return InputStream(self._files.open(self._path(path)))

    def open_output_stream(self, path: str) -> "OutputStream":
        with hadoop_errors():
            return OutputStream(self._files.create(self._path(path), True))

    def create_dir(self, path: str, *, recursive: bool = True) -> None:
        del recursive  # always
        with hadoop_errors():
            self._files.mkdirs(self._path(path))

    def delete_file(self, path: str) -> None:
        self._delete(path, recursive=False)

    def delete_dir(self, path: str) -> None:
        self._delete(path, recursive=True)

    def _delete(self, path: str, *, recursive: bool) -> None:
        with hadoop_errors():
            if not self._files.delete(self._path(path), recursive):
                raise FileNotFoundError(path)

    def move(self, source: str, target: str) -> None:
        """Rename a file, atomically in place of an existing one."""
        with hadoop_errors():
            self._context.rename(self._path(source), self._path(target), self._jvm.rename_options("OVERWRITE"))

    def move_exclusively(self, source: str, target: str) -> bool:
        """Rename a file to an unused path, atomically. Return False if the path is in use."""
        try:
            with hadoop_errors():
                self._context.rename(self._path(source), self._path(target), self._jvm.rename_options("NONE"))
        except FileExistsError:
            return False
        return True

    def touch(self, path: str, wall_s: float) -> None:
        """Set the modification time of a file. Raises FileNotFoundError."""
        with hadoop_errors():
            self._files.setTimes(self._path(path), int(wall_s * 1000), -1)

    def _path(self, path: str) -> Any:
        return self._jvm.fs.Path(path)


class InputStream(io.RawIOBase):
    """Stream of a file's content."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, up to one chunk, and return the number of bytes; 0 only at the end of the file."""
        view = memoryview(buffer).cast("B")
        with hadoop_errors():
            data = self._stream.readNBytes(min(len(view), CHUNK_BYTES))
        view[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1, /) -> bytes:
        """Return `size` bytes, or fewer at the end of the file; all bytes without a size."""
        left = size if size is not None and size >= 0 else None
        chunks = []
        with hadoop_errors():
            while left is None or left > 0:
                data = bytes(self._stream.readNBytes(min(left, CHUNK_BYTES) if left is not None else CHUNK_BYTES))
                if not data:
                    break
                chunks.append(data)
                left = left - len(data) if left is not None else None
        return b"".join(chunks)

    def close(self) -> None:
        if not self.closed:
            super().close()
            with hadoop_errors():
                self._stream.close()


class OutputStream:
    """Stream of a new file's content. The file is complete when the stream is closed."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data).cast("B")
        with hadoop_errors():
            for start in range(0, len(view), CHUNK_BYTES):
                self._stream.write(bytes(view[start : start + CHUNK_BYTES]))

    def close(self) -> None:
        with hadoop_errors():
            self._stream.close()

    def __enter__(self) -> "OutputStream":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # After an exception the file stays incomplete: its writer gives it its name only after this block.
        with contextlib.suppress(OSError) if kind is not None else contextlib.nullcontext():
            self.close()


def _file_info(path: str, status: Any) -> "FileInfo":
    from pyarrow.fs import FileInfo, FileType

    kind = FileType.Directory if status.isDirectory() else FileType.File
    return FileInfo(path, kind, size=status.getLen(), mtime_ns=status.getModificationTime() * 1_000_000)
