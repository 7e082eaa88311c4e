"""A client's connection to the ensemble, as a client library keeps it on threads of its own.

It belongs to a process and stops with it, but not with that process's event loop.
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

TRY_S = (0.005, 0.03)
ROUND_S = 0.05
ROUND_S_MAX = 1.0
HANDSHAKE_S = 1.0


class Wire:
    __slots__ = (
        "_attempt",
        "_dead",
        "_ensemble",
        "_face",
        "_handshake_s",
        "_inbox",
        "_loop",
        "_round_s",
        "_silence_watched",
        "_to_try",
        "_unwanted",
        "asleep",
        "connection",
        "identity",
        "process",
        "requested_s",
        "timeout_s",
        "zxid",
    )

    def __init__(
        self, ensemble: "Ensemble", process: Process, face: "SimClient", timeout_s: float, resume: SessionId | None
    ) -> None:
        self._ensemble = ensemble
        self._loop = ensemble.loop
        self._face = face
        self.process = process
        self.requested_s = timeout_s
        self.timeout_s = ensemble.sessions.grant_s(timeout_s)
        self.identity = resume
        self.connection: Connection | None = None
        self.zxid = 0
        """The newest state that this client has seen. An older server will not have it."""
        self.asleep = False
        self._dead = False
        self._inbox: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._attempt = 0
        self._round_s = ROUND_S
        self._handshake_s = HANDSHAKE_S
        self._to_try: list[Server] = []
        self._unwanted: Server | None = None
        self._silence_watched = False
        process.residents.append(self)
        self._knock_next()

    # Its process

    def process_paused(self) -> None:
        self._ensemble.settle()
        self.asleep = True

    def process_resumed(self) -> None:
        self._ensemble.settle()
        self.asleep = False
        if self.connection:
            self.connection.pulse.awake(self._loop.time())
        inbox, self._inbox = self._inbox, []
        for callback, args in inbox:
            callback(*args)
        self.watch_silence()

    def process_crashed(self) -> None:
        """The kernel closes its sockets. The session lives on until it expires, or somebody ends it."""
        self._ensemble.settle()
        self.stop()

    def hear(self, callback: Callable[..., object], *args: Any) -> None:
        """Something happened on a socket or a timer of this client: it acts now, or when it is awake again."""
        if self._dead:
            return
        if self.asleep:
            self._inbox.append((callback, args))
        else:
            callback(*args)

    def answer(self, callback: Callable[..., object], attempt: int, *args: Any) -> None:
        """A server's answer to a knock, on its way."""
        self._loop.at(
            self._loop.time() + self._ensemble.network.hop_s(), self._answer_arrives, attempt, callback, attempt, *args
        )

    def _answer_arrives(self, attempt: int, callback: Callable[..., object], *args: Any) -> None:
        tried = self._to_try[-1] if self._to_try else None
        if tried and attempt == self._attempt and self._link(tried).replies_cut:
            return
        self.hear(callback, *args)

    # Finding a server

    def _knock_next(self) -> None:
        """Try all servers in random order, then again after a pause that doubles, so that nobody is flooded."""
        rng = self._ensemble.random
        delay_s = rng.uniform(*TRY_S)
        if self._to_try:
            self._to_try.pop()
        if not self._to_try:
            self._to_try = self._shuffled()
            if self._attempt:
                delay_s += self._round_s * rng.uniform(0.6, 1.0)
                self._round_s = min(self._round_s * 2, ROUND_S_MAX)
        self._attempt += 1
        now_s = self._loop.time()
        self._loop.at(now_s + delay_s, self._knock, self._attempt)
        self._loop.at(now_s + delay_s + self._handshake_s, self.hear, self.refused, self._attempt)

    def _shuffled(self) -> list[Server]:
        """The last of the list is tried first; one that left calls unanswered comes at the end."""
        order = list(self._ensemble.servers)
        self._ensemble.random.shuffle(order)
        if self._unwanted:
            order.remove(self._unwanted)
            order.insert(0, self._unwanted)
            self._unwanted = None
        return order

    def _knock(self, attempt: int) -> None:
        if attempt != self._attempt or self._dead:
            return
        if self.asleep:
            self._inbox.append((self._knock, (attempt,)))
            return
        server = self._to_try[-1]
        link = self._link(server)
        if link.requests_cut or link.replies_cut:
            return
        if server.paused:
            server.deferred.append((self._knock, (attempt,)))
        elif not server.alive or not server.serving:
            self.answer(self.refused, attempt)
        else:
            self._ensemble.admit(self, server, attempt)

    def refused(self, attempt: int) -> None:
        if attempt == self._attempt and self.connection is None and not self._dead:
            longest_s = max(self.timeout_s / len(self._ensemble.servers), HANDSHAKE_S)
            self._handshake_s = min(self._handshake_s * 2, longest_s)
            self._knock_next()

    def welcomed(self, attempt: int, connection: Connection) -> None:
        if attempt != self._attempt or self.connection is not None:
            connection.close_by_client()
            return
        self._attempt += 1
        self._round_s = ROUND_S
        self._handshake_s = HANDSHAKE_S
        self.identity = connection.session.identity
        self.timeout_s = connection.session.timeout_s
        self.connection = connection
        connection.open_by_client()
        self._face.connected(connection)
        self.watch_silence()

    def expired(self, attempt: int) -> None:
        if attempt == self._attempt:
            self._face.expired()

    # While connected

    def received(self, connection: Connection, replies: Replies, zxid: int, fired: str) -> None:
        if connection is not self.connection:
            return
        connection.pulse.heard_s = self._loop.time()
        self.zxid = max(self.zxid, zxid)
        if replies:
            self._face.answered(replies)
        else:
            self._face.watch_fired(fired)

    def dropped(self, connection: Connection, reason: str) -> None:
        """The connection is gone; the session may live on."""
        if connection is not self.connection:
            return
        self.connection = None
        connection.close_by_client()
        self._face.dropped(reason)
        if not self._dead:
            self._knock_next()

    def leave_for_another(self) -> None:
        """This server left a call unanswered for too long. Take the session elsewhere."""
        connection = self.connection
        if connection:
            self._unwanted = connection.server
            self._to_try = []
            self.dropped(connection, "a call stayed unanswered for too long")

    def watch_silence(self) -> None:
        """Only after a disturbance can the server fall silent, so only then is there something to watch."""
        if self.connection and not self._silence_watched and not self._dead:
            self._silence_watched = True
            self._loop.at(self._silent_s(self.connection), self.hear, self._check_silence)

    def _silent_s(self, connection: Connection) -> float:
        return connection.pulse.heard_s + self.timeout_s * 2 / 3

    def _check_silence(self) -> None:
        self._silence_watched = False
        connection = self.connection
        if connection is None:
            return
        connection.settle(self._loop.time())
        if self._loop.time() >= self._silent_s(connection):
            self.dropped(connection, "the server was silent for too long")
        elif not connection.undisturbed:
            self.watch_silence()

    def stop(self) -> None:
        self._dead = True
        connection, self.connection = self.connection, None
        if connection:
            connection.close_by_client()
        if self in self.process.residents:
            self.process.residents.remove(self)

    def _link(self, server: Server) -> Any:
        return self._ensemble.network.link(self.process.machine, server.index)
