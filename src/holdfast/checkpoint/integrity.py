"""Integrity checks by checksum and by file format. Each returns None or a problem, as the rest of a sentence."""

import io
import json
import struct
import zipfile
import zlib

_CRC_HEADER = b"crc\0"
_LZ4_MAGIC = b"LZ4Block"
_ARCHIVE_ERRORS = (zipfile.BadZipFile, zlib.error, ValueError, OSError, EOFError, NotImplementedError, RuntimeError)
_LZ4_HEADER = struct.Struct("<8sBiiI")


def check_crc(data: bytes, crc: bytes) -> str | None:
    """Compare data with its checksum file of Hadoop's local file system: usually one CRC32 for each 512 bytes."""
    size = struct.unpack(">I", crc[4:8])[0] if len(crc) >= 8 else 0
    if not crc.startswith(_CRC_HEADER) or size == 0:
        return None  # Hadoop ignores checksum files that it cannot read
    sums = [zlib.crc32(data[start : start + size]) for start in range(0, len(data), size)]
    if crc[8:] != b"".join(struct.pack(">I", each) for each in sums):
        return "does not match its checksum file"
    return None


def check_state_file(name: str, data: bytes, *, lz4: bool) -> str | None:
    """Check a file of a state store. `lz4` is True if the query compresses its state with LZ4."""
    if not data:
        return "is empty"
    if not data.strip(b"\0"):
        return "contains only zero bytes"
    if name.endswith(".zip"):
        return _check_zip(data)
    return _check_lz4(data) if lz4 and name.endswith((".delta", ".snapshot", ".changelog")) else None


def list_archive_parts(data: bytes) -> list[tuple[str, int]]:
    """Return name and size of each file that a RocksDB archive refers to, or an empty list if it is unreadable."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            metadata = json.loads(archive.read("metadata").decode().partition("\n")[2])
        entries = [*metadata.get("sstFiles", ()), *metadata.get("logFiles", ())]
        return [(str(entry.get("dfsSstFileName") or entry.get("dfsLogFileName")), int(entry["sizeBytes"])) for entry in entries]
    except (*_ARCHIVE_ERRORS, KeyError, TypeError, AttributeError, RecursionError):
        return []


def _check_zip(data: bytes) -> str | None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            damaged = archive.testzip()
    except _ARCHIVE_ERRORS:
        return "is not a complete zip archive"
    return f"contains a damaged part ({damaged})" if damaged is not None else None


def _check_lz4(data: bytes) -> str | None:
    """Check a sequence of LZ4 blocks, each with its length, that ends with an empty block."""
    position = 0
    while position + _LZ4_HEADER.size <= len(data):
        magic, _, packed, unpacked, _ = _LZ4_HEADER.unpack_from(data, position)
        if magic != _LZ4_MAGIC or packed < 0:
            return "is not in the format that Spark writes"
        position += _LZ4_HEADER.size + packed
        if unpacked == 0:
            return None if position == len(data) else "has data after its end"
    return "is truncated"
