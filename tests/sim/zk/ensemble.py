"""The simulated ensemble: what tests hold in their hands, and what its parts share.

Faults of servers are methods here; faults of links are methods of `network`. Times are virtual, choices come from the seed.
"""

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.zk.session.client import Create, Delete, Operation, SessionId, SetData
from tests.sim.loop import SimLoop
from tests.sim.zk.connection import Connection
from tests.sim.zk.network import Network
from tests.sim.zk.pipeline import OnCommit, OnSessionEnd, Pipeline
from tests.sim.zk.quorum import Quorum
from tests.sim.zk.request import Aim, Kind, Match, Transaction
from tests.sim.zk.server import Server
from tests.sim.zk.sessions import Session, Sessions
from tests.sim.zk.tree import Tree, parent_of

if TYPE_CHECKING:
    from tests.sim.zk.wire import Wire

Record = Callable[..., None]
OnRead = Callable[[str, str], object]


class Ensemble:
    def __init__(
        self, loop: SimLoop, *, servers: int = 3, tick_s: float = 1.0, sync_limit: int = 5, record: Record | None = None
    ) -> None:
        self.loop = loop
        self.random = random.Random(f"{loop.seed}/zookeeper")
        self.tick_s = tick_s
        self.record: Record = record or (lambda *_: None)
        self.tree = Tree()
        self.tree.zxid = 1 << 32
        self.network = Network(self.random, servers, self.record)
        self.network.before_fault = self.settle
        self.network.after_fault = self.disturbed
        self.servers = [Server(self, index, tick_s) for index in range(servers)]
        self.quorum = Quorum(self, self.servers, sync_limit * tick_s)
        self.sessions = Sessions(self, loop, tick_s)
        self.pipeline = Pipeline(self)
        self.on_read: OnRead | None = None
        """Called with (process, path) at each read, when a server has found the answer and nobody has heard it."""

    # Faults

    @property
    def leader(self) -> int | None:
        return self.quorum.leader.index if self.quorum.leader else None

    @property
    def followers(self) -> list[int]:
        return [server.index for server in self.servers if server is not self.quorum.leader]

    def kill(self, server: int) -> None:
        """End the server as SIGKILL does."""
        self._fault("kill", server)
        self.quorum.kill(server)

    def restart(self, server: int) -> None:
        self._fault("restart", server)
        self.quorum.restart(server)

    def pause(self, server: int) -> None:
        """Stop the server as SIGSTOP does."""
        self._fault("pause", server)
        self.quorum.pause(server)

    def resume(self, server: int) -> None:
        self._fault("resume", server)
        self.quorum.resume(server)

    def cut(self, server: int) -> None:
        """Cut the server off from its peers, but not from its clients."""
        self._fault("cut", server)
        self.quorum.cut(server)

    def heal(self, server: int) -> None:
        self._fault("heal", server)
        self.quorum.heal(server)

    def change_leader(self) -> None:
        self._fault("change leader", self.leader)
        self.quorum.change_leader()

    def stall_commits(self, seconds: float) -> None:
        """The disks stall: nothing is committed until then, everything else goes on."""
        self._fault("stall", seconds)
        self.pipeline.stall(seconds)

    def drop_connections(self) -> None:
        """Every server closes every client's connection; all sessions live on."""
        self._fault("drop connections")
        self.settle()
        for server in self.servers:
            server.drop_clients()

    def expire(self, session_id: int) -> None:
        """End a session at once, as if its time had run out."""
        self._fault("expire", session_id)
        session = self.sessions.by_id.get(session_id)
        if session:
            self.submit_end(session, "it expired")

    def close_session(self, identity: SessionId) -> None:
        """What a guard does after a crash: resume the session elsewhere and close it at once. May find no service."""
        self.loop.at(self.loop.time() + self.random.uniform(0.01, 0.05), self._close_from_outside, identity)

    def _close_from_outside(self, identity: SessionId) -> None:
        session = self.sessions.find(identity)
        if session and self.quorum.leader is not None:
            self.submit_end(session, "it was closed from outside")

    # Hooks

    def on_commit(self, callback: OnCommit) -> None:
        """Call it with (zxid, session id, process, operations, results), at the moment of each commit."""
        self.pipeline.on_commit.append(callback)

    def on_session_end(self, callback: OnSessionEnd) -> None:
        """Call it with (zxid, session id, process, ephemeral paths removed, reason)."""
        self.pipeline.on_session_end.append(callback)

    def before(self, match: Match, action: Callable[[Transaction], object], *, skip: int = 0, times: int = 1) -> Aim:
        """Act just before such a transaction is applied; if the action stops the ensemble it may not be."""
        aim = Aim(match, action, skip, times)
        self.pipeline.before.append(aim)
        return aim

    def after(self, match: Match, action: Callable[[Transaction], object], *, skip: int = 0, times: int = 1) -> Aim:
        """Act just after such a transaction was applied, before anyone is told."""
        aim = Aim(match, action, skip, times)
        self.pipeline.after.append(aim)
        return aim

    # An operator's hands

    def write(self, path: str, data: bytes, *, by: str = "operator") -> None:
        """Put these bytes there, whatever stood there before; missing parents are made."""
        node = self.tree.get(path)
        if node:
            self._operate([SetData(path, data, node.stat.version)], by)
            return
        parent = parent_of(path)
        if self.tree.get(parent) is None:
            self.write(parent, b"")
        self._operate([Create(path, data)])

    def remove(self, path: str) -> None:
        """Delete it with everything below."""
        for child in self.tree.children(path):
            self.remove(f"{path.rstrip('/')}/{child}")
        node = self.tree.get(path)
        if node:
            self._operate([Delete(path, node.stat.version)])

    def _operate(self, operations: Sequence[Operation], by: str = "operator") -> None:
        self.settle()
        self.pipeline.apply_now(operations, by)

    # What the parts ask of each other

    def settle(self) -> None:
        """Work out what pings and reports did up to now."""
        now_s = self.loop.time()
        for connection in self.network.connections():
            connection.settle(now_s)
        for server in self.servers:
            server.report_touches(now_s)

    def disturbed(self) -> None:
        """Something changed: clients may be waiting in vain from now on, and what waited may go on."""
        for connection in self.network.connections():
            connection.wire.watch_silence()
        if self.quorum.leader_runs:
            self.sessions.check_all()
        self.pipeline.flush()

    def submit_end(self, session: Session, reason: str) -> None:
        if not session.closing:
            session.closing = True
            self.pipeline.submit(Transaction(Kind.CLOSE, session.process, session, reason=reason))

    def drop_session(self, session: Session) -> None:
        """It is over: every server that hears of it closes its connection, if it has one."""
        for server in self.servers:
            if self.quorum.connected(server):
                server.drop_ended()

    def admit(self, wire: "Wire", server: Server, attempt: int) -> None:
        """A client knocks at a server that follows a leader, for a new session or with an old one."""
        if not self.quorum.connected(server):
            return
        if wire.identity is None:
            transaction = Transaction(
                Kind.OPEN, wire.process.name, None, done=lambda: self._open_session(wire, server, attempt)
            )
            self.pipeline.submit(transaction)
            return
        if wire.zxid > server.zxid:
            wire.answer(wire.refused, attempt)
            return
        session = self.sessions.find(wire.identity)
        if session is None:
            wire.answer(wire.expired, attempt)
            return
        for earlier in [c for c in server.connections if c.session is session]:
            earlier.close_by_server()
        session.heard(self.loop.time())
        self._connect(wire, server, session, attempt)

    def _open_session(self, wire: "Wire", server: Server, attempt: int) -> None:
        session = self.sessions.create(wire.process.name, wire.requested_s)
        self.tree.zxid += 1
        self.record("session", session.identity.id, session.process)
        if self.quorum.connected(server):
            self._connect(wire, server, session, attempt)

    def _connect(self, wire: "Wire", server: Server, session: Session, attempt: int) -> None:
        session.owner = server
        link = self.network.link(wire.process.machine, server.index)
        connection = Connection(self, wire, server, session, link)
        wire.answer(wire.welcomed, attempt, connection)

    def _fault(self, name: str, *details: object) -> None:
        self.record("fault", name, *details)
