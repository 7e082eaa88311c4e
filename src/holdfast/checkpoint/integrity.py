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
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_CRC32C_POLYNOMIAL = 0x82F63B78


def check_crc(data: bytes, crc: bytes) -> str | None:
    """Compare data with its checksum file of Hadoop's local file system: usually one CRC32 for each 512 bytes."""
    size = struct.unpack(">I", crc[4:8])[0] if len(crc) >= 8 else 0
    if not crc.startswith(_CRC_HEADER) or size == 0:
        return None  # Hadoop ignores checksum files that it cannot read
    sums = [zlib.crc32(data[start : start + size]) for start in range(0, len(data), size)]
    if crc[8:] != b"".join(struct.pack(">I", each) for each in sums):
        return "does not match its checksum file"
    return None


def check_spark_checksum(data: bytes, checksum: bytes) -> str | None:
    """Compare data with the checksum file that Spark 4.1 and later write beside a state file with an id."""
    try:
        fields = json.loads(checksum)
        algorithm, expected, size = fields["algorithm"], int(fields["value"]), int(fields["mainFileSize"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "has a checksum file that Spark cannot read"
    if size != len(data):
        return f"has {len(data)} bytes, but its checksum file says {size}"
    if algorithm == "CRC32C" and _crc32c(data) != expected & 0xFFFFFFFF:
        return "does not match the checksum that Spark wrote beside it"
    return None


def _make_crc32c_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_CRC32C_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC32C_TABLE = _make_crc32c_table()


def _crc32c(data: bytes) -> int:
    """Return the CRC-32C of data. The standard library has only CRC-32."""
    table, value = _CRC32C_TABLE, 0xFFFFFFFF
    for byte in data:
        value = table[(value ^ byte) & 255] ^ value >> 8
    return value ^ 0xFFFFFFFF


def check_state_file(name: str, data: bytes, *, codec: str) -> str | None:
    """Check a file of a state store. `codec` is the codec with which the query compresses its state; empty if unknown."""
    if not data:
        return "is empty"
    if not data.strip(b"\0"):
        return "contains only zero bytes"
    if name.endswith(".zip"):
        return _check_zip(data)
    if not name.endswith((".delta", ".snapshot", ".changelog")):
        return None
    checks = {"lz4": _check_lz4, "snappy": _check_snappy, "zstd": _check_zstd}
    return checks[codec](data) if codec in checks else None


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
    """Check a sequence of LZ4 blocks, each with its length, that ends with an empty block. Spark reads nothing after it."""
    position = 0
    while position + _LZ4_HEADER.size <= len(data):
        magic, _, packed, unpacked, _ = _LZ4_HEADER.unpack_from(data, position)
        if magic != _LZ4_MAGIC or packed < 0:
            return "is not in the format that Spark writes"
        position += _LZ4_HEADER.size + packed
        if unpacked == 0:
            return None if position <= len(data) else "is truncated"
    return "is truncated"


def _check_snappy(data: bytes) -> str | None:
    """Check a sequence of Snappy chunks, each with its length."""
    if not data.startswith(_SNAPPY_MAGIC):
        return "is not in the format that Spark writes"
    position = len(_SNAPPY_MAGIC) + 8
    while position < len(data):
        if data.startswith(_SNAPPY_MAGIC, position):
            position += len(_SNAPPY_MAGIC) + 8
            continue
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        position += 4 + size
        if size < 0 or position > len(data):
            return "is truncated"
    return None if position == len(data) else "is truncated"


def _check_zstd(data: bytes) -> str | None:
    """Check a sequence of Zstandard frames: the sizes of their blocks."""
    position = 0
    while position < len(data):
        if not data.startswith(_ZSTD_MAGIC, position):
            return "is not in the format that Spark writes" if position == 0 else "has data after its end"
        end = _end_of_zstd_frame(data, position + len(_ZSTD_MAGIC))
        if end is None or end > len(data):
            return "is truncated"
        position = end
    return None


def _end_of_zstd_frame(data: bytes, position: int) -> int | None:
    """Return the end of the frame whose header starts at a position, or None if the data ends before it."""
    if position >= len(data):
        return None
    descriptor = data[position]
    is_single_segment = bool(descriptor & 0x20)
    size_bytes = (1 if is_single_segment else 0, 2, 4, 8)[descriptor >> 6]
    position += 1 + (0 if is_single_segment else 1) + (0, 1, 2, 4)[descriptor & 3] + size_bytes
    while position + 3 <= len(data):
        header = int.from_bytes(data[position : position + 3], "little")
        position += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)
        if header & 1:
            return position + (4 if descriptor & 4 else 0)
    return None
