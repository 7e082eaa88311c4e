"""The files that somebody named: paths, directories, globs, addresses of remote storage, standard input."""

import glob
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow
from pyarrow import fs

from holdfast.errors import Refused

BEGINNING_BYTES = 128
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


@dataclass(frozen=True, slots=True)
class Input:
    path: str
    """Where it is read from: a path on this machine, or an address."""
    name: str
    """What it is called in answers."""
    size: int
    compression: str = ""
    spooled: bool = False
    """A copy, which goes when it has been read."""
    beginning: bytes = b""
    """Its first bytes, by which another machine can tell whether it has the same file."""

    @property
    def remote(self) -> bool:
        return "://" in self.path


def inputs(paths: Iterable[str]) -> list[Input]:
    """In the order in which they were named, those in a directory by name; each once. Refuses what is not there."""
    found: dict[str, Input] = {}
    for path in paths:
        named = list(_named(path))
        if not named:
            raise Refused(f"there is no file in {_shown(path) if '://' in path else path}")
        for one in named:
            found.setdefault(one.path, one)
    return list(found.values())


def _named(path: str) -> Iterator[Input]:
    if path == "-":
        yield _standard_input()
    elif "://" in path:
        yield from _remote(path)
    elif Path(path).is_dir():
        yield from _in_directory(path)
    elif Path(path).exists():
        yield _local(path, os.path.realpath(path))
    else:
        matches = sorted(glob.glob(path, recursive=True))
        if not matches:
            raise Refused(f"there is no {path}")
        for match in matches:
            yield from _named(match)


def _in_directory(path: str) -> Iterator[Input]:
    """Its own files first. There may be many thousands: the directory is looked up once for all of them."""
    real = os.path.realpath(path)
    try:
        with os.scandir(path) as entries:
            in_order = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error
    for entry in in_order:
        if entry.is_file():
            yield _local(entry.path, os.path.realpath(entry.path) if entry.is_symlink() else os.path.join(real, entry.name))
    for entry in in_order:
        if entry.is_dir(follow_symlinks=False):
            yield from _in_directory(entry.path)


def _local(path: str, real: str) -> Input:
    try:
        with open(path, "rb", buffering=0) as file:
            beginning = file.read(BEGINNING_BYTES)
            size = os.fstat(file.fileno()).st_size
        return Input(real, path, size, _compression(path, beginning), beginning=beginning)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error


def _compression(name: str, magic: bytes) -> str:
    """By what it begins with, where that tells; a name may lie."""
    for beginning, compression in _MAGIC.items():
        if magic.startswith(beginning):
            return compression
    suffix = Path(name).suffix
    return _COMPRESSIONS[suffix] if suffix == ".bz2" and magic.startswith(b"BZh") else ""


def _standard_input() -> Input:
    """Kept in a file, because it is read more than once."""
    spool = tempfile.NamedTemporaryFile(prefix="holdfast-explain-", suffix=".log", delete=False)  # noqa: SIM115
    with spool:
        while block := sys.stdin.buffer.read(1 << 20):
            spool.write(block)
    return copied(Path(spool.name), "standard input")


def copied(path: Path, name: str) -> Input:
    """A copy, of something that is known by another name."""
    with path.open("rb") as file:
        magic = file.read(4)
    return Input(str(path), name, path.stat().st_size, _compression("", magic), spooled=True)


def _remote(address: str) -> Iterator[Input]:
    try:
        system, path = fs.FileSystem.from_uri(address)
        scheme = address.split("://", 1)[0]
        before, after = _around(address, path)
        info = system.get_file_info(path)
        infos = [info] if info.type == fs.FileType.File else system.get_file_info(fs.FileSelector(path, recursive=True))
        for one in sorted((one for one in infos if one.type == fs.FileType.File), key=lambda one: one.path):
            compression = _COMPRESSIONS.get(f".{one.extension}", "")
            yield Input(f"{before}{one.path}{after}", f"{scheme}://{one.path}", one.size, compression)
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise Refused(f"{_shown(address)} cannot be read: {error}".replace(address, _shown(address))) from error


def _around(address: str, path: str) -> tuple[str, str]:
    """What stands before and after a path in its address: somebody's key, a host; where the storage is."""
    base, mark, options = address.partition("?")
    return base.rstrip("/").removesuffix(path.rstrip("/")), mark + options


def _shown(address: str) -> str:
    """Without what is nobody's business."""
    scheme, _, rest = address.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def opened(path: str, compression: str) -> IO[bytes]:
    """Its bytes, uncompressed; what was compressed cannot be read from anywhere but its beginning."""
    raw: Any
    if "://" in path:
        system, inner = fs.FileSystem.from_uri(path)
        raw = system.open_input_file(inner) if not compression else system.open_input_stream(inner, compression=None)
    else:
        raw = open(path, "rb") if not compression else pyarrow.OSFile(path, "rb")  # noqa: SIM115
    if compression:
        stream: IO[bytes] = pyarrow.CompressedInputStream(raw, compression)
        return stream
    opened: IO[bytes] = raw
    return opened
