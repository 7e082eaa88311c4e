"""The pings of one connection, worked out when they matter instead of sent one by one.

While nothing disturbs a connection, its client pings every third of the session timeout, each ping touches the session, and
each answer tells the client that the server is there. `settle` does what the pings up to now did, under the conditions that
held until now; so it is called before anything changes.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.zk.connection import Connection


class Pulse:
    __slots__ = ("_period_s", "_unheard_s", "heard_s", "next_ping_s")

    def __init__(self, timeout_s: float) -> None:
        self._period_s = timeout_s / 3
        self.heard_s = 0.0
        """When the client last heard anything from the server."""
        self.next_ping_s = 0.0
        self._unheard_s = 0.0
        """When the first ping was sent, or will be, whose answer has not arrived."""

    def start(self, now_s: float, jitter: float) -> None:
        self.heard_s = now_s
        self.next_ping_s = self._unheard_s = now_s + self._period_s * jitter

    def ping_at(self, at_s: float) -> None:
        """What was held up before (a stuck link, a paused server) goes through then."""
        self.next_ping_s = self._unheard_s = at_s

    def awake(self, now_s: float) -> None:
        """After a pause the client pings at once, and waits a little for the answer before it gives up."""
        self.ping_at(now_s)
        self.heard_s = max(self.heard_s, now_s - self._period_s)

    def settle(self, connection: "Connection", now_s: float) -> None:
        period_s, link, server = self._period_s, connection.link, connection.server
        reached = connection.server_open and not link.requests_cut and server.running
        if now_s >= self.next_ping_s:
            last_s = self.next_ping_s + int((now_s - self.next_ping_s) / period_s) * period_s
            if reached:
                if last_s > self.next_ping_s:
                    server.touch(connection.session, last_s - period_s)
                server.touch(connection.session, last_s)
            self.next_ping_s = last_s + period_s
        if not reached or link.replies_cut:
            self._unheard_s = self.next_ping_s
            return
        waited_s = now_s - link.reply_delay_s - self._unheard_s
        if waited_s >= 0:
            answered = int(waited_s / period_s)
            self.heard_s = max(self.heard_s, self._unheard_s + answered * period_s + link.reply_delay_s)
            self._unheard_s += (answered + 1) * period_s
