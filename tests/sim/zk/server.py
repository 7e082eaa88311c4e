"""One member of the ensemble: its clients, their watches, and how far it has applied what was committed."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.zk.session.client import Found, NoNode, Read
from tests.sim.zk.request import Kind, Request
from tests.sim.zk.tree import Change, Node

if TYPE_CHECKING:
    from tests.sim.zk.connection import Connection
    from tests.sim.zk.ensemble import Ensemble
    from tests.sim.zk.sessions import Session

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
        "out_since_s",
        "paused",
        "reign",
        "serving",
        "unsent",
    )

    def __init__(self, ensemble: "Ensemble", index: int, tick_s: float) -> None:
        self._ensemble = ensemble
        self.index = index
        self.alive = True
        self.paused = False
        self.cut_off = False
        """Whether it is cut off from its peers; its clients still reach it."""
        self.serving = True
        """Whether it believes to follow a leader, or to be one."""
        self.reign = 0
        """The leader's reign that it last took part in."""
        self.out_since_s = 0.0
        self.contact_since_s = 0.0
        self.connections: dict[Connection, None] = {}
        self.deferred: list[tuple[Callable[..., object], tuple[object, ...]]] = []
        """What arrived while it was paused."""
        self.unsent: list[tuple[Callable[..., object], tuple[object, ...]]] = []
        """What it would exchange with the leader, if it could."""
        self._pending: deque[tuple[float, Change]] = deque()
        self._data_watches: Watches = {}
        self._children_watches: Watches = {}
        self._touches: dict[Session, float] = {}
        self._half_tick_s = tick_s / 2
        self._report_phase_s = ensemble.random.random() * self._half_tick_s

    @property
    def in_contact(self) -> bool:
        """Whether it can take part in the ensemble at this moment."""
        return self.alive and not self.paused and not self.cut_off

    @property
    def running(self) -> bool:
        return self.alive and not self.paused

    # Touches

    def touch(self, session: "Session", at_s: float) -> None:
        if self._ensemble.quorum.leader is self:
            session.heard(at_s)
            return
        earlier_s = self._touches.get(session)
        if earlier_s is not None and self._ensemble.quorum.connected(self):
            report_s = self._report_after(earlier_s)
            if report_s <= at_s:
                session.heard(report_s)
        self._touches[session] = at_s

    def report_touches(self, now_s: float) -> None:
        """Tell the leader what was due to be told by now. The rest stays, to be told later or lost."""
        if not self._ensemble.quorum.connected(self):
            return
        for session, at_s in list(self._touches.items()):
            report_s = self._report_after(at_s)
            if report_s <= now_s:
                session.heard(report_s)
                del self._touches[session]

    def _report_after(self, touched_s: float) -> float:
        touched_s = max(touched_s, self.contact_since_s)
        half, phase = self._half_tick_s, self._report_phase_s
        return phase + math.ceil((touched_s - phase) / half) * half

    # Applying what was committed

    @property
    def zxid(self) -> int:
        """The last transaction that it has applied."""
        return self._pending[0][1].zxid - 1 if self._pending else self._ensemble.tree.zxid

    def committed(self, change: Change, apply_s: float) -> None:
        """Apply it then, or much later if the server is out of contact."""
        if self._pending:
            last_s = self._pending[-1][0]
            apply_s = max(apply_s, last_s)
        self._pending.append((apply_s, change))
        if math.isfinite(apply_s) and self._watched(change):
            self._ensemble.loop.at(apply_s, self.advance)

    def advance(self) -> None:
        now_s = self._ensemble.loop.time()
        pending = self._pending
        while pending and pending[0][0] <= now_s:
            _, change = pending.popleft()
            self._fire(change)

    def catch_up(self) -> None:
        while self._pending:
            _, change = self._pending.popleft()
            self._fire(change)

    def node(self, path: str) -> Node | None:
        """As this server sees it: before the first change that it has not applied yet."""
        for _, change in self._pending:
            if path in change.before:
                return change.before[path]
        return self._ensemble.tree.nodes.get(path)

    def read(self, connection: "Connection", request: Request) -> object:
        """The result of a read, or its error, as a value."""
        if self._pending and not self._ensemble.loop.time() < self._pending[0][0]:
            self.advance()
        if request.kind is Kind.READ:
            return self._read_many(connection, request.reads)
        if request.kind is Kind.WATCH:
            return self._watch_many(connection, request.reads, request.seen_zxid)
        path, kind = request.path, request.kind
        node = self._look(connection, path)
        if node is None and kind is not Kind.EXISTS:
            return NoNode(f"{path} is not there")
        if request.watch:
            self._watch(connection, path, children=kind is Kind.CHILDREN)
        if node is None:
            return None
        if kind is Kind.GET:
            return node.znode
        return node.znode.stat if kind is Kind.EXISTS else list(node.children)

    def _look(self, connection: "Connection", path: str) -> Node | None:
        if self._ensemble.on_read is not None:
            self._ensemble.on_read(connection.session.process, path)
        return self.node(path) if self._pending else self._ensemble.tree.nodes.get(path)

    def _read_many(self, connection: "Connection", reads: Sequence[Read]) -> tuple[list[Found], int]:
        found: list[Found] = []
        zxid = self.zxid
        for read in reads:
            node = self._look(connection, read.path)
            found.append(None if node is None else list(node.children) if read.children else node.znode)
        return found, zxid

    # Watches

    def _watch(self, connection: "Connection", path: str, *, children: bool) -> None:
        watches = self._children_watches if children else self._data_watches
        watches.setdefault(path, {})[connection] = None
        if self._pending and math.isfinite(self._pending[-1][0]):
            self._ensemble.loop.at(self._pending[-1][0], self.advance)

    def _watch_many(self, connection: "Connection", reads: Sequence[Read], seen_zxid: int) -> None:
        """What has changed since then fires at once, and is not watched."""
        for read in reads:
            node = self.node(read.path)
            if node is None or (node.children_zxid if read.children else node.data_zxid) > seen_zxid:
                connection.fire_watch(read.path)
            else:
                self._watch(connection, read.path, children=read.children)

    def _watched(self, change: Change) -> bool:
        if not self._data_watches and not self._children_watches:
            return False
        return any(path in self._data_watches for path in change.changed) or any(
            path in self._children_watches for path in change.family_changed
        )

    def _fire(self, change: Change) -> None:
        if self._data_watches:
            for path in change.changed:
                for connection in self._data_watches.pop(path, ()):
                    connection.fire_watch(path)
        if self._children_watches:
            for path in change.family_changed:
                for connection in self._children_watches.pop(path, ()):
                    connection.fire_watch(path)

    @property
    def watches(self) -> int:
        return sum(map(len, self._data_watches.values())) + sum(map(len, self._children_watches.values()))

    # Connections

    def forget(self, connection: "Connection") -> None:
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
            if connection.session.over:
                connection.close_by_server()

    def leave_service(self) -> None:
        """It no longer follows a leader. What it has not told one is lost."""
        self.serving = False
        self.reign = -1
        self.drop_clients()
        self.unsent.clear()
        self._touches.clear()
        self._pending.clear()

    def freeze(self) -> None:
        """Out of contact: nothing more of what was committed reaches it from now on."""
        self.advance()
        self._pending = deque((math.inf, change) for _, change in self._pending)

    def rejoin(self, delay_s: float) -> None:
        """In contact again before anyone gave up: what was missed arrives now, late."""
        at_s = self._ensemble.loop.time() + delay_s
        self._pending = deque((at_s, change) for _, change in self._pending)
        self._ensemble.loop.at(at_s, self.advance)
        self._ensemble.loop.at(at_s, self.drop_ended)
        unsent, self.unsent = self.unsent, []
        for callback, args in unsent:
            self._ensemble.loop.at(at_s, callback, *args)
