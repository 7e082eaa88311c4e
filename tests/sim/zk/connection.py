"""One TCP connection between a client and a server, seen from both ends.

Packets of one direction arrive in the order in which they were sent. A cut link holds them back; when it heals, the kernel
may deliver them late, even if the client has given up on the connection by then, or the connection is dead.
"""

from collections import deque
from typing import TYPE_CHECKING

from tests.sim.zk.pulse import Pulse
from tests.sim.zk.request import READS, Kind, Request, Transaction

if TYPE_CHECKING:
    from tests.sim.zk.ensemble import Ensemble
    from tests.sim.zk.network import Link
    from tests.sim.zk.server import Server
    from tests.sim.zk.sessions import Session
    from tests.sim.zk.wire import Wire

Replies = list[tuple[Request, object]]

LATE_WATCH = 0.02
LATE_WATCH_S_MAX = 0.05


class Connection:
    __slots__ = (
        "_down_s",
        "_ensemble",
        "_loop",
        "_order",
        "_packet",
        "_packet_s",
        "_reset",
        "_stuck_down",
        "_stuck_up",
        "_up_s",
        "client_open",
        "link",
        "pulse",
        "server",
        "server_open",
        "session",
        "wire",
    )

    def __init__(self, ensemble: "Ensemble", wire: "Wire", server: "Server", session: "Session", link: "Link") -> None:
        now_s = ensemble.loop.time()
        self._ensemble = ensemble
        self._loop = ensemble.loop
        self.wire = wire
        self.server = server
        self.session = session
        self.link = link
        self.client_open = False
        """Not before the server's welcome has arrived."""
        self.server_open = True
        self.pulse = Pulse(session.timeout_s)
        self._up_s = self._down_s = now_s
        self._reset = False
        self._packet: list[Request] = []
        self._packet_s = -1.0
        self._order: deque[Request] = deque()
        self._stuck_up: list[list[Request]] = []
        self._stuck_down: list[tuple[Replies, int, str] | None] = []
        """Packets that a cut holds back; None stands for the end of the connection."""
        server.connections[self] = None
        ensemble.network.opened(self)

    # From the client to the server

    def open_by_client(self) -> None:
        self.client_open = True
        self.pulse.start(self._loop.time(), jitter=self._ensemble.random.uniform(0.9, 1.0))

    def send(self, request: Request) -> None:
        """Requests made at the same moment travel together."""
        now_s = self._loop.time()
        if self._packet_s == now_s:
            self._packet.append(request)
            return
        self._packet, self._packet_s = [request], now_s
        self._up_s = max(self._up_s, now_s + self._ensemble.network.hop_s())
        self._loop.at(self._up_s, self._at_server, self._packet)

    def _at_server(self, packet: list[Request]) -> None:
        if not self.server_open:
            return
        if self.link.requests_cut or self._stuck_up:
            self._stuck_up.append(packet)
        elif self.server.paused:
            self.server.deferred.append((self._at_server, (packet,)))
        else:
            self._receive(packet)

    def _receive(self, packet: list[Request]) -> None:
        now_s = self._loop.time()
        if now_s >= self.pulse.next_ping_s:
            self.settle(now_s)
        self.server.touch(self.session, now_s)
        for request in packet:
            if not self.server_open:
                return
            self._order.append(request)
            if request.kind not in READS:
                self._forward(request)
        self._answer()

    def _forward(self, request: Request) -> None:
        """To the leader, through the server's own connection to it, if that stands."""
        server = self.server
        if not self._ensemble.quorum.connected(server):
            server.unsent.append((self._at_leader, (request,)))
            return
        # The hop to the leader and its round of votes.
        self._up_s = max(self._up_s, self._loop.time() + 2 * self._ensemble.network.hop_s())
        self._loop.at(self._up_s, self._at_leader, request)

    def _at_leader(self, request: Request) -> None:
        quorum, session = self._ensemble.quorum, self.session
        if quorum.leader is None:
            return
        if not quorum.connected(self.server) and (not quorum.commits or self._ensemble.random.random() < 0.5):
            # It was still on its way out of the server when that was stopped. Else it is with the leader already.
            if self.server.alive and self.server.serving:
                self.server.unsent.append((self._at_leader, (request,)))
            return
        if session.closing or session.owner is not self.server:
            self.close_by_server()
            return
        if request.kind is Kind.CLOSE:
            session.closing = True
        reason = "its client closed it"
        self._ensemble.pipeline.submit(
            Transaction(request.kind, session.process, session, connection=self, request=request, reason=reason)
        )

    # From the server to the client

    def server_finished(self, request: Request, result: object) -> None:
        """What the leader decided reaches the server, unless it is out of contact; then it does so when it is back."""
        if not self._ensemble.quorum.connected(self.server):
            if self.server.alive and self.server.serving:
                self.server.unsent.append((self.server_finished, (request, result)))
            return
        request.answered, request.result = True, result
        self.server.catch_up()
        self._answer()

    def _answer(self) -> None:
        """In the order of the requests: a read behind a write waits for it, so a client reads its own writes."""
        order = self._order
        replies: Replies = []
        while order and self.server_open:
            request = order[0]
            if request.answered:
                replies.append((request, request.result))
            elif request.kind in READS:
                replies.append((request, self.server.read(self, request)))
            else:
                break
            order.popleft()
        if replies and self.server_open:
            self._down_s = max(self._down_s, self._loop.time() + self._ensemble.network.hop_s() + self.link.reply_delay_s)
            self._loop.at(self._down_s, self._at_client, (replies, self.server.zxid, ""))

    def fire_watch(self, path: str) -> None:
        """Usually in order with the replies, sometimes after a reply that already shows the change."""
        at_s = max(self._down_s, self._loop.time() + self._ensemble.network.hop_s() + self.link.reply_delay_s)
        if self._ensemble.random.random() < LATE_WATCH:
            self._loop.at(at_s + self._ensemble.random.random() * LATE_WATCH_S_MAX, self._at_client, ([], 0, path))
            return
        self._down_s = at_s
        self._loop.at(at_s, self._at_client, ([], 0, path))

    def _at_client(self, packet: tuple[Replies, int, str] | None) -> None:
        if not self.client_open or (packet and self._reset):
            return
        if self.link.replies_cut or self._stuck_down:
            self._stuck_down.append(packet)
        elif packet is None:
            self.wire.hear(self.wire.dropped, self, "the server closed the connection")
        else:
            self.wire.hear(self.wire.received, self, *packet)

    # The end

    def close_by_server(self, *, abruptly: bool = False) -> None:
        """When a server stops abruptly, what it had sent may be lost as well."""
        if not self.server_open:
            return
        self._reset = abruptly and self._ensemble.random.random() < 0.5
        self._leave_server()
        self._down_s = max(self._down_s, self._loop.time() + self._ensemble.network.hop_s())
        self._loop.at(self._down_s, self._at_client, None)

    def close_by_client(self) -> None:
        """What was sent before still arrives, and if the link is cut the server does not learn of the end."""
        self.settle(self._loop.time())
        self.client_open = False
        if not self.server_open:
            self._ensemble.network.closed(self)
            return
        self._loop.at(max(self._up_s, self._loop.time() + self._ensemble.network.hop_s()), self._end_at_server)

    def _end_at_server(self) -> None:
        if not self.server_open or self.link.requests_cut:
            return
        if self.server.paused:
            self.server.deferred.append((self._end_at_server, ()))
        else:
            self._leave_server()

    def _leave_server(self) -> None:
        self.server_open = False
        self.server.forget(self)
        if not self.client_open:
            self._ensemble.network.closed(self)

    def link_healed(self) -> None:
        """The kernel sends again what was stuck; or gives up, which ends the connection."""
        now_s = self._loop.time()
        at_s = now_s + self._ensemble.random.uniform(0.02, 0.5)
        self.pulse.ping_at(at_s)
        if self._stuck_up and self._ensemble.random.random() < 0.3:
            self.close_by_server()
        self._loop.at(at_s, self._flush)

    def _flush(self) -> None:
        up, self._stuck_up = self._stuck_up, []
        down, self._stuck_down = self._stuck_down, []
        for packet in up:
            self._at_server(packet)
        for reply in down:
            self._at_client(reply)
        if not self.client_open:
            self._end_at_server()

    # Pings

    @property
    def undisturbed(self) -> bool:
        link = self.link
        cut = link.requests_cut or link.replies_cut or link.reply_delay_s
        return self.server_open and self.server.running and not cut

    def settle(self, now_s: float) -> None:
        if self.client_open and not self.wire.asleep:
            self.pulse.settle(self, now_s)
