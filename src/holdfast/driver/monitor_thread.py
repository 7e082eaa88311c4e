"""The thread beside the script: it reports progress, stops the queries when the job is to stop, and looks after the Master."""

import threading
import time
from collections.abc import Callable

from holdfast.driver.active_queries import Queries
from holdfast.driver.graceful_stop import Stop
from holdfast.driver.master_connection import Master
from holdfast.driver.progress_report import Progress
from holdfast.driver.stderr_log import say

LOOK_S = 0.2
STOPPING_LOOK_S = 0.02
REPORT_S = 1.0
FINISH_S = 3.0


class Watch:
    """Its thread is a daemon and keeps no process alive. Between looks at a file it does next to nothing."""

    def __init__(self, queries: Queries, stop: Stop, progress: Progress, *, forsaken: Callable[[str], None]) -> None:
        self._queries = queries
        self._stop = stop
        self._progress = progress
        self._master = Master()
        self._forsaken = forsaken
        """Called with the reason when there is no more to hope for."""
        self._thread = threading.Thread(target=self._run, name="holdfast", daemon=True)
        self._over = threading.Event()
        self._reported = 0.0
        self._complained: set[str] = set()
        self._announced = False

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Report once more, and end. A Java process that hangs is not waited for."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(FINISH_S)

    def _run(self) -> None:
        while not self._over.wait(STOPPING_LOOK_S if self._announced and self._queries.live else LOOK_S):
            self._look(report=time.monotonic() - self._reported >= REPORT_S)
        self._look(report=True)

    def _look(self, *, report: bool) -> None:
        try:
            if report:
                self._reported = time.monotonic()
                self._queries.look()
                self._progress.report(*self._queries.picture())
                if (reason := self._master.look()) is not None:
                    self._forsaken(reason)
            if self._stop.asked and not self._over.is_set():
                self._stop_the_queries()
        except Exception as error:  # noqa: BLE001 whatever Java or Spark say, the script goes on
            if not self._over.is_set() and (complaint := type(error).__name__) not in self._complained:
                self._complained.add(complaint)
                say(f"the queries cannot be watched at the moment: {complaint}")

    def _stop_the_queries(self) -> None:
        if not self._announced:
            self._announced = True
            say("this job is to stop: its queries end after the batches that they are at")
        live = self._queries.look()
        for query in live:
            query.tell()
            self._stop.honoured = True
            self._stop.abrupt = self._stop.abrupt or query.abrupt
        for query in live:
            query.wake()
