"""Who leads the ensemble, and what happens when servers die, stop or lose each other.

A server out of contact goes on serving what it knows for `sync_limit` ticks, then drops its clients. A leader without a
majority commits nothing; after the same time it gives up, and an election follows as soon as a majority is in contact.
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
        """How long a server that lost contact goes on before it gives up."""
        self.commits = True
        """Whether there is a leader that a majority follows."""
        self._last_leader = self.leader
        self._reign = 0
        self._collapsing = 0
        self._electing = 0
        self._tokens = 0

    # What holds now

    @property
    def majority(self) -> int:
        return len(self.servers) // 2 + 1

    @property
    def members(self) -> list[Server]:
        return [server for server in self.servers if server.in_contact]

    @property
    def leader_runs(self) -> bool:
        return self.leader is not None and self.leader.running

    def connected(self, server: Server) -> bool:
        """Whether the server and the leader hear each other."""
        leader = self.leader
        if leader is None or server.reign != self._reign or not server.serving:
            return False
        return server is leader or (server.in_contact and leader.in_contact)

    # Faults

    def kill(self, index: int) -> None:
        """Its clients and its peers notice at once."""
        server = self.servers[index]
        if not server.alive:
            return
        with _Fault(self):
            server.alive = server.paused = False
            server.deferred.clear()
            server.leave_service()

    def restart(self, index: int) -> None:
        server = self.servers[index]
        if server.alive:
            return
        with _Fault(self):
            server.alive = True
            self._resync(server)

    def pause(self, index: int) -> None:
        """Nobody is told: connections stay open, and nothing answers."""
        server = self.servers[index]
        if not server.running:
            return
        with _Fault(self):
            self._out_of_contact(server)
            server.paused = True

    def resume(self, index: int) -> None:
        server = self.servers[index]
        if not server.alive or not server.paused:
            return
        with _Fault(self):
            server.paused = False
            self._back_in_contact(server)
            for connection in server.connections:
                connection.pulse.ping_at(self._loop.time())
        deferred, server.deferred = server.deferred, []
        for callback, args in deferred:
            callback(*args)

    def cut(self, index: int) -> None:
        """From its peers only. Its clients go on reading what it knew."""
        server = self.servers[index]
        if server.cut_off or not server.alive:
            return
        with _Fault(self):
            self._out_of_contact(server)
            server.cut_off = True
        # A deposed leader notices a little later than its followers, and then there are two for a moment.
        give_up_s = self._loop.time() + self.limit_s * (1 + 0.1 * self._random.random())
        self._loop.at(give_up_s, self._give_up, server)

    def heal(self, index: int) -> None:
        server = self.servers[index]
        if not server.cut_off:
            return
        with _Fault(self):
            server.cut_off = False
            self._back_in_contact(server)

    def change_leader(self) -> None:
        """All connections drop, and nobody is served until the election is over."""
        if self.leader is None:
            return
        with _Fault(self):
            self._collapse()

    # Consequences

    def reassess(self) -> None:
        """After anything changed: is there a leader with a majority, and if not, what comes next?"""
        leader = self.leader
        following = sum(server.in_contact and server.reign == self._reign for server in self.servers)
        self.commits = leader is not None and leader.in_contact and following >= self.majority
        if leader is not None:
            if self.commits:
                self._collapsing = 0
                return
            alive = sum(server.alive for server in self.servers)
            if not leader.alive or alive < self.majority:
                self._collapse()
            elif not self._collapsing:
                self._collapsing = self._token()
                notice_s = self.limit_s * self._random.uniform(0.8, 1.0)
                self._loop.at(self._loop.time() + notice_s, self._collapse_due, self._collapsing)
        if self.leader is None and not self._electing and len(self.members) >= self.majority:
            self._electing = self._token()
            self._loop.at(self._loop.time() + self._random.uniform(*ELECTION_S), self._elected, self._electing)

    def _collapse_due(self, token: int) -> None:
        if token == self._collapsing:
            with _Fault(self):
                self._collapse()

    def _collapse(self) -> None:
        """The reign is over. Those in contact stop serving; a server cut off does not know yet."""
        self._collapsing = 0
        self.leader = None
        self.commits = False
        self._ensemble.record("leader lost", self._reign)
        for server in self.members:
            server.leave_service()
        self._ensemble.pipeline.leader_lost()

    def _elected(self, token: int) -> None:
        if token != self._electing:
            return
        self._electing = 0
        members = self.members
        if len(members) < self.majority:
            return
        with _Fault(self):
            self._reign += 1
            others = [server for server in members if server is not self._last_leader] or members
            self.leader = self._last_leader = others[int(self._random.random() * len(others))]
            for server in members:
                server.reign = self._reign
                server.serving = True
            self._ensemble.tree.zxid = (self._ensemble.tree.zxid >> 32) + 1 << 32
            self._ensemble.sessions.renew_all()
            self._ensemble.record("leader", self.leader.index)

    def _out_of_contact(self, server: Server) -> None:
        if server.in_contact:
            server.out_since_s = self._loop.time()
        server.freeze()

    def _back_in_contact(self, server: Server) -> None:
        in_time = self._loop.time() - server.out_since_s < self.limit_s
        if not server.in_contact:
            if server.running and server.serving and not in_time:
                server.leave_service()
            return
        if server.serving and server.reign == self._reign and self.leader is not None and in_time:
            delay_s = self._random.uniform(0.01, 0.1)
            # If it was the leader that was away, its followers have kept for it what they could not send, and missed as much.
            for rejoining in self.servers if server is self.leader else (server,):
                if rejoining.serving:
                    rejoining.rejoin(delay_s)
            return
        if server.serving:
            server.leave_service()
        self._resync(server)

    def _give_up(self, server: Server) -> None:
        overdue = self._loop.time() - server.out_since_s >= self.limit_s
        if server.cut_off and overdue and server.serving and server.running:
            with _Fault(self):
                server.leave_service()

    def _resync(self, server: Server) -> None:
        self._loop.at(self._loop.time() + self._random.uniform(*RESYNC_S), self._resynced, server)

    def _resynced(self, server: Server) -> None:
        leader = self.leader
        if leader is None or server.serving or not server.in_contact:
            return
        if not leader.in_contact:
            self._resync(server)
            return
        with _Fault(self):
            server.serving = True
            server.reign = self._reign

    def _token(self) -> int:
        self._tokens += 1
        return self._tokens


class _Fault:
    """Works out what went on undisturbed until now, lets the fault happen, and draws its consequences."""

    __slots__ = ("_quorum",)

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    def __enter__(self) -> None:
        self._quorum._ensemble.settle()

    def __exit__(self, *_: object) -> None:
        quorum = self._quorum
        for server in quorum.servers:
            server.contact_since_s = quorum._loop.time()
        quorum.reassess()
        quorum._ensemble.disturbed()
