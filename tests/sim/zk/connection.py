"""TCP connection between a client and a server, modelled at both ends.

Packets of one direction arrive in the order in which they were sent. A cut link blocks them. When the link heals, the kernel
may deliver them late, even if the client has already abandoned the connection, or the connection is dead.
"""

from collections import deque
from typing import TYPE_CHECKING

from tests.sim.zk.ping_schedule import PingSchedule
from tests.sim.zk.requests import READ_KINDS, Request, RequestKind, Transaction

if TYPE_CHECKING:
    from tests.sim.zk.client_transport import ClientTransport
    from tests.sim.zk.ensemble import Ensemble
    from tests.sim.zk.network import Link
    from tests.sim.zk.server import Server
    from tests.sim.zk.session_tracker import SimSession

Replies = list[tuple[Request, object]]

LATE_WATCH_PROBABILITY = 0.02
LATE_WATCH_DELAY_S_MAX = 0.05


class Connection:
    __slots__ = (
        "_blocked_replies",
        "_blocked_requests",
        "_ensemble",
        "_hop_s",
        "_loop",
        "_open_packet",
        "_open_packet_s",
        "_reply_arrival_s",
        "_request_arrival_s",
        "_reset",
        "_unanswered",
        "client_open",
        "link",
        "pings",
        "server",
        "server_open",
        "session",
        "transport",
    )

    def __init__(
        self, ensemble: "Ensemble", transport: "ClientTransport", server: "Server", session: "SimSession", link: "Link"
    ) -> None:
        now_s = ensemble.loop.now_s
        self._ensemble = ensemble
        self._loop = ensemble.loop
        self._hop_s = ensemble.network.hop_s
        self.transport = transport
        self.server = server
        self.session = session
        self.link = link
        self.client_open = False
        """False until the server's handshake reply has arrived."""
        self.server_open = True
        self.pings = PingSchedule(session.timeout_s)
        self._request_arrival_s = self._reply_arrival_s = now_s
        self._reset = False
        self._open_packet: list[Request] = []
        self._open_packet_s = -1.0
        self._unanswered: deque[Request] = deque()
        self._blocked_requests: list[list[Request]] = []
        self._blocked_replies: list[tuple[Replies, int, str] | None] = []
        """Packets blocked by a cut link; None stands for the end of the connection."""
        server.connections[self] = None
        ensemble.network.add_connection(self)

    # Requests

    def open_by_client(self) -> None:
        self.client_open = True
        self.pings.start(self._loop.now_s, jitter=self._ensemble.random.uniform(0.9, 1.0))

    def send(self, request: Request) -> None:
        """Send a request. Requests made at the same moment travel in one packet."""
        now_s = self._loop.now_s
        if self._open_packet_s == now_s:
            self._open_packet.append(request)
            return
        self._open_packet, self._open_packet_s = [request], now_s
        arrival_s = now_s + self._hop_s()
        if arrival_s > self._request_arrival_s:  # noqa: PLR1730 -- max() takes three times as long
            self._request_arrival_s = arrival_s
        self._loop.schedule_at(self._request_arrival_s, self._deliver_to_server, self._open_packet)

    def _deliver_to_server(self, packet: list[Request]) -> None:
        if not self.server_open:
            return
        if self.link.requests_cut or self._blocked_requests:
            self._blocked_requests.append(packet)
        elif self.server.paused:
            self.server.deferred.append((self._deliver_to_server, (packet,)))
        else:
            self._receive(packet)

    def _receive(self, packet: list[Request]) -> None:
        now_s = self._loop.now_s
        if now_s >= self.pings.next_ping_s:
            self.apply_elapsed_pings(now_s)
        self.server.touch(self.session, now_s)
        unanswered = self._unanswered
        for request in packet:
            if not self.server_open:
                return
            unanswered.append(request)
            if request.kind not in READ_KINDS:
                self._forward(request)
        self._send_ready_replies()

    def _forward(self, request: Request) -> None:
        """Forward a request to the leader, or keep it while the server has no contact to the leader."""
        server = self.server
        if not self._ensemble.quorum.reaches_leader(server):
            server.unsent.append((self._deliver_to_leader, (request,)))
            return
        # One hop to the leader and one for its round of votes.
        self._request_arrival_s = max(self._request_arrival_s, self._loop.now_s + 2 * self._hop_s())
        self._loop.schedule_at(self._request_arrival_s, self._deliver_to_leader, request)

    def _deliver_to_leader(self, request: Request) -> None:
        quorum, session = self._ensemble.quorum, self.session
        if quorum.leader is None:
            return
        if not quorum.reaches_leader(self.server) and (not quorum.can_commit or self._ensemble.random.random() < 0.5):
            # The request had not left the server when contact was lost. In the other case, the leader already has it.
            if self.server.alive and self.server.serving:
                self.server.unsent.append((self._deliver_to_leader, (request,)))
            return
        if session.closing or session.owner is not self.server:
            self.close_by_server()
            return
        if request.kind is RequestKind.CLOSE:
            session.closing = True
        reason = "its client closed it"
        self._ensemble.pipeline.submit(
            Transaction(request.kind, session.process, session, connection=self, request=request, reason=reason)
        )

    # Replies

    def on_request_finished(self, request: Request, result: object) -> None:
        """Answer a request that the leader has finished. A server without contact answers when contact returns."""
        if not self._ensemble.quorum.reaches_leader(self.server):
            if self.server.alive and self.server.serving:
                self.server.unsent.append((self.on_request_finished, (request, result)))
            return
        request.answered, request.result = True, result
        self.server.catch_up()
        self._send_ready_replies()

    def _send_ready_replies(self) -> None:
        """Send replies in the order of the requests. A read waits for an earlier write, so a client reads its own writes."""
        unanswered, server = self._unanswered, self.server
        replies: Replies = []
        while unanswered and self.server_open:
            request = unanswered[0]
            if request.answered:
                replies.append((request, request.result))
            elif request.kind in READ_KINDS:
                replies.append((request, server.read(self, request)))
            else:
                break
            unanswered.popleft()
        if replies and self.server_open:
            arrival_s = self._loop.now_s + self._hop_s() + self.link.reply_delay_s
            if arrival_s > self._reply_arrival_s:  # noqa: PLR1730 -- max() takes three times as long
                self._reply_arrival_s = arrival_s
            self._loop.schedule_at(self._reply_arrival_s, self._deliver_to_client, (replies, server.zxid, ""))

    def fire_watch(self, path: str) -> None:
        """Send a watch event: usually in order with the replies, sometimes after a reply that already shows the change."""
        at_s = max(self._reply_arrival_s, self._loop.now_s + self._hop_s() + self.link.reply_delay_s)
        if self._ensemble.random.random() < LATE_WATCH_PROBABILITY:
            self._loop.schedule_at(
                at_s + self._ensemble.random.random() * LATE_WATCH_DELAY_S_MAX, self._deliver_to_client, ([], 0, path)
            )
            return
        self._reply_arrival_s = at_s
        self._loop.schedule_at(at_s, self._deliver_to_client, ([], 0, path))

    def _deliver_to_client(self, packet: tuple[Replies, int, str] | None) -> None:
        if not self.client_open or (packet and self._reset):
            return
        if self.link.replies_cut or self._blocked_replies:
            self._blocked_replies.append(packet)
        elif packet is None:
            self.transport.run_when_awake(self.transport.on_connection_lost, self, "the server closed the connection")
        elif self.transport.process_stopped:
            self.transport.run_when_awake(self.transport.on_packet, self, *packet)
        else:
            self.transport.on_packet(self, *packet)

    # Closing

    def close_by_server(self, *, abruptly: bool = False) -> None:
        """Close the connection. If the server stops abruptly, replies already sent may be lost too."""
        if not self.server_open:
            return
        self._reset = abruptly and self._ensemble.random.random() < 0.5
        self._detach_from_server()
        self._reply_arrival_s = max(self._reply_arrival_s, self._loop.now_s + self._hop_s())
        self._loop.schedule_at(self._reply_arrival_s, self._deliver_to_client, None)

    def close_by_client(self) -> None:
        """Close the connection. Earlier requests still arrive. If the link is cut, the server does not notice the end."""
        self.apply_elapsed_pings(self._loop.now_s)
        self.client_open = False
        if not self.server_open:
            self._ensemble.network.remove_connection(self)
            return
        self._loop.schedule_at(max(self._request_arrival_s, self._loop.now_s + self._hop_s()), self._deliver_close)

    def _deliver_close(self) -> None:
        if not self.server_open or self.link.requests_cut:
            return
        if self.server.paused:
            self.server.deferred.append((self._deliver_close, ()))
        else:
            self._detach_from_server()

    def _detach_from_server(self) -> None:
        self.server_open = False
        self.server.remove_connection(self)
        if not self.client_open:
            self._ensemble.network.remove_connection(self)

    def on_link_healed(self) -> None:
        """Retransmit blocked packets after a random delay, as the kernel does. Sometimes the connection ends instead."""
        now_s = self._loop.now_s
        at_s = now_s + self._ensemble.random.uniform(0.02, 0.5)
        self.pings.ping_at(at_s)
        if self._blocked_requests and self._ensemble.random.random() < 0.3:
            self.close_by_server()
        self._loop.schedule_at(at_s, self._deliver_blocked)

    def _deliver_blocked(self) -> None:
        up, self._blocked_requests = self._blocked_requests, []
        down, self._blocked_replies = self._blocked_replies, []
        for packet in up:
            self._deliver_to_server(packet)
        for reply in down:
            self._deliver_to_client(reply)
        if not self.client_open:
            self._deliver_close()

    # Pings

    @property
    def is_undisturbed(self) -> bool:
        link = self.link
        cut = link.requests_cut or link.replies_cut or link.reply_delay_s
        return self.server_open and self.server.running and not cut

    def apply_elapsed_pings(self, now_s: float) -> None:
        if self.client_open and not self.transport.process_stopped:
            self.pings.apply_elapsed_pings(self, now_s)
