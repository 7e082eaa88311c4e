"""Packets of ZooKeeper's protocol: a length, followed by as many bytes. Standard library only."""

import socket
import struct

CLOSE_SESSION = -11
"""Type of the request that closes the session."""

_LENGTH = struct.Struct(">i")


def send_packet(server: socket.socket, packet: bytes) -> None:
    server.sendall(_LENGTH.pack(len(packet)) + packet)


def receive_packet(server: socket.socket) -> bytes:
    """Return the next packet. Raise OSError, or EOFError if the server closes the connection."""
    (length,) = _LENGTH.unpack(_receive_exactly(server, _LENGTH.size))
    return _receive_exactly(server, length)


def pack_connect(*, timeout_ms: int, session_id: int, password: bytes) -> bytes:
    """Return the request that resumes a session, or opens a new one if `session_id` is 0."""
    return struct.pack(">iqiqi", 0, 0, timeout_ms, session_id, len(password)) + password + b"\0"


def granted_timeout_ms(reply: bytes) -> int:
    """Return the session timeout from the reply to a connect request; 0 or less if the session does not exist."""
    timeout_ms: int = struct.unpack_from(">ii", reply)[1]
    return timeout_ms


def _receive_exactly(server: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        chunk = server.recv(count - len(received))
        if not chunk:
            raise EOFError("ZooKeeper closed the connection")
        received += chunk
    return bytes(received)
