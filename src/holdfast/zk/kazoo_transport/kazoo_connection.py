"""Opening a connection to a server, within bounds."""

import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import SessionExpiredError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionDropped, ConnectionHandler
from kazoo.protocol.serialization import Connect as ConnectRequest
from kazoo.retry import KazooRetry

from holdfast.zk.kazoo_transport.packets import SetWatches
from holdfast.zk.session.connection_settings import Ensemble

HANDSHAKE_S = 1.0
"""How long a server gets to accept a connection and a session, doubled after each failed try."""

quiet = logging.getLogger("holdfast.zk.kazoo")
quiet.addHandler(logging.NullHandler())  # else Python prints to stderr what nobody has asked for


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Opens connections: bounded in time (kazoo allows a whole session timeout each), and with a modern TLS context."""

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__()
        self._tls = ensemble.tls.context() if ensemble.tls is not None else None
        self.handshake_s = HANDSHAKE_S
        self.server: tuple[str, int] | None = None
        self.trouble = ""

    def create_connection(self, *, address: tuple[str, int], hostname: str, **_: object) -> socket.socket:
        self.server = (hostname, address[1])
        try:
            return self._open(address, hostname)
        except OSError as error:
            self.trouble = f"{hostname}:{address[1]}: {_reason(error)}"
            raise

    def _open(self, address: tuple[str, int], hostname: str) -> socket.socket:
        connection = socket.create_connection(address, timeout=self.handshake_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return connection
        return self._tls.wrap_socket(connection, server_hostname=hostname)


class Connection(ConnectionHandler):  # type: ignore[misc]
    """Bounds the handshake, remembers the timeout that the server granted, and says when calls may be made."""

    def __init__(self, client: KazooClient, retry: KazooRetry, established: Callable[[float], None]) -> None:
        super().__init__(client, retry, logger=quiet)
        self._established = established
        self._timeout_ms = 0

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        if not isinstance(request, ConnectRequest):
            return super()._invoke(timeout, request, xid)
        result = super()._invoke(min(timeout, self.handler.handshake_s), request, xid)
        self._timeout_ms = result[0].time_out
        return result

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:
        if isinstance(request, SetWatches):
            request.register(self.client)
        super()._submit(request, timeout, xid)

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        ceiling_s = self.client._session_timeout / 1000 / len(self.client.hosts)
        try:
            timeouts = super()._connect(host, hostip, port)
        except BaseException as error:
            if not isinstance(error, OSError | SessionExpiredError | ConnectionDropped):
                self.handler.trouble = f"{host}:{port}: it accepts connections and does not answer"
            self.handler.handshake_s = min(self.handler.handshake_s * 2, max(ceiling_s, HANDSHAKE_S))
            raise
        self.handler.handshake_s = HANDSHAKE_S
        self.handler.trouble = ""
        # Only now: the session exists and the user is authenticated. kazoo says CONNECTED before the latter.
        self._established(self._timeout_ms / 1000)
        return timeouts


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, TimeoutError):
        return "no answer"
    return error.strerror or str(error)


def addresses(hosts: Sequence[tuple[str, int]]) -> str:
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts)
