"""Close the session of a dead process, so that its ephemeral znodes vanish before the session timeout.

Implements only two requests of ZooKeeper's protocol (resume a session by id and password, close it) instead of importing a
client library: the guard process that uses this module must be small and fast. Standard library only.

Use it only after the owner's death is certain. A live owner would reconnect and take the session back.
"""

import socket
import struct
import time
from collections.abc import Callable, Sequence

from holdfast.zk.session.wire import CLOSE_SESSION, granted_timeout_ms, pack_connect, receive_packet, send_packet

CONNECT_TIMEOUT_S = 1.0
RETRY_DELAY_S = 0.1

ConnectionOpener = Callable[[str, int], socket.socket]


def close_session(
    hosts: Sequence[tuple[str, int]],
    session_id: int,
    password: bytes,
    *,
    timeout_s: float,
    open_connection: ConnectionOpener | None = None,
) -> bool:
    """Close the session at any of the servers. Return False if none answers within `timeout_s`: the session then expires."""
    connect = open_connection or open_plain_connection
    give_up_at = time.monotonic() + timeout_s
    while True:
        for host, port in hosts:
            try:
                with connect(host, port) as server:
                    _resume_and_close(server, session_id, password)
                    return True
            except (OSError, struct.error, EOFError, UnicodeError):
                continue
        if time.monotonic() >= give_up_at:
            return False
        time.sleep(RETRY_DELAY_S)


def open_plain_connection(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)


def _resume_and_close(server: socket.socket, session_id: int, password: bytes) -> None:
    """Resume the session and close it. Return early if it has ended already."""
    send_packet(server, pack_connect(timeout_ms=10_000, session_id=session_id, password=password))
    if granted_timeout_ms(receive_packet(server)) <= 0:
        return  # a timeout of 0 means that the session has expired or was closed
    send_packet(server, struct.pack(">ii", 1, CLOSE_SESSION))
    xid, _, error = struct.unpack_from(">iqi", receive_packet(server))
    if xid != 1 or error != 0:
        raise EOFError(f"ZooKeeper answered with error {error} to a request to close a session")
