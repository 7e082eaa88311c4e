"""Find the input files: paths, directories, globs, addresses of remote storage, standard input."""

import glob
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow
from pyarrow import fs

from holdfast.errors import Refused

PREFIX_BYTES = 128
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


@dataclass(frozen=True, slots=True)
class InputFile:
    path: str
    """Path on this machine, or address of remote storage."""
    name: str
    """Name in answers."""
    size: int
    compression: str = ""
    is_temporary: bool = False
    """True for a copy that is deleted after it has been read."""
    prefix: bytes = b""
    """First bytes, by which another machine recognizes that it has a different file at this path."""
    problem: str = ""
    """Reason why the file is not read."""

    @property
    def is_remote(self) -> bool:
        return "://" in self.path


def find_inputs(paths: Iterable[str]) -> list[InputFile]:
    """Return each file once, in the order of `paths` and by name within a directory.

    Raise Refused if a named path cannot be read or has no file. Files in directories that cannot be read have a `problem`."""
    files: dict[str, InputFile] = {}
    for path in paths:
        named = list(_files_at(path))
        if not named:
            raise Refused(f"there is no file in {_without_credentials(path) if '://' in path else path}")
        for one in named:
            files.setdefault(one.path, one)
    return list(files.values())


def _files_at(path: str) -> Iterator[InputFile]:
    if path == "-":
        yield _standard_input()
    elif "://" in path:
        yield from _remote(path)
    elif os.path.lexists(path):
        yield from _at_local_path(path)
    else:
        matches = sorted(glob.glob(path, recursive=True))
        if not matches:
            raise Refused(f"there is no {path}")
        for match in matches:
            yield from _files_found_at(match)


def _at_local_path(path: str) -> Iterator[InputFile]:
    """Yield the files at a path that the user named. Raise Refused if it cannot be read."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            os.scandir(path).close()
            yield from _in_directory(path)
        elif stat.S_ISFIFO(mode):
            with open(path, "rb") as pipe:
                yield _copied(pipe, path)
        elif stat.S_ISREG(mode):
            yield _local(path, os.path.realpath(path))
        else:
            raise Refused(f"{path} cannot be read: it is a device or a socket, not a file")
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error


def _files_found_at(path: str) -> Iterator[InputFile]:
    """Yield the files at a path that was found in a directory or by a pattern. Devices, sockets and pipes are skipped."""
    if os.path.isdir(path):
        yield from _in_directory(path)
    elif os.path.isfile(path):
        yield _local_or_unreadable(path, os.path.realpath(path))


def _in_directory(path: str) -> Iterator[InputFile]:
    """Yield its own files first, then those of its directories. Resolve the directory once: it may have thousands of files."""
    real = os.path.realpath(path)
    try:
        with os.scandir(path) as entries:
            in_order = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        yield _unreadable(path, error)
        return
    for entry in in_order:
        if os.path.isfile(entry.path) if entry.is_symlink() else entry.is_file():
            real_path = os.path.realpath(entry.path) if entry.is_symlink() else os.path.join(real, entry.name)
            yield _local_or_unreadable(entry.path, real_path)
    for entry in in_order:
        if entry.is_dir(follow_symlinks=False):
            yield from _in_directory(entry.path)


def _local(path: str, real: str) -> InputFile:
    with open(path, "rb", buffering=0) as file:
        beginning = file.read(PREFIX_BYTES)
        size = os.fstat(file.fileno()).st_size
    return InputFile(real, path, size, _compression(path, beginning), prefix=beginning)


def _local_or_unreadable(path: str, real: str) -> InputFile:
    """Open a file that the user did not name. One unreadable file does not prevent the others from being explained."""
    try:
        return _local(path, real)
    except OSError as error:
        return _unreadable(path, error)


def _unreadable(path: str, error: OSError) -> InputFile:
    return InputFile(path, path, 0, problem=f"cannot be read: {error.strerror}")


def _compression(name: str, magic: bytes) -> str:
    """Detect the compression by the first bytes: a name may be wrong."""
    for prefix, compression in _MAGIC.items():
        if magic.startswith(prefix):
            return compression
    suffix = Path(name).suffix
    return _COMPRESSIONS[suffix] if suffix == ".bz2" and magic.startswith(b"BZh") else ""


def _standard_input() -> InputFile:
    return _copied(sys.stdin.buffer, "standard input")


def _copied(stream: IO[bytes], name: str) -> InputFile:
    """Copy a stream to a temporary file, because it is read more than once."""
    spool = tempfile.NamedTemporaryFile(prefix="holdfast-explain-", suffix=".log", delete=False)  # noqa: SIM115 -- closed by `with` below
    with spool:
        while block := stream.read(1 << 20):
            spool.write(block)
    return input_from_copy(Path(spool.name), name)


def input_from_copy(path: Path, name: str) -> InputFile:
    """Return a temporary copy as an input with another name."""
    with path.open("rb") as file:
        magic = file.read(4)
    return InputFile(str(path), name, path.stat().st_size, _compression("", magic), is_temporary=True)


def _remote(address: str) -> Iterator[InputFile]:
    try:
        system, path = fs.FileSystem.from_uri(address)
        scheme = address.split("://", 1)[0]
        before, after = _split_address(address, path)
        info = system.get_file_info(path)
        infos = [info] if info.type == fs.FileType.File else system.get_file_info(fs.FileSelector(path, recursive=True))
        for one in sorted((one for one in infos if one.type == fs.FileType.File), key=lambda one: one.path):
            compression = _COMPRESSIONS.get(f".{one.extension}", "")
            yield InputFile(f"{before}{one.path}{after}", f"{scheme}://{one.path}", one.size, compression)
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        public = _without_credentials(address)
        raise Refused(f"{public} cannot be read: {error}".replace(address, public)) from error


def _split_address(address: str, path: str) -> tuple[str, str]:
    """Return the parts of an address before and after the path: credentials and host, and query options."""
    base, mark, options = address.partition("?")
    return base.rstrip("/").removesuffix(path.rstrip("/")), mark + options


def _without_credentials(address: str) -> str:
    scheme, _, rest = address.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def open_input(path: str, compression: str) -> IO[bytes]:
    """Open a file for reading uncompressed bytes. A compressed file cannot seek."""
    raw: Any
    if "://" in path:
        system, inner = fs.FileSystem.from_uri(path)
        raw = system.open_input_file(inner) if not compression else system.open_input_stream(inner, compression=None)
    else:
        raw = open(path, "rb") if not compression else pyarrow.OSFile(path, "rb")  # noqa: SIM115 -- closed by the caller
    if compression:
        stream: IO[bytes] = pyarrow.CompressedInputStream(raw, compression)
        return stream
    file: IO[bytes] = raw
    return file
