"""Packets of read requests and their replies, in ZooKeeper's protocol. Pure.

A parser takes the reply and an offset, and returns the parsed value and the offset after it. It raises struct.error,
UnicodeError or LookupError for bytes that it does not understand.
"""

import struct
from collections.abc import Callable, Sequence

from holdfast.zk.session.reader import Read, ReadResult, Stat, Znode

STAT = 3
GET_DATA = 4
GET_CHILDREN = 8
READ_MANY = 22
"""Batched read. Needs ZooKeeper 3.6 or later."""

_ERROR = -1
_NO_NODE = -101
_INT = struct.Struct(">i")
_STAT = struct.Struct(">qqqqiiiqiiq")
_PART = struct.Struct(">i?i")
_END = _PART.pack(-1, True, -1)


def pack_auth(scheme: str, credentials: str) -> bytes:
    return _INT.pack(0) + _pack_text(scheme) + _pack_text(credentials)


def pack_read(path: str) -> bytes:
    """Return the request for one znode, without a watch."""
    return _pack_text(path) + b"\0"


def pack_reads(reads: Sequence[Read]) -> bytes:
    parts = (_PART.pack(GET_CHILDREN if read.children else GET_DATA, False, -1) + pack_read(read.path) for read in reads)
    return b"".join(parts) + _END


def parse_reads(reply: bytes, offset: int) -> tuple[list[ReadResult], int]:
    """Parse the results of a batched read. None stands for a missing znode; another error raises LookupError."""
    results: list[ReadResult] = []
    while True:
        kind, done, _ = _PART.unpack_from(reply, offset)
        offset += _PART.size
        if done:
            return results, offset
        result, offset = _PARSERS[kind](reply, offset)
        results.append(result)


def parse_znode(reply: bytes, offset: int) -> tuple[Znode, int]:
    data, offset = _parse_bytes(reply, offset)
    stat, offset = parse_stat(reply, offset)
    return Znode(data, stat), offset


def parse_stat(reply: bytes, offset: int) -> tuple[Stat, int]:
    created_zxid, _, created_ms, _, version, _, _, owner, _, _, _ = _STAT.unpack_from(reply, offset)
    return Stat(version, created_zxid, created_ms, owner), offset + _STAT.size


def parse_children(reply: bytes, offset: int) -> tuple[list[str], int]:
    (count,) = _INT.unpack_from(reply, offset)
    offset += _INT.size
    names = []
    for _ in range(count):
        name, offset = _parse_bytes(reply, offset)
        names.append(name.decode())
    return names, offset


def _parse_error(reply: bytes, offset: int) -> tuple[None, int]:
    (code,) = _INT.unpack_from(reply, offset)
    if code != _NO_NODE:
        raise LookupError(f"error {code}")
    return None, offset + _INT.size


_PARSERS: dict[int, Callable[[bytes, int], tuple[ReadResult, int]]] = {
    GET_DATA: parse_znode,
    GET_CHILDREN: parse_children,
    _ERROR: _parse_error,
}


def _pack_text(text: str) -> bytes:
    data = text.encode()
    return _INT.pack(len(data)) + data


def _parse_bytes(reply: bytes, offset: int) -> tuple[bytes, int]:
    """Parse a length and as many bytes. A length of -1 stands for a znode without data, which reads as empty."""
    (length,) = _INT.unpack_from(reply, offset)
    start, end = offset + _INT.size, offset + _INT.size + max(length, 0)
    if end > len(reply):
        raise LookupError(f"{length} bytes announced, {len(reply) - start} left")
    return reply[start:end], end
