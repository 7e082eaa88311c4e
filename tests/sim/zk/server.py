"""One member of the ensemble: its clients, their watches, and its replication lag."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.zk.session.client import NoNode, Read, ReadResult
from tests.sim.zk.requests import Request, RequestKind
from tests.sim.zk.znode_tree import Change, SimZnode

if TYPE_CHECKING:
    from tests.sim.zk.connection import Connection
    from tests.sim.zk.ensemble import Ensemble
    from tests.sim.zk.session_tracker import SimSession

Watches = dict[str, dict["Connection", None]]


class Server:
    __slots__ = (
        "_children_watches",
        "_data_watches",
        "_ensemble",
        "_half_tick_s",
        "_pending",
        "_report_phase_s",
        "_touches",
        "alive",
        "connections",
        "contact_since_s",
        "cut_off",
        "deferred",
        "index",
        "out_of_contact_since_s",
        "paused",
        "serving",
        "term",
        "unsent",
    )

    def __init__(self, ensemble: "Ensemble", index: int, tick_s: float) -> None:
        self._ensemble = ensemble
        self.index = index
        self.alive = True
        self.paused = False
        self.cut_off = False
        """True if the server is cut off from its peers. Clients still reach it."""
        self.serving = True
        """True while the server believes that it leads or follows a leader."""
        self.term = 0
        """Leader's term in which the server last took part."""
        self.out_of_contact_since_s = 0.0
        self.contact_since_s = 0.0
        self.connections: dict[Connection, None] = {}
        self.deferred: list[tuple[Callable[..., object], tuple[object, ...]]] = []
        """Calls that arrived while the server was paused."""
        self.unsent: list[tuple[Callable[..., object], tuple[object, ...]]] = []
        """Messages to and from the leader, buffered while there is no contact."""
        self._pending: deque[tuple[float, Change]] = deque()
        self._data_watches: Watches = {}
        self._children_watches: Watches = {}
        self._touches: dict[SimSession, float] = {}
        self._half_tick_s = tick_s / 2
        self._report_phase_s = ensemble.random.random() * self._half_tick_s

    @property
    def in_contact(self) -> bool:
        """True if the server can communicate with its peers."""
        return self.alive and not self.paused and not self.cut_off

    @property
    def running(self) -> bool:
        return self.alive and not self.paused

    # Touches

    def touch(self, session: "SimSession", at_s: float) -> None:
        if self._ensemble.quorum.leader is self:
            session.record_contact(at_s)
            return
        earlier_s = self._touches.get(session)
        if earlier_s is not None and self._ensemble.quorum.reaches_leader(self):
            report_s = self._next_report_s(earlier_s)
            if report_s <= at_s:
                session.record_contact(report_s)
        self._touches[session] = at_s

    def report_touches(self, now_s: float) -> None:
        """Report the touches that are due by now to the leader. Later touches stay; a crash of the server loses them."""
        if not self._ensemble.quorum.reaches_leader(self):
            return
        for session, at_s in list(self._touches.items()):
            report_s = self._next_report_s(at_s)
            if report_s <= now_s:
                session.record_contact(report_s)
                del self._touches[session]

    def _next_report_s(self, touched_s: float) -> float:
        touched_s = max(touched_s, self.contact_since_s)
        half, phase = self._half_tick_s, self._report_phase_s
        return phase + math.ceil((touched_s - phase) / half) * half

    # Replication

    @property
    def zxid(self) -> int:
        """Zxid of the last applied transaction."""
        return self._pending[0][1].zxid - 1 if self._pending else self._ensemble.tree.zxid

    def receive_change(self, change: Change, apply_s: float) -> None:
        """Receive a committed change and apply it at `apply_s`, or later if the server has no contact."""
        if self._pending:
            last_s = self._pending[-1][0]
            apply_s = max(apply_s, last_s)
        self._pending.append((apply_s, change))
        if math.isfinite(apply_s) and self._has_watch_for(change):
            self._ensemble.loop.schedule_at(apply_s, self.advance)

    def advance(self) -> None:
        """Apply the changes that are due by now."""
        now_s = self._ensemble.loop.now_s
        pending = self._pending
        while pending and pending[0][0] <= now_s:
            _, change = pending.popleft()
            self._fire(change)

    def catch_up(self) -> None:
        """Apply all pending changes immediately."""
        while self._pending:
            _, change = self._pending.popleft()
            self._fire(change)

    def node(self, path: str) -> SimZnode | None:
        """Return the znode as this server sees it, that is, before the first change that it has not applied."""
        for _, change in self._pending:
            if path in change.before:
                return change.before[path]
        return self._ensemble.tree.nodes.get(path)

    def read(self, connection: "Connection", request: Request) -> object:
        """Return the result of a read, or its error as a value."""
        if self._pending and not self._ensemble.loop.now_s < self._pending[0][0]:
            self.advance()
        kind = request.kind
        if kind is RequestKind.READ:
            return self._read_many(connection, request.reads)
        if kind is RequestKind.WATCH:
            self._watch_many(connection, request.reads, request.seen_zxid)
            return None
        path = request.path
        node = self._read_node(connection, path)
        if node is None and kind is not RequestKind.EXISTS:
            return NoNode(f"{path} does not exist")
        if request.watch:
            self._watch(connection, path, children=kind is RequestKind.CHILDREN)
        if node is None:
            return None
        if kind is RequestKind.GET:
            return node.znode
        return node.znode.stat if kind is RequestKind.EXISTS else list(node.children)

    def _read_node(self, connection: "Connection", path: str) -> SimZnode | None:
        if self._ensemble.on_read is not None:
            self._ensemble.on_read(connection.session.process, path)
        return self.node(path) if self._pending else self._ensemble.tree.nodes.get(path)

    def _read_many(self, connection: "Connection", reads: Sequence[Read]) -> tuple[list[ReadResult], int]:
        results: list[ReadResult] = []
        zxid = self.zxid
        for read in reads:
            node = self._read_node(connection, read.path)
            results.append(None if node is None else list(node.children) if read.children else node.znode)
        return results, zxid

    # Watches

    def _watch(self, connection: "Connection", path: str, *, children: bool) -> None:
        watches = self._children_watches if children else self._data_watches
        watches.setdefault(path, {})[connection] = None
        if self._pending and math.isfinite(self._pending[-1][0]):
            self._ensemble.loop.schedule_at(self._pending[-1][0], self.advance)

    def _watch_many(self, connection: "Connection", reads: Sequence[Read], seen_zxid: int) -> None:
        """Watch the znodes. A watch on a znode that has changed since `seen_zxid` fires at once instead."""
        for read in reads:
            node = self.node(read.path)
            if node is None or (node.children_zxid if read.children else node.data_zxid) > seen_zxid:
                connection.fire_watch(read.path)
            else:
                self._watch(connection, read.path, children=read.children)

    def _has_watch_for(self, change: Change) -> bool:
        if not self._data_watches and not self._children_watches:
            return False
        return any(path in self._data_watches for path in change.changed) or any(
            path in self._children_watches for path in change.children_changed
        )

    def _fire(self, change: Change) -> None:
        if self._data_watches:
            for path in change.changed:
                for connection in self._data_watches.pop(path, ()):
                    connection.fire_watch(path)
        if self._children_watches:
            for path in change.children_changed:
                for connection in self._children_watches.pop(path, ()):
                    connection.fire_watch(path)

    @property
    def watches(self) -> int:
        return sum(map(len, self._data_watches.values())) + sum(map(len, self._children_watches.values()))

    # Connections

    def remove_connection(self, connection: "Connection") -> None:
        self.connections.pop(connection, None)
        for watches in (self._data_watches, self._children_watches):
            for path in [path for path, watchers in watches.items() if connection in watchers]:
                del watches[path][connection]
                if not watches[path]:
                    del watches[path]

    def drop_clients(self) -> None:
        for connection in list(self.connections):
            connection.close_by_server(abruptly=True)

    def drop_ended(self) -> None:
        for connection in list(self.connections):
            if connection.session.ended:
                connection.close_by_server()

    def leave_service(self) -> None:
        """Stop serving because there is no leader to follow. Unreported touches and buffered messages are lost."""
        self.serving = False
        self.term = -1
        self.drop_clients()
        self.unsent.clear()
        self._touches.clear()
        self._pending.clear()

    def freeze(self) -> None:
        """Stop applying committed changes, because the server has no contact to the leader."""
        self.advance()
        self._pending = deque((math.inf, change) for _, change in self._pending)

    def rejoin(self, delay_s: float) -> None:
        """Resume contact within the time limit. Missed changes and buffered messages arrive after `delay_s`."""
        at_s = self._ensemble.loop.now_s + delay_s
        self._pending = deque((at_s, change) for _, change in self._pending)
        self._ensemble.loop.schedule_at(at_s, self.advance)
        self._ensemble.loop.schedule_at(at_s, self.drop_ended)
        unsent, self.unsent = self.unsent, []
        for callback, args in unsent:
            self._ensemble.loop.schedule_at(at_s, callback, *args)
