"""HTTP connections of a node, limited in number and in time, so that clients without the secret never lock out the other nodes.

At the limit, a new connection replaces the oldest one that waits for a request and has never sent the cluster's secret. A
connection whose request is being served, or that has sent the secret, is never closed for another one.
"""

import asyncio
import itertools
from enum import Enum

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS_MAX = 100
"""Limit that leaves enough file descriptors for the ZooKeeper session and the runners."""
HEAD_TIMEOUT_S = 5.0
"""Time from the connection, or from the first byte of a later request, to the end of the request's head."""
BODY_TIMEOUT_S = 5.0
RESPONSE_TIMEOUT_S = 5.0
"""Time for the response to a request without the secret, including the time that the client takes to read it."""
IDLE_TIMEOUT_S = 30
"""Time between two requests of a connection."""

AUTHORIZED = "authorized"
"""Key in a request's state, which is set if the request carries the cluster's secret."""

_connection_numbers = itertools.count()


class ConnectionPhase(Enum):
    """Part of a request that a connection is waiting for."""

    HEAD = "head"
    BODY = "body"
    RESPONSE = "response"


TIMEOUTS_S = {
    ConnectionPhase.HEAD: HEAD_TIMEOUT_S,
    ConnectionPhase.BODY: BODY_TIMEOUT_S,
    ConnectionPhase.RESPONSE: RESPONSE_TIMEOUT_S,
}


class BoundedProtocol(H11Protocol):
    """HTTP protocol with a limit on connections, and on the time of each phase of a connection."""

    refused = False
    number = 0
    """Position in the order of arrival."""
    _limited_phase: ConnectionPhase | None = None
    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it too
        self.number = next(_connection_numbers)
        self.refused = len(self.connections) >= CONNECTIONS_MAX and not self._close_oldest_unauthorized()
        if self.refused:
            transport.abort()
            return
        super().connection_made(transport)
        self._limit_phase()

    def _close_oldest_unauthorized(self) -> bool:
        """Close the oldest connection that may be closed for a new one. Return False if there is none."""
        closable = [each for each in self.connections if isinstance(each, BoundedProtocol) and each.is_closable]
        if not closable:
            return False
        oldest = min(closable, key=lambda each: each.number)
        self.connections.discard(oldest)  # now, because the transport reports the end only later
        oldest.transport.abort()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_limit()
        if not self.refused:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit_phase()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.timeout_keep_alive_task is not None:
            self._cancel_limit()  # the idle timeout applies until the next byte arrives

    @property
    def is_closable(self) -> bool:
        return self._phase is ConnectionPhase.HEAD and not self.is_authorized

    @property
    def is_authorized(self) -> bool:
        """True if the last request of this connection carried the cluster's secret."""
        return self.scope is not None and AUTHORIZED in self.scope["state"]

    @property
    def _phase(self) -> ConnectionPhase:
        if self.cycle is None or self.cycle.response_complete:
            return ConnectionPhase.HEAD  # also if the rest of an answered request's body is still arriving
        return ConnectionPhase.BODY if self.conn.their_state is h11.SEND_BODY else ConnectionPhase.RESPONSE

    def _limit_phase(self) -> None:
        """Start the time limit of the current phase, unless it is running."""
        phase = self._phase
        if self._limit is not None and phase is self._limited_phase:
            return
        self._cancel_limit()
        self._limited_phase = phase
        self._limit = self.loop.call_later(TIMEOUTS_S[phase], self._end_phase)

    def _cancel_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _end_phase(self) -> None:
        self._limit = None
        if not (self._phase is ConnectionPhase.RESPONSE and self.is_authorized):
            self.transport.abort()
