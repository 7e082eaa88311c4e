"""The leader's order of transactions: what waits, what is applied, and who is told.

Each transaction is judged and applied in one step, in the order in which the leader received it. It waits while the disk
stalls or a majority is missing, and may then be lost with the leader, or survive it and be applied by the next one: a
client whose connection dropped meanwhile cannot know.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.zk.session.client import Committed, Operation, Rejected, Stat
from tests.sim.process import WALL_AT_START_S
from tests.sim.zk.request import Aim, Kind, Transaction
from tests.sim.zk.tree import Change

if TYPE_CHECKING:
    from tests.sim.zk.ensemble import Ensemble
    from tests.sim.zk.sessions import Session

OnCommit = Callable[[int, int, str, Sequence[Operation], tuple[str | Stat | None, ...]], object]
OnSessionEnd = Callable[[int, int, str, list[str], str], object]


class Pipeline:
    def __init__(self, ensemble: "Ensemble") -> None:
        self._ensemble = ensemble
        self._waiting: deque[Transaction] = deque()
        self._stalled_until_s = 0.0
        self._flushing = False
        self.before: list[Aim] = []
        self.after: list[Aim] = []
        self.on_commit: list[OnCommit] = []
        self.on_session_end: list[OnSessionEnd] = []

    @property
    def open(self) -> bool:
        return self._ensemble.quorum.commits and self._ensemble.loop.time() >= self._stalled_until_s

    def stall(self, seconds: float) -> None:
        loop = self._ensemble.loop
        self._stalled_until_s = max(self._stalled_until_s, loop.time() + seconds)
        loop.at(self._stalled_until_s, self.flush)

    def submit(self, transaction: Transaction) -> None:
        self._waiting.append(transaction)
        self.flush()

    def flush(self) -> None:
        if self._flushing:
            return
        self._flushing = True
        try:
            while self._waiting and self.open:
                transaction = self._waiting[0]
                self._aim(self.before, transaction)
                # What the aim did may keep this transaction from being applied, or have lost it.
                if self.open and self._waiting and self._waiting[0] is transaction:
                    self._waiting.popleft()
                    self._execute(transaction)
        finally:
            self._flushing = False

    def leader_lost(self) -> None:
        """Of what was not committed, the part that reached a majority survives."""
        survivors = self._ensemble.random.randint(0, len(self._waiting))
        while len(self._waiting) > survivors:
            lost = self._waiting.pop()
            if lost.kind is Kind.CLOSE and lost.session:
                lost.session.closing = False

    def apply_now(self, operations: Sequence[Operation], by: str = "operator") -> Committed | Rejected:
        """An operator's transaction, or that of anybody who is not simulated, through some other client."""
        return self._commit(operations, None, by)

    def _end(self, session: "Session", reason: str) -> list[str]:
        if session.over:
            return []
        session.closing = session.over = True
        ensemble = self._ensemble
        ensemble.sessions.by_id.pop(session.identity.id, None)
        paths, change = ensemble.tree.end_session(session.identity.id)
        self._spread(change, None)
        ensemble.record("session end", session.identity.id, session.process, reason, tuple(paths))
        for callback in self.on_session_end:
            callback(change.zxid, session.identity.id, session.process, paths, reason)
        return paths

    def _execute(self, transaction: Transaction) -> None:
        session, kind = transaction.session, transaction.kind
        result: object = None
        if kind is Kind.COMMIT:
            result = self._commit(transaction.operations, session, transaction.process, transaction)
        elif kind is Kind.CLOSE and session:
            transaction.owned = tuple(self._end(session, transaction.reason))
            self._aim(self.after, transaction)
        elif transaction.done:
            transaction.done()
        connection, request = transaction.connection, transaction.request
        if connection and request:
            connection.server_finished(request, result)
        if kind is Kind.CLOSE and session:
            self._ensemble.drop_session(session)

    def _commit(
        self, operations: Sequence[Operation], session: "Session | None", process: str, by: Transaction | None = None
    ) -> Committed | Rejected:
        ensemble = self._ensemble
        now_s = ensemble.loop.time()
        session_id = session.identity.id if session else 0
        result, change = ensemble.tree.commit(operations, session_id, int((WALL_AT_START_S + now_s) * 1000))
        if change is None:
            ensemble.record("rejected", process, session_id, repr(result))
            return result
        assert isinstance(result, Committed)
        self._spread(change, by)
        ensemble.record("commit", change.zxid, process, session_id, tuple(change.changed))
        for callback in self.on_commit:
            callback(change.zxid, session_id, process, operations, result.results)
        if by:
            self._aim(self.after, by)
        return result

    def _spread(self, change: Change, by: Transaction | None) -> None:
        """The leader has it, and so has the server that asked; the others follow within a hop, if they hear of it."""
        ensemble = self._ensemble
        quorum = ensemble.quorum
        asker = by.connection.server if by and by.connection else None
        now_s = ensemble.loop.time()
        for server in quorum.servers:
            server.advance()
            if not quorum.connected(server):
                if server.serving:
                    server.committed(change, math.inf)
                continue
            server.committed(change, now_s + ensemble.network.hop_s())
            if server is asker or server is quorum.leader:
                server.catch_up()

    def _aim(self, aims: list[Aim], transaction: Transaction) -> None:
        if not aims:
            return
        if transaction.kind is Kind.CLOSE and not transaction.owned:
            transaction.owned = tuple(self._ensemble.tree.ephemerals.get(transaction.session_id, ()))
        for aim in list(aims):
            aim.consider(transaction)
