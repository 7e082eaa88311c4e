"""Leader election of the ensemble, and the effects of server faults.

A server without contact keeps serving its last known state for `sync_limit` ticks, then drops its clients. A leader without a
majority commits nothing. After the same time it gives up, and an election follows as soon as a majority is in contact.
"""

from typing import TYPE_CHECKING

from tests.sim.zk.server import Server

if TYPE_CHECKING:
    from tests.sim.zk.ensemble import Ensemble

ELECTION_S = (0.2, 2.0)
RESYNC_S = (0.05, 0.5)


class Quorum:
    def __init__(self, ensemble: "Ensemble", servers: list[Server], limit_s: float) -> None:
        self._ensemble = ensemble
        self._loop = ensemble.loop
        self._random = ensemble.random
        self.servers = servers
        self.leader: Server | None = servers[int(self._random.random() * len(servers))]
        self.limit_s = limit_s
        """Seconds that a server without contact keeps serving."""
        self.can_commit = True
        """True while a majority follows a leader."""
        self._last_leader = self.leader
        self._term = 0
        self._term_end_token = 0
        self._election_token = 0
        self._tokens = 0

    # Current state

    @property
    def majority(self) -> int:
        return len(self.servers) // 2 + 1

    @property
    def members(self) -> list[Server]:
        return [server for server in self.servers if server.in_contact]

    @property
    def leader_runs(self) -> bool:
        return self.leader is not None and self.leader.running

    def reaches_leader(self, server: Server) -> bool:
        """Return True if the server and the leader can communicate."""
        leader = self.leader
        if leader is None or server.term != self._term or not server.serving:
            return False
        return server is leader or (server.in_contact and leader.in_contact)

    # Faults

    def kill(self, index: int) -> None:
        """Kill a server. Its clients and peers notice immediately."""
        server = self.servers[index]
        if not server.alive:
            return
        with _FaultScope(self):
            server.alive = server.paused = False
            server.deferred.clear()
            server.leave_service()

    def restart(self, index: int) -> None:
        server = self.servers[index]
        if server.alive:
            return
        with _FaultScope(self):
            server.alive = True
            self._schedule_resync(server)

    def pause(self, index: int) -> None:
        """Pause a server. Its connections stay open, but it answers nothing."""
        server = self.servers[index]
        if not server.running:
            return
        with _FaultScope(self):
            self._mark_out_of_contact(server)
            server.paused = True

    def resume(self, index: int) -> None:
        server = self.servers[index]
        if not server.alive or not server.paused:
            return
        with _FaultScope(self):
            server.paused = False
            self._mark_in_contact(server)
            for connection in server.connections:
                connection.pings.ping_at(self._loop.now_s)
        deferred, server.deferred = server.deferred, []
        for callback, args in deferred:
            callback(*args)

    def resume_all(self) -> None:
        """Continue all servers at the same moment, before any of them notices that time has passed.

        The leader expires every session that was silent for longer than its timeout. The clients' requests come later.
        """
        with _FaultScope(self):
            for server in self.servers:
                server.out_of_contact_since_s = self._loop.now_s
                server.paused = False
            for server in self.servers:
                self._mark_in_contact(server)
                for connection in server.connections:
                    connection.pings.ping_at(self._loop.now_s)
            self.reassess()
            self._ensemble.sessions.expire_overdue()
        for server in self.servers:
            deferred, server.deferred = server.deferred, []
            for callback, args in deferred:
                callback(*args)

    def cut(self, index: int) -> None:
        """Cut a server off from its peers. Its clients keep reading its last known state."""
        server = self.servers[index]
        if server.cut_off or not server.alive:
            return
        with _FaultScope(self):
            self._mark_out_of_contact(server)
            server.cut_off = True
        # A deposed leader notices later than its followers, so two servers believe to lead for a moment.
        give_up_s = self._loop.now_s + self.limit_s * (1 + 0.1 * self._random.random())
        self._loop.schedule_at(give_up_s, self._stop_serving_if_overdue, server)

    def heal(self, index: int) -> None:
        server = self.servers[index]
        if not server.cut_off:
            return
        with _FaultScope(self):
            server.cut_off = False
            self._mark_in_contact(server)

    def change_leader(self) -> None:
        """End the leader's term: all connections drop, and no server serves clients until the election is over."""
        if self.leader is None:
            return
        with _FaultScope(self):
            self._end_term()

    # Effects

    def reassess(self) -> None:
        """Re-evaluate leadership after a change: commits may stop, a term may end, or an election may start."""
        leader = self.leader
        if not any(server.running for server in self.servers) and any(server.paused for server in self.servers):
            self.can_commit, self._term_end_token = False, 0
            return  # no server notices anything until one continues
        following = sum(server.in_contact and server.term == self._term for server in self.servers)
        self.can_commit = leader is not None and leader.in_contact and following >= self.majority
        if leader is not None:
            if self.can_commit:
                self._term_end_token = 0
                return
            alive = sum(server.alive for server in self.servers)
            if not leader.alive or alive < self.majority:
                self._end_term()
            elif not self._term_end_token:
                self._term_end_token = self._new_token()
                notice_s = self.limit_s * self._random.uniform(0.8, 1.0)
                self._loop.schedule_at(self._loop.now_s + notice_s, self._end_term_if_due, self._term_end_token)
        if self.leader is None and not self._election_token and len(self.members) >= self.majority:
            self._election_token = self._new_token()
            self._loop.schedule_at(
                self._loop.now_s + self._random.uniform(*ELECTION_S), self._finish_election, self._election_token
            )

    def _end_term_if_due(self, token: int) -> None:
        if token == self._term_end_token:
            with _FaultScope(self):
                self._end_term()

    def _end_term(self) -> None:
        """End the leader's term. Servers in contact stop serving; a server that is cut off has not noticed yet."""
        self._term_end_token = 0
        self.leader = None
        self.can_commit = False
        self._ensemble.record("leader lost", self._term)
        for server in self.members:
            server.leave_service()
        self._ensemble.pipeline.discard_uncommitted()

    def _finish_election(self, token: int) -> None:
        if token != self._election_token:
            return
        self._election_token = 0
        members = self.members
        if len(members) < self.majority:
            return
        with _FaultScope(self):
            self._term += 1
            others = [server for server in members if server is not self._last_leader] or members
            self.leader = self._last_leader = others[int(self._random.random() * len(others))]
            for server in members:
                server.term = self._term
                server.serving = True
            self._ensemble.tree.zxid = (self._ensemble.tree.zxid >> 32) + 1 << 32
            self._ensemble.sessions.renew_all()
            self._ensemble.record("leader", self.leader.index)

    def _mark_out_of_contact(self, server: Server) -> None:
        if server.in_contact:
            server.out_of_contact_since_s = self._loop.now_s
        server.freeze()

    def _mark_in_contact(self, server: Server) -> None:
        in_time = self._loop.now_s - server.out_of_contact_since_s < self.limit_s
        if not server.in_contact:
            if server.running and server.serving and not in_time:
                server.leave_service()
            return
        if server.serving and server.term == self._term and self.leader is not None and in_time:
            delay_s = self._random.uniform(0.01, 0.1)
            # If the leader was out of contact, its followers have buffered messages for it and missed its changes.
            for rejoining in self.servers if server is self.leader else (server,):
                if rejoining.serving:
                    rejoining.rejoin(delay_s)
            return
        if server.serving:
            server.leave_service()
        self._schedule_resync(server)

    def _stop_serving_if_overdue(self, server: Server) -> None:
        overdue = self._loop.now_s - server.out_of_contact_since_s >= self.limit_s
        if server.cut_off and overdue and server.serving and server.running:
            with _FaultScope(self):
                server.leave_service()

    def _schedule_resync(self, server: Server) -> None:
        self._loop.schedule_at(self._loop.now_s + self._random.uniform(*RESYNC_S), self._finish_resync, server)

    def _finish_resync(self, server: Server) -> None:
        leader = self.leader
        if leader is None or server.serving or not server.in_contact:
            return
        if not leader.in_contact:
            self._schedule_resync(server)
            return
        with _FaultScope(self):
            server.serving = True
            server.term = self._term

    def _new_token(self) -> int:
        self._tokens += 1
        return self._tokens


class _FaultScope:
    """Scope of a fault: applies elapsed pings on entry, and re-evaluates leadership on exit."""

    __slots__ = ("_quorum",)

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    def __enter__(self) -> None:
        self._quorum._ensemble.apply_elapsed_pings()

    def __exit__(self, *_: object) -> None:
        quorum = self._quorum
        for server in quorum.servers:
            server.contact_since_s = quorum._loop.now_s
        quorum.reassess()
        quorum._ensemble.on_disturbance()
