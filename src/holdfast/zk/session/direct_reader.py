"""Reads over one blocking connection, without kazoo, threads or an event loop.

A command that only reads a few znodes would spend most of its time on the import of kazoo and asyncio. This reader handles the
normal case alone: a server accepts the session and answers. Every other case raises DirectReadFailed, and the caller repeats
the query with `kazoo_transport`, which retries and finds the reason for the user.
"""

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from holdfast.zk.session.connection_settings import ConnectionSettings, DigestCredentials
from holdfast.zk.session.packet_sizer import PacketSizer
from holdfast.zk.session.read_packets import (
    GET_CHILDREN,
    GET_DATA,
    READ_MANY,
    STAT,
    pack_auth,
    pack_read,
    pack_reads,
    parse_children,
    parse_reads,
    parse_stat,
    parse_znode,
)
from holdfast.zk.session.reader import NoNode, Read, Reader, ReadResult, Stat, Znode
from holdfast.zk.session.wire import CLOSE_SESSION, granted_timeout_ms, pack_connect, receive_packet, send_packet

ANSWER_S = 1.0
"""Time that all servers together have to accept a session, and that a server has for the next bytes of a reply."""

_AUTH_XID = -4
_AUTH = 100
_NO_NODE = -101
_PASSWORD_OF_NEW_SESSION = bytes(16)

Answer = TypeVar("Answer")
Query = Callable[[Reader], Coroutine[Any, Any, Answer]]


class DirectReadFailed(Exception):
    """No server answered, or a server answered with an error that this module does not handle. Nothing was changed."""


def read_directly(settings: ConnectionSettings, query: Query[Answer]) -> Answer:
    """Run a query in a new session and close the session. The query may await only calls of its reader.

    Raise DirectReadFailed, or what the query raises.
    """
    with _open_reader(settings) as reader:
        return _run(query(reader))


def _run(query: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine that never suspends."""
    try:
        query.send(None)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    query.close()
    raise RuntimeError("a query for direct reads awaited something else than a read")


@contextlib.contextmanager
def _open_reader(settings: ConnectionSettings) -> Iterator["DirectReader"]:
    with _connect(settings) as server:
        server.settimeout(ANSWER_S)
        reader = DirectReader(server)
        try:
            yield reader
        except DirectReadFailed:
            raise  # do not wait for a server that may not answer: the session expires by itself
        except BaseException:
            reader.close_session()
            raise
        reader.close_session()


def _connect(settings: ConnectionSettings) -> socket.socket:
    """Return a connection to any server, with a session."""
    give_up_at = time.monotonic() + ANSWER_S
    for host, port in _shuffle(settings.hosts):
        if (left_s := give_up_at - time.monotonic()) <= 0:
            break
        try:
            return _open_session(settings, host, port, left_s)
        except (OSError, EOFError, struct.error, UnicodeError):
            continue
    raise DirectReadFailed(f"no server of {settings.connect_string} accepted a session")


def _shuffle(hosts: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
    if len(hosts) == 1:
        return hosts
    import random

    return random.sample(hosts, len(hosts))


def _open_session(settings: ConnectionSettings, host: str, port: int, timeout_s: float) -> socket.socket:
    server = socket.create_connection((host, port), timeout=timeout_s)
    try:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if settings.tls is not None:
            server = settings.tls.context().wrap_socket(server, server_hostname=host)
        timeout_ms = round(settings.session_timeout_s * 1000)
        send_packet(server, pack_connect(timeout_ms=timeout_ms, session_id=0, password=_PASSWORD_OF_NEW_SESSION))
        if granted_timeout_ms(receive_packet(server)) <= 0:
            raise EOFError("the server did not open a session")
        if settings.digest is not None:
            _authenticate(server, settings.digest)
    except BaseException:
        server.close()
        raise
    return server


def _authenticate(server: socket.socket, digest: DigestCredentials) -> None:
    packet = pack_auth("digest", f"{digest.user}:{digest.password}")
    send_packet(server, struct.pack(">ii", _AUTH_XID, _AUTH) + packet)
    _, _, error = struct.unpack_from(">iqi", receive_packet(server))
    if error:
        raise EOFError(f"the server answered with error {error} to the user and password")


class DirectReader:
    """Session on a blocking connection. Implements `Reader` with coroutines that never suspend. Watches are not supported."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self._xid = 0
        self._sizer = PacketSizer()

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        return self._read(GET_DATA, path, watch, parse_znode)

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        try:
            return self._read(STAT, path, watch, parse_stat)
        except NoNode:
            return None

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        return self._read(GET_CHILDREN, path, watch, parse_children)

    async def read_many(self, reads: Sequence[Read]) -> list[ReadResult]:
        results: list[ReadResult] = []
        while len(results) < len(reads):
            packet = self._sizer.next_packet(reads[len(results) :])
            results += self._read_packet(packet)
        return results

    def _read_packet(self, reads: Sequence[Read]) -> list[ReadResult]:
        _check_unwatched(any(read.watch for read in reads))
        reply = self._call(READ_MANY, pack_reads(reads), reads[0].path)
        self._sizer.record_reply(len(reads), len(reply))
        results, _ = _parse(parse_reads, reply)
        if len(results) != len(reads):
            raise DirectReadFailed(f"the server answered {len(results)} of {len(reads)} reads")
        return results

    def _read(self, kind: int, path: str, watch: bool, parse: Callable[[bytes, int], tuple[Answer, int]]) -> Answer:
        _check_unwatched(watch)
        reply = self._call(kind, pack_read(path), path)
        answer, _ = _parse(parse, reply)
        return answer

    def _call(self, kind: int, request: bytes, path: str) -> bytes:
        """Send a request and return the reply without its header."""
        self._xid += 1
        try:
            send_packet(self._server, struct.pack(">ii", self._xid, kind) + request)
            reply = receive_packet(self._server)
            xid, _, error = struct.unpack_from(">iqi", reply)
        except (OSError, EOFError, struct.error) as problem:
            raise DirectReadFailed(f"the connection was lost: {problem}") from problem
        if error == _NO_NODE:
            raise NoNode(f"{path} does not exist")
        if error or xid != self._xid:
            raise DirectReadFailed(f"the server answered request {self._xid} with {xid}, error {error}")
        return reply[struct.calcsize(">iqi") :]

    def close_session(self) -> None:
        """Close the session. If that fails, the session expires by itself."""
        with contextlib.suppress(DirectReadFailed):
            self._call(CLOSE_SESSION, b"", "")


def _parse(parse: Callable[[bytes, int], tuple[Answer, int]], reply: bytes) -> tuple[Answer, int]:
    try:
        return parse(reply, 0)
    except (struct.error, UnicodeError, LookupError) as problem:
        raise DirectReadFailed(f"the reply is malformed: {problem!r}") from problem


def _check_unwatched(watch: bool) -> None:
    if watch:
        raise ValueError("a direct read cannot set a watch: it has no connection afterwards")
