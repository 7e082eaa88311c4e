"""Session expiry, as decided by the ensemble's leader.

A session expires T after the leader last *heard* of it, rounded up to a tick. A server records each request and ping of a
client as a touch and reports touches to the leader twice per tick. Unreported touches are lost when the server fails. So a
session can end less than T after its client's last successful request, and a committed write alone does not keep a session
alive.
"""

import math
from typing import TYPE_CHECKING

from holdfast.zk.session.client import SessionId

if TYPE_CHECKING:
    from tests.sim.event_loop import SimLoop
    from tests.sim.zk.ensemble import Ensemble
    from tests.sim.zk.server import Server

TICKS_MIN = 2
TICKS_MAX = 20


class SimSession:
    __slots__ = (
        "check_scheduled",
        "closing",
        "ended",
        "identity",
        "is_known",
        "last_contact_s",
        "owner",
        "process",
        "timeout_s",
    )

    def __init__(self, identity: SessionId, process: str, timeout_s: float, last_contact_s: float) -> None:
        self.identity = identity
        self.process = process
        self.timeout_s = timeout_s
        self.last_contact_s = last_contact_s
        """Time at which the leader last heard of the session's client."""
        self.owner: Server | None = None
        """Server that the client is connected to. Writes through any other server are refused."""
        self.closing = False
        """True once the leader has decided to end the session, even before that is committed."""
        self.ended = False
        self.is_known = False
        """True once a client has received the identity. Otherwise the client gave up the handshake, and the session expires."""
        self.check_scheduled = False

    def record_contact(self, at_s: float) -> None:
        if at_s > self.last_contact_s and not self.closing:
            self.last_contact_s = at_s


class SessionTracker:
    def __init__(self, ensemble: "Ensemble", loop: "SimLoop", tick_s: float) -> None:
        self._ensemble = ensemble
        self._loop = loop
        self._tick_s = tick_s
        self._phase_s = ensemble.random.random() * tick_s
        self._created = 0
        self.by_id: dict[int, SimSession] = {}

    def negotiate_timeout_s(self, requested_s: float) -> float:
        return min(max(requested_s, TICKS_MIN * self._tick_s), TICKS_MAX * self._tick_s)

    def create(self, process: str, requested_s: float) -> SimSession:
        self._created += 1
        number = (0x100 << 48) + self._created
        password = self._ensemble.random.randbytes(16)
        session = SimSession(SessionId(number, password), process, self.negotiate_timeout_s(requested_s), self._loop.now_s)
        self.by_id[number] = session
        self._schedule_check(session)
        return session

    def find(self, identity: SessionId) -> SimSession | None:
        session = self.by_id.get(identity.id)
        if session is None or session.closing or session.identity.password != identity.password:
            return None
        return session

    def expiry_s(self, session: SimSession) -> float:
        """Return the end of the tick in which the session's timeout falls."""
        due_s = session.last_contact_s + session.timeout_s - self._phase_s
        return self._phase_s + (math.floor(due_s / self._tick_s) + 1) * self._tick_s

    def renew_all(self) -> None:
        """Give every session a full timeout: a new leader has no record of earlier touches."""
        for session in self.by_id.values():
            session.closing = False
            session.last_contact_s = self._loop.now_s
        self.check_all()

    def check_all(self) -> None:
        for session in self.by_id.values():
            if not session.check_scheduled:
                self._schedule_check(session)

    def expire_overdue(self) -> None:
        """End every session whose time is over, before its client can be heard again."""
        for session in list(self.by_id.values()):
            if self.expiry_s(session) <= self._loop.now_s:
                self._ensemble.submit_session_end(session, "it expired")

    def _schedule_check(self, session: SimSession) -> None:
        session.check_scheduled = True
        self._loop.schedule_at(max(self.expiry_s(session), self._loop.now_s), self._check_expiry, session)

    def _check_expiry(self, session: SimSession) -> None:
        """End the session if it has expired. Elapsed touches are computed only here and when a fault happens."""
        session.check_scheduled = False
        if session.ended or session.closing or not self._ensemble.quorum.leader_runs:
            return
        self._ensemble.apply_elapsed_pings()
        if self.expiry_s(session) > self._loop.now_s:
            self._schedule_check(session)
        else:
            self._ensemble.submit_session_end(session, "it expired")
