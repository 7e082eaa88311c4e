"""Who is alive, as the ensemble's leader believes.

A session expires T after the leader last *heard* of it, rounded up to a tick. A server notes each request and ping of its
clients as a touch and tells the leader twice per tick; what it could not tell is lost with it. So a session can end
earlier than T after its client's last successful request, and a committed write alone keeps nothing alive.
"""

import math
from typing import TYPE_CHECKING

from holdfast.zk.session.client import SessionId

if TYPE_CHECKING:
    from tests.sim.loop import SimLoop
    from tests.sim.zk.ensemble import Ensemble
    from tests.sim.zk.server import Server

TICKS_MIN = 2
TICKS_MAX = 20


class Session:
    __slots__ = ("check_due", "closing", "heard_s", "identity", "over", "owner", "process", "timeout_s")

    def __init__(self, identity: SessionId, process: str, timeout_s: float, heard_s: float) -> None:
        self.identity = identity
        self.process = process
        self.timeout_s = timeout_s
        self.heard_s = heard_s
        """When the leader last heard that the session's client is there."""
        self.owner: Server | None = None
        """The server its client is connected to; writes through any other are refused."""
        self.closing = False
        """The leader has decided to end it, even if that is not committed yet."""
        self.over = False
        self.check_due = False

    def heard(self, at_s: float) -> None:
        if at_s > self.heard_s and not self.closing:
            self.heard_s = at_s


class Sessions:
    def __init__(self, ensemble: "Ensemble", loop: "SimLoop", tick_s: float) -> None:
        self._ensemble = ensemble
        self._loop = loop
        self._tick_s = tick_s
        self._phase_s = ensemble.random.random() * tick_s
        self._created = 0
        self.by_id: dict[int, Session] = {}

    def grant_s(self, requested_s: float) -> float:
        return min(max(requested_s, TICKS_MIN * self._tick_s), TICKS_MAX * self._tick_s)

    def create(self, process: str, requested_s: float) -> Session:
        self._created += 1
        number = (0x100 << 48) + self._created
        password = self._ensemble.random.randbytes(16)
        session = Session(SessionId(number, password), process, self.grant_s(requested_s), self._loop.time())
        self.by_id[number] = session
        self._schedule_check(session)
        return session

    def find(self, identity: SessionId) -> Session | None:
        session = self.by_id.get(identity.id)
        if session is None or session.closing or session.identity.password != identity.password:
            return None
        return session

    def expires_s(self, session: Session) -> float:
        """The end of the bucket that T after the last report falls into."""
        due_s = session.heard_s + session.timeout_s - self._phase_s
        return self._phase_s + (math.floor(due_s / self._tick_s) + 1) * self._tick_s

    def renew_all(self) -> None:
        """A new leader knows nothing of earlier touches: every session gets a full T."""
        for session in self.by_id.values():
            session.closing = False
            session.heard_s = self._loop.time()
        self.check_all()

    def check_all(self) -> None:
        for session in self.by_id.values():
            if not session.check_due:
                self._schedule_check(session)

    def _schedule_check(self, session: Session) -> None:
        session.check_due = True
        self._loop.at(max(self.expires_s(session), self._loop.time()), self._check, session)

    def _check(self, session: Session) -> None:
        """Touches are worked out only here and when something fails, not one by one as they happen."""
        session.check_due = False
        if session.over or session.closing or not self._ensemble.quorum.leader_runs:
            return
        self._ensemble.settle()
        if self.expires_s(session) > self._loop.time():
            self._schedule_check(session)
        else:
            self._ensemble.submit_end(session, "it expired")
