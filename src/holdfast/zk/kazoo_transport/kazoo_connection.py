"""kazoo clients whose connection attempts are bounded in time."""

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
from kazoo.protocol.states import Callback, EventType
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from holdfast.zk.kazoo_transport.packets import SetWatches
from holdfast.zk.session.connection_settings import ConnectionSettings

HANDSHAKE_S = 1.0
"""Time limit for a server to accept a connection and a session. Doubles after each failed attempt."""

silent_logger = logging.getLogger("holdfast.zk.kazoo")
silent_logger.addHandler(logging.NullHandler())  # without a handler, Python prints warnings to stderr


class SocketHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo is untyped
    """Opener of sockets with a time limit (kazoo allows a whole session timeout for each) and with a modern TLS context."""

    def __init__(self, settings: ConnectionSettings) -> None:
        super().__init__()
        self._tls = settings.tls.context() if settings.tls is not None else None
        self.handshake_s = HANDSHAKE_S
        self.server: tuple[str, int] | None = None
        self.connection_problem = ""

    def create_connection(self, *, address: tuple[str, int], hostname: str, **_: object) -> socket.socket:
        self.server = (hostname, address[1])
        try:
            return self._open(address, hostname)
        except OSError as error:
            self.connection_problem = f"{hostname}:{address[1]}: {_reason(error)}"
            raise

    def dispatch_callback(self, callback: Callback) -> None:
        """Drop the event that kazoo sends to each watcher when the connection is lost: the client fires ANY_PATH once."""
        if callback.type != "watch" or callback.args[0].type != EventType.NONE:
            super().dispatch_callback(callback)

    def _open(self, address: tuple[str, int], hostname: str) -> socket.socket:
        connection = socket.create_connection(address, timeout=self.handshake_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return connection
        return self._tls.wrap_socket(connection, server_hostname=hostname)


class BoundedConnection(ConnectionHandler):  # type: ignore[misc]  # kazoo is untyped
    """Connection with a time limit for the handshake. It reports the granted session timeout when it is ready for calls."""

    def __init__(self, client: KazooClient, retry: KazooRetry, established: Callable[[float], None]) -> None:
        super().__init__(client, retry, logger=silent_logger)
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
                self.handler.connection_problem = f"{host}:{port}: the server accepts connections but does not answer"
            self.handler.handshake_s = min(self.handler.handshake_s * 2, max(ceiling_s, HANDSHAKE_S))
            raise
        self.handler.handshake_s = HANDSHAKE_S
        self.handler.connection_problem = ""
        # Report it only now, after the authentication. kazoo reports CONNECTED before it.
        self._established(self._timeout_ms / 1000)
        return timeouts


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, TimeoutError):
        return "no answer"
    return error.strerror or str(error)


def create_kazoo_client(
    settings: ConnectionSettings, handler: SocketHandler, established: Callable[[float], None]
) -> KazooClient:
    """Return a kazoo client that is not started. `established` gets the granted session timeout at each connection."""
    digest = settings.digest
    kazoo = KazooClient(
        hosts=format_hosts(settings.hosts),
        timeout=settings.session_timeout_s,
        handler=handler,
        auth_data=[("digest", f"{digest.user}:{digest.password}")] if digest else None,
        default_acl=[make_digest_acl(digest.user, digest.password, all=True)] if digest else OPEN_ACL_UNSAFE,
        connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=1.0, sleep_func=handler.sleep_func),
        use_ssl=settings.tls is not None,
        logger=silent_logger,
    )
    kazoo._connection = BoundedConnection(kazoo, kazoo._conn_retry.copy(), established)
    return kazoo


def format_hosts(hosts: Sequence[tuple[str, int]]) -> str:
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts)
