"""Pings of one connection, computed on demand instead of simulated one by one.

On an undisturbed connection the client pings every third of the session timeout. Each ping touches the session, and each reply
shows the client that the server is alive. `apply_elapsed_pings` applies the effect of all pings up to now under the current
conditions. It must be called before a condition changes.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.zk.connection import Connection


class PingSchedule:
    __slots__ = ("_first_unanswered_s", "_period_s", "last_reply_s", "next_ping_s")

    def __init__(self, timeout_s: float) -> None:
        self._period_s = timeout_s / 3
        self.last_reply_s = 0.0
        """Time of the client's last packet from the server."""
        self.next_ping_s = 0.0
        self._first_unanswered_s = 0.0
        """Send time, past or future, of the first ping whose reply has not arrived."""

    def start(self, now_s: float, jitter: float) -> None:
        self.last_reply_s = now_s
        self.next_ping_s = self._first_unanswered_s = now_s + self._period_s * jitter

    def ping_at(self, at_s: float) -> None:
        """Set the next ping to `at_s`, when a blocked link or a paused server lets packets through again."""
        self.next_ping_s = self._first_unanswered_s = at_s

    def resume(self, now_s: float) -> None:
        """Ping at once after a pause, and allow one ping period for the reply."""
        self.ping_at(now_s)
        self.last_reply_s = max(self.last_reply_s, now_s - self._period_s)

    def apply_elapsed_pings(self, connection: "Connection", now_s: float) -> None:
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
            self._first_unanswered_s = self.next_ping_s
            return
        waited_s = now_s - link.reply_delay_s - self._first_unanswered_s
        if waited_s >= 0:
            answered = int(waited_s / period_s)
            self.last_reply_s = max(self.last_reply_s, self._first_unanswered_s + answered * period_s + link.reply_delay_s)
            self._first_unanswered_s += (answered + 1) * period_s
