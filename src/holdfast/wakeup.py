"""A bell that any number of things may ring and one loop waits for."""

import asyncio


class Alarm:
    """Rings are not counted: they only say that it is time to look."""

    def __init__(self) -> None:
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        self._rung = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, timeout_s: float) -> None:
        """Return at the next ring, at once if it rang since the last wait, and after `timeout_s` at the latest."""
        if not self._rung and timeout_s > 0:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout_s, self._expire, self._waiter)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        self._rung = False

    @staticmethod
    def _expire(waiter: "asyncio.Future[None]") -> None:
        if not waiter.done():
            waiter.set_result(None)
