"""SIGTERM handling: a streaming job stops at a batch boundary, any other process ends immediately."""

import contextlib
import os
import signal
import threading
from types import FrameType

from holdfast.driver.queries.active_queries import ActiveQueries
from holdfast.driver.stop_request import StopRequest


class TerminationHandler:
    """SIGTERM handler of the driver. Processes that the script forks get the default handler back."""

    def __init__(self, queries: ActiveQueries, stop: StopRequest) -> None:
        self._queries = queries
        self._stop = stop
        self._masks = threading.local()

    def install(self) -> None:
        signal.signal(signal.SIGTERM, self._handle_sigterm)
        os.register_at_fork(before=self._block_sigterm, after_in_parent=self._unblock, after_in_child=self._reset_in_child)

    def _handle_sigterm(self, signum: int, frame: FrameType | None) -> None:
        """Request a stop on the first SIGTERM if queries are running. Otherwise end the process as without a handler.

        If a stop was requested before, queries that would outlive the process are stopped at once instead.
        """
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        live = self._queries.live
        if live and not self._stop.requested:
            self._stop.request()
        elif any(query.outlives_driver for query in live):
            self._stop.urgent = True
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    # SIGTERM stays blocked during a fork, until the child has restored the default handler. Python discards pending signals
    # in a forked child, so a SIGTERM that arrives in between would be lost.

    def _block_sigterm(self) -> None:
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _reset_in_child(self) -> None:
        with contextlib.suppress(ValueError):
            if signal.getsignal(signal.SIGTERM) == self._handle_sigterm:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._unblock()

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.before)
