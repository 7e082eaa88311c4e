"""Requests that kazoo lacks: many reads in one packet, and many watches in another.

A packet of reads cannot set watches. They are set afterwards with the request that clients use to restore their watches on
another server. It carries a transaction id (zxid) that the server had applied *before* the reads. The server fires at once
each watch whose znode has a newer change, so no change is missed. A change just before the read may fire although the read
includes it.

The zxid is requested just before the reads. The newest zxid that the client has seen would be correct too, but watch events
carry no zxid, so it would often be outdated: each change would fire, be read, and fire and be read again.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol.serialization import (
    Exists,
    GetChildren,
    GetData,
    int_struct,
    long_struct,
    multiheader_struct,
    read_buffer,
    read_string,
    reply_header_struct,
    stat_struct,
    write_string,
)
from kazoo.protocol.states import ZnodeStat

from holdfast.zk.kazoo_transport.translation import to_stat
from holdfast.zk.session.client import Read, Znode

Answer = Znode | list[str] | Exception
_END = multiheader_struct.pack(-1, True, -1)
_ERROR = -1


@dataclass(frozen=True, slots=True)
class MultiRead:
    """Batched read. Needs ZooKeeper 3.6 or later. Each read has its own answer or error."""

    type: ClassVar[int] = 22
    reads: Sequence[Read]

    def serialize(self) -> bytearray:
        packet = bytearray()
        for read in self.reads:
            kind = GetChildren if read.children else GetData
            packet += multiheader_struct.pack(kind.type, False, -1)
            packet += kind(read.path, None).serialize()
        packet += _END
        return packet

    @staticmethod
    def deserialize(reply: bytes, offset: int) -> tuple[list[Answer], int]:
        """Return the answers and the size of the reply in bytes."""
        answers: list[Answer] = []
        while True:
            kind, done, _ = multiheader_struct.unpack_from(reply, offset)
            offset += multiheader_struct.size
            if done:
                return answers, len(reply)
            answer, offset = _PARSERS[kind](reply, offset)
            answers.append(answer)


def _parse_data(reply: bytes, offset: int) -> tuple[Answer, int]:
    data, offset = read_buffer(reply, offset)
    stat = ZnodeStat._make(stat_struct.unpack_from(reply, offset))
    return Znode(data or b"", to_stat(stat)), offset + stat_struct.size


def _parse_children(reply: bytes, offset: int) -> tuple[Answer, int]:
    (count,) = int_struct.unpack_from(reply, offset)
    offset += int_struct.size
    names = []
    for _ in range(count):
        name, offset = read_string(reply, offset)
        names.append(name)
    return names, offset


def _parse_error(reply: bytes, offset: int) -> tuple[Answer, int]:
    (code,) = int_struct.unpack_from(reply, offset)
    return EXCEPTIONS[code](), offset + int_struct.size


_PARSERS: dict[int, Callable[[bytes, int], tuple[Answer, int]]] = {
    GetData.type: _parse_data,
    GetChildren.type: _parse_children,
    _ERROR: _parse_error,
}


@dataclass(frozen=True, slots=True)
class GetZxid:
    """Request for the last transaction that the server has applied, which is in the header of every reply."""

    type: ClassVar[int] = Exists.type

    @staticmethod
    def serialize() -> bytearray:
        packet: bytearray = Exists("/", None).serialize()
        return packet

    @staticmethod
    def deserialize(reply: bytes, offset: int) -> int:
        zxid: int = reply_header_struct.unpack_from(reply)[1]
        return zxid


@dataclass(frozen=True, slots=True)
class SetWatches:
    """Request to set watches on existing znodes. A watch whose znode has changed since `read_zxid` fires at once instead."""

    type: ClassVar[int] = 101
    read_zxid: int
    reads: Sequence[Read]
    on_fired: Callable[[Any], None]
    """Not called `watcher`: kazoo would register a request attribute of that name itself, under `request.path`."""

    def serialize(self) -> bytearray:
        data = [read.path for read in self.reads if not read.children]
        children = [read.path for read in self.reads if read.children]
        packet = bytearray(long_struct.pack(self.read_zxid))
        for texts in (data, [], children):
            packet += int_struct.pack(len(texts))
            packet += b"".join(map(write_string, texts))
        return packet

    @staticmethod
    def deserialize(reply: bytes, offset: int) -> None:
        return None

    def register(self, client: KazooClient) -> None:
        """Add the watcher to kazoo's tables. Call this on kazoo's thread before sending: a watch may fire before the reply.

        If an earlier watch of the same path fires in between, kazoo removes the new watcher too. Nothing is lost: that
        change is newer than `read_zxid`, so the server will not set the new watch either.
        """
        for read in self.reads:
            watchers: defaultdict[str, set[Any]] = client._child_watchers if read.children else client._data_watchers
            watchers[read.path].add(self.on_fired)
