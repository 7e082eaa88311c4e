"""Ordered queue of the ensemble leader's transactions: pending transactions, their commit, and their replication.

Each transaction is validated and applied in one step, in the order in which the leader received it. It waits while the disk
stalls or a majority is missing. If the leader is lost meanwhile, the transaction is either lost or applied by the next
leader; a client whose connection dropped cannot know which.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.zk.session.client import Committed, Operation, Rejected, Stat
from tests.sim.process import WALL_AT_START_S
from tests.sim.zk.requests import RequestKind, Transaction, TransactionHook
from tests.sim.zk.znode_tree import Change

if TYPE_CHECKING:
    from tests.sim.zk.ensemble import Ensemble
    from tests.sim.zk.session_tracker import SimSession

OnCommit = Callable[[int, int, str, Sequence[Operation], tuple[str | Stat | None, ...]], object]
OnSessionEnd = Callable[[int, int, str, list[str], str], object]


class CommitPipeline:
    def __init__(self, ensemble: "Ensemble") -> None:
        self._ensemble = ensemble
        self._waiting: deque[Transaction] = deque()
        self._stalled_until_s = 0.0
        self._flushing = False
        self.before_hooks: list[TransactionHook] = []
        self.after_hooks: list[TransactionHook] = []
        self.on_commit: list[OnCommit] = []
        self.on_session_end: list[OnSessionEnd] = []

    @property
    def can_commit(self) -> bool:
        return self._ensemble.quorum.can_commit and self._ensemble.loop.now_s >= self._stalled_until_s

    def stall(self, seconds: float) -> None:
        loop = self._ensemble.loop
        self._stalled_until_s = max(self._stalled_until_s, loop.now_s + seconds)
        loop.schedule_at(self._stalled_until_s, self.flush)

    def submit(self, transaction: Transaction) -> None:
        self._waiting.append(transaction)
        self.flush()

    def flush(self) -> None:
        if self._flushing:
            return
        self._flushing = True
        try:
            while self._waiting and self.can_commit:
                transaction = self._waiting[0]
                self._run_hooks(self.before_hooks, transaction)
                # The hook may have blocked the ensemble or removed this transaction.
                if self.can_commit and self._waiting and self._waiting[0] is transaction:
                    self._waiting.popleft()
                    self._execute(transaction)
        finally:
            self._flushing = False

    def discard_uncommitted(self) -> None:
        """Discard a random part of the pending transactions. The rest has reached a majority and survives the leader."""
        survivors = self._ensemble.random.randint(0, len(self._waiting))
        while len(self._waiting) > survivors:
            lost = self._waiting.pop()
            if lost.kind is RequestKind.CLOSE and lost.session:
                lost.session.closing = False

    def apply_for_operator(self, operations: Sequence[Operation], by: str = "operator") -> Committed | Rejected:
        """Commit a transaction of an operator or of another client that is not simulated."""
        return self._commit(operations, None, by)

    def _end_session(self, session: "SimSession", reason: str) -> list[str]:
        if session.ended:
            return []
        session.closing = session.ended = True
        ensemble = self._ensemble
        ensemble.sessions.by_id.pop(session.identity.id, None)
        paths, change = ensemble.tree.end_session(session.identity.id)
        self._replicate(change, None)
        ensemble.record("session end", session.identity.id, session.process, reason, tuple(paths))
        for callback in self.on_session_end:
            callback(change.zxid, session.identity.id, session.process, paths, reason)
        return paths

    def _execute(self, transaction: Transaction) -> None:
        session, kind = transaction.session, transaction.kind
        result: object = None
        if kind is RequestKind.COMMIT:
            result = self._commit(transaction.operations, session, transaction.process, transaction)
        elif kind is RequestKind.CLOSE and session:
            transaction.owned_paths = tuple(self._end_session(session, transaction.reason))
            self._run_hooks(self.after_hooks, transaction)
        elif transaction.on_applied:
            transaction.on_applied()
        connection, request = transaction.connection, transaction.request
        if connection and request:
            connection.on_request_finished(request, result)
        if kind is RequestKind.CLOSE and session:
            self._ensemble.drop_session_connections(session)

    def _commit(
        self, operations: Sequence[Operation], session: "SimSession | None", process: str, by: Transaction | None = None
    ) -> Committed | Rejected:
        ensemble = self._ensemble
        now_s = ensemble.loop.now_s
        session_id = session.identity.id if session else 0
        result, change = ensemble.tree.commit(operations, session_id, int((WALL_AT_START_S + now_s) * 1000))
        if change is None:
            ensemble.record("rejected", process, session_id, repr(result))
            return result
        assert isinstance(result, Committed)
        self._replicate(change, by)
        ensemble.record("commit", change.zxid, process, session_id, tuple(change.changed))
        for callback in self.on_commit:
            callback(change.zxid, session_id, process, operations, result.results)
        if by:
            self._run_hooks(self.after_hooks, by)
        return result

    def _replicate(self, change: Change, by: Transaction | None) -> None:
        """Apply the change on the leader and the requesting server at once, and on other reachable servers after a hop."""
        ensemble = self._ensemble
        quorum = ensemble.quorum
        asker = by.connection.server if by and by.connection else None
        now_s = ensemble.loop.now_s
        for server in quorum.servers:
            server.advance()
            if not quorum.reaches_leader(server):
                if server.serving:
                    server.receive_change(change, math.inf)
                continue
            server.receive_change(change, now_s + ensemble.network.hop_s())
            if server is asker or server is quorum.leader:
                server.catch_up()

    def _run_hooks(self, hooks: list[TransactionHook], transaction: Transaction) -> None:
        if not hooks:
            return
        if transaction.kind is RequestKind.CLOSE and not transaction.owned_paths:
            transaction.owned_paths = tuple(self._ensemble.tree.ephemerals.get(transaction.session_id, ()))
        for hook in list(hooks):
            hook.consider(transaction)
