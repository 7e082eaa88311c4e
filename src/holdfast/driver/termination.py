"""SIGTERM: a streaming job stops at a batch boundary, everything else ends as it would without us."""

import contextlib
import os
import signal
import threading
from types import FrameType

from holdfast.driver.active_queries import Queries
from holdfast.driver.graceful_stop import Stop


class Termination:
    def __init__(self, queries: Queries, stop: Stop) -> None:
        self._queries = queries
        self._stop = stop
        self._masks = threading.local()

    def prepare(self) -> None:
        signal.signal(signal.SIGTERM, self._terminated)
        os.register_at_fork(before=self._before_fork, after_in_parent=self._unblock, after_in_child=self._in_child)

    def _terminated(self, signum: int, frame: FrameType | None) -> None:
        """The first one asks the queries to stop, unless they have been asked already. Any other does what it always does."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._queries.live and not self._stop.asked:
            self._stop.ask()
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    # A process that the script forks is none of ours: its SIGTERM ends it. One that comes before it could be told so must wait,
    # because Python forgets, in a child, the signals for which a handler is still to be called.

    def _before_fork(self) -> None:
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _in_child(self) -> None:
        with contextlib.suppress(ValueError):
            if signal.getsignal(signal.SIGTERM) == self._terminated:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._unblock()

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.before)
