"""Closes the session of a process that is dead, so that nobody has to wait for it to expire.

This speaks the few bytes of ZooKeeper's protocol that it takes (connect with a session's id and password, close) instead of
importing a client library: the guard that uses it has to stay tiny, and every millisecond counts. Standard library only.

Only for sessions whose owner is surely dead: a living owner and this would take the session from each other in turns.
"""

import socket
import struct
import time
from collections.abc import Callable, Sequence

TRY_S = 1.0
BETWEEN_ROUNDS_S = 0.1
_CLOSE_SESSION = -11

Opener = Callable[[str, int], socket.socket]


def close_session(
    hosts: Sequence[tuple[str, int]],
    session_id: int,
    password: bytes,
    *,
    timeout_s: float,
    open_connection: Opener | None = None,
) -> bool:
    """Try one server after the other until the session is gone. False if none answered in time: then it will expire."""
    connection = open_connection or open_plain
    give_up_at = time.monotonic() + timeout_s
    while True:
        for host, port in hosts:
            try:
                with connection(host, port) as server:
                    _close_at(server, session_id, password)
                    return True
            except (OSError, struct.error, EOFError, UnicodeError):
                continue
        if time.monotonic() >= give_up_at:
            return False
        time.sleep(BETWEEN_ROUNDS_S)


def open_plain(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), timeout=TRY_S)


def _close_at(server: socket.socket, session_id: int, password: bytes) -> None:
    """Returns if the session is closed, or was over already."""
    _send(server, struct.pack(">iqiqi", 0, 0, 10_000, session_id, len(password)) + password + b"\0")
    _, granted_ms = struct.unpack_from(">ii", _receive(server))
    if granted_ms <= 0:
        return  # expired or closed: ZooKeeper grants no time to a session that it does not know
    _send(server, struct.pack(">ii", 1, _CLOSE_SESSION))
    xid, _, error = struct.unpack_from(">iqi", _receive(server))
    if xid != 1 or error != 0:
        raise EOFError(f"ZooKeeper answered {error} to the closing of a session")


def _send(server: socket.socket, message: bytes) -> None:
    server.sendall(struct.pack(">i", len(message)) + message)


def _receive(server: socket.socket) -> bytes:
    (length,) = struct.unpack(">i", _exactly(server, 4))
    return _exactly(server, length)


def _exactly(server: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        chunk = server.recv(count - len(received))
        if not chunk:
            raise EOFError("ZooKeeper closed the connection")
        received += chunk
    return received
