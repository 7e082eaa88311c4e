"""Callbacks from other threads, run on the event loop."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable


class LoopMailbox:
    """Mailbox of callbacks that run on the event loop, in the order in which they were posted.

    Waking the loop is the expensive part, so a burst of callbacks wakes it once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._callbacks: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._loop_woken = False

    def post(self, callback: Callable[..., object], *arguments: object) -> None:
        """Run the callback soon, on the event loop. Thread-safe."""
        self._callbacks.append((callback, arguments))
        if not self._loop_woken:
            self._loop_woken = True
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._run_callbacks)

    def _run_callbacks(self) -> None:
        # Clear the flag before reading the queue: a callback posted in between may wake the loop twice, but is never missed.
        self._loop_woken = False
        try:
            # A callback posted meanwhile has woken the loop again. So a stream of callbacks does not stop all other work.
            for _ in range(len(self._callbacks)):
                callback, arguments = self._callbacks.popleft()
                callback(*arguments)
        except BaseException:
            self._loop.call_soon(self._run_callbacks)  # the other callbacks still have to run
            raise
