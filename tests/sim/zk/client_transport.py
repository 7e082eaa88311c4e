"""Client side of a session: connects, reconnects and detects silent servers, as a client library does on its own threads.

It is paused and killed with its process, but keeps running while only the event loop of the process hangs.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.zk.session.client import SessionId
from tests.sim.process import Process
from tests.sim.zk.connection import Connection, Replies
from tests.sim.zk.server import Server

if TYPE_CHECKING:
    from tests.sim.zk.client import SimClient
    from tests.sim.zk.ensemble import Ensemble

TRY_DELAY_S = (0.005, 0.03)
RETRY_PAUSE_S = 0.05
RETRY_PAUSE_S_MAX = 1.0
HANDSHAKE_TIMEOUT_S = 1.0


class ClientTransport:
    __slots__ = (
        "_attempt",
        "_client",
        "_deferred_calls",
        "_ensemble",
        "_handshake_timeout_s",
        "_loop",
        "_retry_pause_s",
        "_servers_to_try",
        "_silence_timer_set",
        "_stopped",
        "_unresponsive_server",
        "connection",
        "identity",
        "process",
        "process_stopped",
        "requested_s",
        "timeout_s",
        "zxid",
    )

    def __init__(
        self, ensemble: "Ensemble", process: Process, client: "SimClient", timeout_s: float, resume: SessionId | None
    ) -> None:
        self._ensemble = ensemble
        self._loop = ensemble.loop
        self._client = client
        self.process = process
        self.requested_s = timeout_s
        self.timeout_s = ensemble.sessions.negotiate_timeout_s(timeout_s)
        self.identity = resume
        self.connection: Connection | None = None
        self.zxid = 0
        """Newest zxid that this client has seen. Servers with an older state refuse the client."""
        self.process_stopped = False
        self._stopped = False
        self._deferred_calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._attempt = 0
        self._retry_pause_s = RETRY_PAUSE_S
        self._handshake_timeout_s = HANDSHAKE_TIMEOUT_S
        self._servers_to_try: list[Server] = []
        self._unresponsive_server: Server | None = None
        self._silence_timer_set = False
        process.resources.append(self)
        self._schedule_next_try()

    # Events of the process

    def process_paused(self) -> None:
        self._ensemble.apply_elapsed_pings()
        self.process_stopped = True

    def process_resumed(self) -> None:
        self._ensemble.apply_elapsed_pings()
        self.process_stopped = False
        if self.connection:
            self.connection.pings.resume(self._loop.now_s)
        deferred_calls, self._deferred_calls = self._deferred_calls, []
        for callback, args in deferred_calls:
            callback(*args)
        self.watch_for_silence()

    def process_crashed(self) -> None:
        """Close the sockets, as the kernel does. The session remains until it expires or another client closes it."""
        self._ensemble.apply_elapsed_pings()
        self.stop()

    def run_when_awake(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a socket or timer callback now, or when the paused process continues."""
        if self._stopped:
            return
        if self.process_stopped:
            self._deferred_calls.append((callback, args))
        else:
            callback(*args)

    def send_handshake_reply(self, callback: Callable[..., object], attempt: int, *args: Any) -> None:
        """Send a server's reply to a connection attempt."""
        self._loop.schedule_at(
            self._loop.now_s + self._ensemble.network.hop_s(), self._deliver_handshake_reply, attempt, callback, attempt, *args
        )

    def _deliver_handshake_reply(self, attempt: int, callback: Callable[..., object], *args: Any) -> None:
        tried = self._servers_to_try[-1] if self._servers_to_try else None
        if tried and attempt == self._attempt and self._link(tried).replies_cut:
            return
        self.run_when_awake(callback, *args)

    # Connecting

    def _schedule_next_try(self) -> None:
        """Schedule the next connection attempt: all servers in random order, then a pause that doubles after each round."""
        rng = self._ensemble.random
        delay_s = rng.uniform(*TRY_DELAY_S)
        if self._servers_to_try:
            self._servers_to_try.pop()
        if not self._servers_to_try:
            self._servers_to_try = self._shuffled_servers()
            if self._attempt:
                delay_s += self._retry_pause_s * rng.uniform(0.6, 1.0)
                self._retry_pause_s = min(self._retry_pause_s * 2, RETRY_PAUSE_S_MAX)
        self._attempt += 1
        now_s = self._loop.now_s
        self._loop.schedule_at(now_s + delay_s, self._try_server, self._attempt)
        self._loop.schedule_at(now_s + delay_s + self._handshake_timeout_s, self.run_when_awake, self.on_refused, self._attempt)

    def _shuffled_servers(self) -> list[Server]:
        """Return the servers in random order. The last item is tried first; an unresponsive server is tried last."""
        order = list(self._ensemble.servers)
        self._ensemble.random.shuffle(order)
        if self._unresponsive_server:
            order.remove(self._unresponsive_server)
            order.insert(0, self._unresponsive_server)
            self._unresponsive_server = None
        return order

    def _try_server(self, attempt: int) -> None:
        if attempt != self._attempt or self._stopped:
            return
        if self.process_stopped:
            self._deferred_calls.append((self._try_server, (attempt,)))
            return
        server = self._servers_to_try[-1]
        link = self._link(server)
        if link.requests_cut or link.replies_cut:
            return
        if server.paused:
            server.deferred.append((self._try_server, (attempt,)))
        elif not server.alive or not server.serving:
            self.send_handshake_reply(self.on_refused, attempt)
        else:
            self._ensemble.accept_client(self, server, attempt)

    def on_refused(self, attempt: int) -> None:
        if attempt == self._attempt and self.connection is None and not self._stopped:
            longest_s = max(self.timeout_s / len(self._ensemble.servers), HANDSHAKE_TIMEOUT_S)
            self._handshake_timeout_s = min(self._handshake_timeout_s * 2, longest_s)
            self._schedule_next_try()

    def on_accepted(self, attempt: int, connection: Connection) -> None:
        if attempt != self._attempt or self.connection is not None:
            connection.close_by_client()
            return
        self._attempt += 1
        self._retry_pause_s = RETRY_PAUSE_S
        self._handshake_timeout_s = HANDSHAKE_TIMEOUT_S
        self.identity = connection.session.identity
        connection.session.is_known = True
        self.timeout_s = connection.session.timeout_s
        self.connection = connection
        connection.open_by_client()
        self._client.on_connected(connection)
        self.watch_for_silence()

    def on_expired(self, attempt: int) -> None:
        if attempt == self._attempt:
            self._client.on_session_expired()

    # Connected

    def on_packet(self, connection: Connection, replies: Replies, zxid: int, fired: str) -> None:
        if connection is not self.connection:
            return
        connection.pings.last_reply_s = self._loop.now_s
        if zxid > self.zxid:  # noqa: PLR1730 -- max() takes three times as long
            self.zxid = zxid
        if replies:
            self._client.on_replies(replies)
        else:
            self._client.on_watch_fired(fired)

    def on_connection_lost(self, connection: Connection, reason: str) -> None:
        """Handle the loss of a connection. The session may still be alive."""
        if connection is not self.connection:
            return
        self.connection = None
        connection.close_by_client()
        self._client.on_connection_lost(reason)
        if not self._stopped:
            self._schedule_next_try()

    def leave_unresponsive_server(self) -> None:
        """Leave a server that did not answer a call in time, and continue the session on another server."""
        connection = self.connection
        if connection:
            self._unresponsive_server = connection.server
            self._servers_to_try = []
            self.on_connection_lost(connection, "a call stayed unanswered for too long")

    def watch_for_silence(self) -> None:
        """Start a silence timer if none is set. Called after a disturbance, because only then can a server become silent."""
        if self.connection and not self._silence_timer_set and not self._stopped:
            self._silence_timer_set = True
            self._loop.schedule_at(self._silence_deadline_s(self.connection), self.run_when_awake, self._check_silence)

    def _silence_deadline_s(self, connection: Connection) -> float:
        return connection.pings.last_reply_s + self.timeout_s * 2 / 3

    def _check_silence(self) -> None:
        self._silence_timer_set = False
        connection = self.connection
        if connection is None:
            return
        connection.apply_elapsed_pings(self._loop.now_s)
        if self._loop.now_s >= self._silence_deadline_s(connection):
            self.on_connection_lost(connection, "the server was silent for too long")
        elif not connection.is_undisturbed:
            self.watch_for_silence()

    def stop(self) -> None:
        self._stopped = True
        connection, self.connection = self.connection, None
        if connection:
            connection.close_by_client()
        if self in self.process.resources:
            self.process.resources.remove(self)

    def _link(self, server: Server) -> Any:
        return self._ensemble.network.link(self.process.machine, server.index)
