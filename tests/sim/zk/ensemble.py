"""Simulated ensemble: the interface for tests, and the state that its parts share.

Faults of servers are methods of this class; faults of links are methods of `network`. Times are virtual and all random choices
come from the seed.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.zk.session.client import Create, Delete, Operation, SessionId, SetData
from tests.sim.event_loop import SimLoop
from tests.sim.zk.commit_pipeline import CommitPipeline, OnCommit, OnSessionEnd
from tests.sim.zk.connection import Connection
from tests.sim.zk.network import Network
from tests.sim.zk.quorum import Quorum
from tests.sim.zk.requests import RequestKind, Transaction, TransactionHook, TransactionMatch
from tests.sim.zk.server import Server
from tests.sim.zk.session_tracker import SessionTracker, SimSession
from tests.sim.zk.znode_tree import SimZnode, Tree, parent_path_of

if TYPE_CHECKING:
    from tests.sim.zk.client_transport import ClientTransport

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
        self.network.before_fault = self.apply_elapsed_pings
        self.network.after_fault = self.on_disturbance
        self.servers = [Server(self, index, tick_s) for index in range(servers)]
        self.quorum = Quorum(self, self.servers, sync_limit * tick_s)
        self.sessions = SessionTracker(self, loop, tick_s)
        self.pipeline = CommitPipeline(self)
        self.on_read: OnRead | None = None
        """Callback (process, path) for each read, called after the server has read the value and before the client gets it."""

    # Faults

    @property
    def leader(self) -> int | None:
        return self.quorum.leader.index if self.quorum.leader else None

    @property
    def followers(self) -> list[int]:
        return [server.index for server in self.servers if server is not self.quorum.leader]

    def kill(self, server: int) -> None:
        """Kill a server like SIGKILL."""
        self._record_fault("kill", server)
        self.quorum.kill(server)

    def restart(self, server: int) -> None:
        self._record_fault("restart", server)
        self.quorum.restart(server)

    def pause(self, server: int) -> None:
        """Stop a server like SIGSTOP."""
        self._record_fault("pause", server)
        self.quorum.pause(server)

    def resume(self, server: int) -> None:
        self._record_fault("resume", server)
        self.quorum.resume(server)

    def pause_all(self) -> None:
        """Stop all servers like SIGSTOP. No server measures time until `resume_all`."""
        for server in self.servers:
            self.pause(server.index)

    def resume_all(self) -> None:
        """Continue all servers at the same moment. Sessions that were silent for their timeout expire immediately."""
        self._record_fault("resume all")
        self.quorum.resume_all()

    def cut(self, server: int) -> None:
        """Cut a server off from its peers, but not from its clients."""
        self._record_fault("cut", server)
        self.quorum.cut(server)

    def heal(self, server: int) -> None:
        self._record_fault("heal", server)
        self.quorum.heal(server)

    def change_leader(self) -> None:
        self._record_fault("change leader", self.leader)
        self.quorum.change_leader()

    def stall_commits(self, seconds: float) -> None:
        """Stall the disks: nothing is committed for this time. Reads and pings continue."""
        self._record_fault("stall", seconds)
        self.pipeline.stall(seconds)

    def copy_data(self) -> dict[str, SimZnode]:
        """Return a copy of all znodes, as an operator copies the data directories."""
        return dict(self.tree.nodes)

    def restore_data(self, nodes: Mapping[str, SimZnode]) -> None:
        """Stop all servers, replace their data by the copy, and start them again."""
        for server in range(len(self.servers)):
            self.kill(server)
        self._record_fault("restore")
        self.tree.restore(nodes, open_sessions=self.sessions.by_id)
        for server in range(len(self.servers)):
            self.restart(server)

    def drop_connections(self) -> None:
        """Make every server close all client connections. Sessions stay alive."""
        self._record_fault("drop connections")
        self.apply_elapsed_pings()
        for server in self.servers:
            server.drop_clients()

    def expire(self, session_id: int) -> None:
        """Expire a session immediately."""
        self._record_fault("expire", session_id)
        session = self.sessions.by_id.get(session_id)
        if session:
            self.submit_session_end(session, "it expired")

    def close_session(self, identity: SessionId) -> None:
        """Close a session by id and password, as a guard does after a crash. Has no effect while no leader is elected."""
        self.loop.schedule_at(self.loop.now_s + self.random.uniform(0.01, 0.05), self._close_session_now, identity)

    def _close_session_now(self, identity: SessionId) -> None:
        session = self.sessions.find(identity)
        if session and self.quorum.leader is not None:
            self.submit_session_end(session, "it was closed from outside")

    # Hooks

    def on_commit(self, callback: OnCommit) -> None:
        """Register a callback (zxid, session id, process, operations, results) for each commit."""
        self.pipeline.on_commit.append(callback)

    def on_session_end(self, callback: OnSessionEnd) -> None:
        """Register a callback (zxid, session id, process, removed ephemeral paths, reason) for each session end."""
        self.pipeline.on_session_end.append(callback)

    def hook_before(
        self, match: TransactionMatch, action: Callable[[Transaction], object], *, skip: int = 0, times: int = 1
    ) -> TransactionHook:
        """Run an action just before a matching transaction is applied. The action may block the transaction."""
        hook = TransactionHook(match, action, skip, times)
        self.pipeline.before_hooks.append(hook)
        return hook

    def hook_after(
        self, match: TransactionMatch, action: Callable[[Transaction], object], *, skip: int = 0, times: int = 1
    ) -> TransactionHook:
        """Run an action just after a matching transaction was applied, before any client gets a reply."""
        hook = TransactionHook(match, action, skip, times)
        self.pipeline.after_hooks.append(hook)
        return hook

    # Operator actions

    def write(self, path: str, data: bytes, *, by: str = "operator") -> None:
        """Write the bytes unconditionally, creating missing parents."""
        node = self.tree.get(path)
        if node:
            self._apply_operator_transaction([SetData(path, data, node.stat.version)], by)
            return
        parent = parent_path_of(path)
        if self.tree.get(parent) is None:
            self.write(parent, b"")
        self._apply_operator_transaction([Create(path, data)])

    def remove(self, path: str) -> None:
        """Delete a znode and all its descendants."""
        for child in self.tree.children(path):
            self.remove(f"{path.rstrip('/')}/{child}")
        node = self.tree.get(path)
        if node:
            self._apply_operator_transaction([Delete(path, node.stat.version)])

    def _apply_operator_transaction(self, operations: Sequence[Operation], by: str = "operator") -> None:
        self.apply_elapsed_pings()
        self.pipeline.apply_for_operator(operations, by)

    # Interface between the parts

    def apply_elapsed_pings(self) -> None:
        """Apply the effects of all pings and touch reports up to now."""
        now_s = self.loop.now_s
        for connection in self.network.connections():
            connection.apply_elapsed_pings(now_s)
        for server in self.servers:
            server.report_touches(now_s)

    def on_disturbance(self) -> None:
        """React to a changed condition: start silence timers, check sessions, and commit transactions that can continue."""
        for connection in self.network.connections():
            connection.transport.watch_for_silence()
        if self.quorum.leader_runs:
            self.sessions.check_all()
        self.pipeline.flush()

    def submit_session_end(self, session: SimSession, reason: str) -> None:
        if not session.closing:
            session.closing = True
            self.pipeline.submit(Transaction(RequestKind.CLOSE, session.process, session, reason=reason))

    def drop_session_connections(self, session: SimSession) -> None:
        """Close the connections of an ended session on every server that has contact to the leader."""
        for server in self.servers:
            if self.quorum.reaches_leader(server):
                server.drop_ended()

    def accept_client(self, transport: "ClientTransport", server: Server, attempt: int) -> None:
        """Handle a connection attempt: open a new session, or resume the client's session."""
        if not self.quorum.reaches_leader(server):
            return
        if transport.identity is None:
            transaction = Transaction(
                RequestKind.OPEN,
                transport.process.name,
                None,
                on_applied=lambda: self._open_session(transport, server, attempt),
            )
            self.pipeline.submit(transaction)
            return
        if transport.zxid > server.zxid:
            transport.send_handshake_reply(transport.on_refused, attempt)
            return
        session = self.sessions.find(transport.identity)
        if session is None:
            transport.send_handshake_reply(transport.on_expired, attempt)
            return
        for earlier in [c for c in server.connections if c.session is session]:
            earlier.close_by_server()
        session.record_contact(self.loop.now_s)
        self._connect(transport, server, session, attempt)

    def _open_session(self, transport: "ClientTransport", server: Server, attempt: int) -> None:
        session = self.sessions.create(transport.process.name, transport.requested_s)
        self.tree.zxid += 1
        self.record("session", session.identity.id, session.process)
        if self.quorum.reaches_leader(server):
            self._connect(transport, server, session, attempt)

    def _connect(self, transport: "ClientTransport", server: Server, session: SimSession, attempt: int) -> None:
        session.owner = server
        link = self.network.link(transport.process.machine, server.index)
        connection = Connection(self, transport, server, session, link)
        transport.send_handshake_reply(transport.on_accepted, attempt, connection)

    def _record_fault(self, name: str, *details: object) -> None:
        self.record("fault", name, *details)
