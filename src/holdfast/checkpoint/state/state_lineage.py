"""Lineage of a RocksDB changelog with unique ids: the state files that it continues.

Spark writes it at the start of the file, compressed with the codec of the state. LZ4 and Snappy are decoded here, as far as the
lineage goes. Other codecs need a library, so their lineages stay unknown.
"""

import json
import struct

_LZ4_MAGIC, _SNAPPY_MAGIC = b"LZ4Block", b"\x82SNAPPY\x00"
_LZ4_HEADER = struct.Struct("<8sBiiI")
_LZ4_RAW = 0x10
_HEADER_BYTES_MAX = 1 << 20

Lineage = tuple[tuple[int, str], ...]
"""Version and id of each state file, in order of versions."""


class _Undecodable(Exception):
    """Error for bytes that cannot be decoded."""


def read_lineage(data: bytes) -> Lineage | None:
    """Return the lineage of a changelog, or None if it cannot be decoded."""
    try:
        text = _decode_start(data)
        version, rest = _take_utf(text)
        if version not in ("v3", "v4"):
            return None
        items = json.loads(_take_utf(rest)[0])
        return tuple(sorted((int(item["version"]), str(item["checkpointUniqueId"])) for item in items))
    except (_Undecodable, struct.error, ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None


def _take_utf(data: bytes) -> tuple[str, bytes]:
    """Split off a string with its length before it, as Java's DataOutputStream writes it."""
    (size,) = struct.unpack_from(">H", data)
    if len(data) < 2 + size:
        raise _Undecodable
    return data[2 : 2 + size].decode(), data[2 + size :]


def _decode_start(data: bytes) -> bytes:
    """Return the first part of the decompressed content, which contains the lineage."""
    if data.startswith(_LZ4_MAGIC):
        return _decode_lz4_blocks(data)
    if data.startswith(_SNAPPY_MAGIC):
        return _decode_snappy_chunks(data)
    raise _Undecodable


def _decode_lz4_blocks(data: bytes) -> bytes:
    decoded, position = b"", 0
    while position + _LZ4_HEADER.size <= len(data) and len(decoded) < _HEADER_BYTES_MAX:
        magic, token, packed, unpacked, _ = _LZ4_HEADER.unpack_from(data, position)
        block = data[position + _LZ4_HEADER.size : position + _LZ4_HEADER.size + packed]
        if magic != _LZ4_MAGIC or packed < 0 or len(block) != packed:
            break
        if unpacked == 0:
            break
        decoded += block if token & 0xF0 == _LZ4_RAW else _decode_lz4(block, unpacked)
        position += _LZ4_HEADER.size + packed
    return decoded


def _decode_lz4(block: bytes, size: int) -> bytes:
    decoded, position = bytearray(), 0
    while position < len(block):
        token = block[position]
        position += 1
        literals, position = _lz4_length(block, position, token >> 4)
        decoded += block[position : position + literals]
        position += literals
        if position >= len(block):
            break
        distance = int.from_bytes(block[position : position + 2], "little")
        length, position = _lz4_length(block, position + 2, token & 15)
        _copy_back(decoded, distance, length + 4)
    if len(decoded) != size:
        raise _Undecodable
    return bytes(decoded)


def _lz4_length(block: bytes, position: int, length: int) -> tuple[int, int]:
    if length == 15:
        while True:
            length += block[position]
            position += 1
            if block[position - 1] != 255:
                break
    return length, position


def _copy_back(decoded: bytearray, distance: int, length: int) -> None:
    """Append `length` bytes that start `distance` bytes before the end. The ranges may overlap."""
    if not 0 < distance <= len(decoded) or length > _HEADER_BYTES_MAX:
        raise _Undecodable
    start = len(decoded) - distance
    if distance >= length:
        decoded += decoded[start : start + length]
        return
    for index in range(length):
        decoded.append(decoded[start + index])


def _decode_snappy_chunks(data: bytes) -> bytes:
    decoded, position = b"", len(_SNAPPY_MAGIC) + 8
    while position + 4 <= len(data) and len(decoded) < _HEADER_BYTES_MAX:
        (size,) = struct.unpack_from(">i", data, position)
        chunk = data[position + 4 : position + 4 + size]
        if size < 0 or len(chunk) != size:
            break
        decoded += _decode_snappy(chunk)
        position += 4 + size
    return decoded


def _decode_snappy(chunk: bytes) -> bytes:
    _, position = _snappy_size(chunk)
    decoded = bytearray()
    while position < len(chunk):
        tag = chunk[position]
        kind = tag & 3
        position += 1
        if kind == 0:
            length = tag >> 2
            if length >= 60:
                extra = length - 59
                length = int.from_bytes(chunk[position : position + extra], "little")
                position += extra
            decoded += chunk[position : position + length + 1]
            position += length + 1
        elif kind == 1:
            distance = (tag >> 5 << 8) | chunk[position]
            position += 1
            _copy_back(decoded, distance, (tag >> 2 & 7) + 4)
        else:
            width = 2 if kind == 2 else 4
            distance = int.from_bytes(chunk[position : position + width], "little")
            position += width
            _copy_back(decoded, distance, (tag >> 2) + 1)
    return bytes(decoded)


def _snappy_size(chunk: bytes) -> tuple[int, int]:
    size = shift = position = 0
    while True:
        byte = chunk[position]
        position += 1
        size |= (byte & 127) << shift
        if byte < 128:
            return size, position
        shift += 7
