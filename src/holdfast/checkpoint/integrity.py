"""Whether bytes are whole, by checksums and by the shape of what Spark writes. Each says None, or the rest of a sentence."""

import io
import json
import struct
import zipfile
import zlib

_CRC_HEADER = b"crc\0"
_LZ4_MAGIC = b"LZ4Block"
_NO_ARCHIVE = (zipfile.BadZipFile, zlib.error, ValueError, OSError, EOFError, NotImplementedError, RuntimeError)
_LZ4_HEADER = struct.Struct("<8sBiiI")


def against_crc(data: bytes, crc: bytes) -> str | None:
    """By the checksums that Hadoop's local file system keeps beside a file: a CRC32 for each 512 bytes, as a rule."""
    size = struct.unpack(">I", crc[4:8])[0] if len(crc) >= 8 else 0
    if not crc.startswith(_CRC_HEADER) or size == 0:
        return None  # Hadoop passes over checksums that it cannot read
    sums = [zlib.crc32(data[start : start + size]) for start in range(0, len(data), size)]
    if crc[8:] != b"".join(struct.pack(">I", each) for each in sums):
        return "is not what was written: its checksums differ"
    return None


def of_state(name: str, data: bytes, *, lz4: bool) -> str | None:
    """A file of a state store, by its name; `lz4` if that is how this query compresses."""
    if not data:
        return "is empty"
    if not data.strip(b"\0"):
        return "holds nothing but zeros"
    if name.endswith(".zip"):
        return _zip(data)
    return _lz4(data) if lz4 and name.endswith((".delta", ".snapshot", ".changelog")) else None


def parts(data: bytes) -> list[tuple[str, int]]:
    """The files, and their sizes, that the archive of a RocksDB store refers to; none if it cannot be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            told = json.loads(archive.read("metadata").decode().partition("\n")[2])
        entries = [*told.get("sstFiles", ()), *told.get("logFiles", ())]
        return [(str(entry.get("dfsSstFileName") or entry.get("dfsLogFileName")), int(entry["sizeBytes"])) for entry in entries]
    except (*_NO_ARCHIVE, KeyError, TypeError, AttributeError, RecursionError):
        return []


def _zip(data: bytes) -> str | None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            damaged = archive.testzip()
    except _NO_ARCHIVE:
        return "is no whole archive"
    return f"holds a damaged part ({damaged})" if damaged is not None else None


def _lz4(data: bytes) -> str | None:
    """Blocks, each with its length, and an empty one at the end."""
    at = 0
    while at + _LZ4_HEADER.size <= len(data):
        magic, _, packed, unpacked, _ = _LZ4_HEADER.unpack_from(data, at)
        if magic != _LZ4_MAGIC or packed < 0:
            return "holds something else than Spark writes"
        at += _LZ4_HEADER.size + packed
        if unpacked == 0:
            return None if at == len(data) else "goes on after its end"
    return "is cut off"
