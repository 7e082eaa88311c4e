"""Requests that kazoo does not know: many reads in one packet, and many watches in another.

A packet of reads sets no watches. So they are set after it, in the way in which a client sets its watches again on another
server: together with a transaction that the server had applied *before* it read. For whatever is newer it fires at once, so
no change falls between the two; one that came just before the read is told although it was read.

Which transaction that is, is asked just ahead of the reads. The newest that the client has seen would do as well, but nothing
that fires says its own: each change would be told, read, told again and read again.
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

from holdfast.zk.kazoo_transport.translation import stat
from holdfast.zk.session.client import Read, Znode

READS_FIRST = 16
READS_MAX = 128
"""Per packet. A znode may have a megabyte, and a server makes the whole reply in its memory before it sends any of it."""
REQUEST_BYTES_MAX = 250_000
"""ZooKeeper drops the connection of a client that sends more than 1 MiB."""
REPLY_BYTES = 250_000
"""What a reply should not have more of. How much it will have is only known of those before."""

Answer = Znode | list[str] | Exception
_END = multiheader_struct.pack(-1, True, -1)
_ERROR = -1


@dataclass(frozen=True, slots=True)
class ReadMany:
    """Known to servers from 3.6 on. Each read has its own answer, or error."""

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
        """The answers, and the size of the reply."""
        answers: list[Answer] = []
        while True:
            kind, done, _ = multiheader_struct.unpack_from(reply, offset)
            offset += multiheader_struct.size
            if done:
                return answers, len(reply)
            answer, offset = _ANSWERS[kind](reply, offset)
            answers.append(answer)


def _data(reply: bytes, offset: int) -> tuple[Answer, int]:
    data, offset = read_buffer(reply, offset)
    found = ZnodeStat._make(stat_struct.unpack_from(reply, offset))
    return Znode(data or b"", stat(found)), offset + stat_struct.size


def _children(reply: bytes, offset: int) -> tuple[Answer, int]:
    (count,) = int_struct.unpack_from(reply, offset)
    offset += int_struct.size
    names = []
    for _ in range(count):
        name, offset = read_string(reply, offset)
        names.append(name)
    return names, offset


def _error(reply: bytes, offset: int) -> tuple[Answer, int]:
    (code,) = int_struct.unpack_from(reply, offset)
    return EXCEPTIONS[code](), offset + int_struct.size


_ANSWERS: dict[int, Callable[[bytes, int], tuple[Answer, int]]] = {
    GetData.type: _data,
    GetChildren.type: _children,
    _ERROR: _error,
}


@dataclass(frozen=True, slots=True)
class AskZxid:
    """How far the server has come; it stands at the head of every reply."""

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
    """Of znodes that were there. Those that have changed since `seen_zxid` fire at once, and are not watched."""

    type: ClassVar[int] = 101
    seen_zxid: int
    reads: Sequence[Read]
    fired: Callable[[Any], None]

    def serialize(self) -> bytearray:
        data = [read.path for read in self.reads if not read.children]
        children = [read.path for read in self.reads if read.children]
        packet = bytearray(long_struct.pack(self.seen_zxid))
        for texts in (data, [], children):
            packet += int_struct.pack(len(texts))
            packet += b"".join(map(write_string, texts))
        return packet

    @staticmethod
    def deserialize(reply: bytes, offset: int) -> None:
        return None

    def register(self, client: KazooClient) -> None:
        """Before it is sent, on kazoo's own thread: what fires at once is told before the reply.

        An earlier watch that fires in between takes the new watcher with it. That is no loss: the change is newer than
        `seen_zxid`, or it would have been told before that; so nothing is going to be watched there.
        """
        for read in self.reads:
            watchers: defaultdict[str, set[Any]] = client._child_watchers if read.children else client._data_watchers
            watchers[read.path].add(self.fired)


class Packing:
    """How many reads go into a packet: few at first, then twice as many each time, as long as the replies are small."""

    def __init__(self) -> None:
        self._count = READS_FIRST

    def next(self, reads: Sequence[Read]) -> Sequence[Read]:
        """Those that come next: at least one."""
        size = 0
        for index, read in enumerate(reads[: self._count]):
            size += len(read.path.encode()) + 16
            if index and size > REQUEST_BYTES_MAX:
                return reads[:index]
        return reads[: self._count]

    def answered(self, reads: int, reply_bytes: int) -> None:
        fitting = REPLY_BYTES * reads // max(reply_bytes, 1)
        grown = self._count * 2 if reads >= self._count else self._count
        self._count = max(1, min(fitting, grown, READS_MAX))

    def lost(self) -> None:
        """It may have been too much."""
        self._count = max(1, min(self._count // 2, READS_FIRST))
