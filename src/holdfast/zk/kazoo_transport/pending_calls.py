"""Calls without a reply, and the reply timeout that makes the client move to another server."""

import asyncio
from collections.abc import Callable
from typing import Any

REPLY_TIMEOUT_FRACTION = 1 / 5
"""Default reply timeout, as a fraction of the session timeout."""
REPLY_TIMEOUT_FACTOR_MAX = 4
"""The reply timeout doubles each time the client leaves a server, up to this factor.

If all servers stall, moving does not help."""


class PendingCalls:
    """Calls that wait for a reply.

    A call without a reply for the reply timeout makes the client leave its server, so that another one can answer before
    the session expires. A call without a reply for the session timeout fails with TimeoutError.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, reply_timeout_s: float | None, leave_server: Callable[[int], bool]
    ) -> None:
        """`leave_server` gets the number of the connection to leave, and returns False if that is no longer in use."""
        self._loop = loop
        self._configured_reply_timeout_s = reply_timeout_s
        self._leave_server = leave_server
        self._factor = 1
        self._timer: asyncio.TimerHandle | None = None
        self._sent: dict[asyncio.Future[Any], tuple[float, int]] = {}
        """Send time and connection number of each call, oldest first."""
        self.session_timeout_s = 0.0

    async def wait_for(self, reply: "asyncio.Future[Any]", connection: int) -> Any:
        """Return the reply to a call that was just sent over this connection."""
        self._sent[reply] = (self._loop.time(), connection)
        if self._timer is None:
            self._timer = self._loop.call_later(self._reply_timeout_s, self._check_oldest)
        try:
            answer = await reply
        finally:
            self._sent.pop(reply, None)
        self._factor = 1
        return answer

    @property
    def _reply_timeout_s(self) -> float:
        configured_s = self._configured_reply_timeout_s or self.session_timeout_s * REPLY_TIMEOUT_FRACTION
        return min(configured_s * self._factor, self.session_timeout_s)

    def _check_oldest(self) -> None:
        """Check the oldest calls. One timer serves all calls."""
        self._timer = None
        now = self._loop.time()
        for reply, (sent_at, connection) in list(self._sent.items()):
            if reply.done():
                continue
            if now < sent_at + self._reply_timeout_s:
                self._timer = self._loop.call_later(sent_at + self._reply_timeout_s - now, self._check_oldest)
                return
            failed = now >= sent_at + self.session_timeout_s
            if failed:
                reply.set_exception(TimeoutError())
            if self._leave_server(connection):
                self._factor = min(self._factor * 2, REPLY_TIMEOUT_FACTOR_MAX)
            if not failed:
                self._timer = self._loop.call_later(sent_at + self.session_timeout_s - now, self._check_oldest)
                return
