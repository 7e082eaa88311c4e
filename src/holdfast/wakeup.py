"""Wakeup signal for one waiting loop."""

import asyncio


class Wakeup:
    """Signal that any number of sources may set and one loop waits for. Signals are not counted."""

    def __init__(self) -> None:
        self._pending = False
        self._waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        self._pending = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, timeout_s: float) -> None:
        """Return at the next signal, at once if one came since the last wait, and after `timeout_s` at the latest."""
        if not self._pending and timeout_s > 0:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout_s, self._expire, self._waiter)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        self._pending = False

    @staticmethod
    def _expire(waiter: "asyncio.Future[None]") -> None:
        if not waiter.done():
            waiter.set_result(None)
