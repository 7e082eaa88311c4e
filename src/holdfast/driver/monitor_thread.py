"""Background thread of the driver: reports start and progress, delivers stop requests to queries, checks the Spark Master."""

import threading
import time
from collections.abc import Callable

from holdfast.driver.master_connection import MasterConnection
from holdfast.driver.queries.active_queries import ActiveQueries
from holdfast.driver.queries.progress_report import ProgressReporter
from holdfast.driver.readiness import Readiness
from holdfast.driver.stderr_log import log_line
from holdfast.driver.stop_request import StopRequest

CHECK_INTERVAL_S = 0.2
STOPPING_CHECK_INTERVAL_S = 0.02
REPORT_INTERVAL_S = 1.0
FINISH_TIMEOUT_S = 3.0
FAILURE_LASTS_S = 5.0
"""Time after which the failure of a query is reported. Most scripts end, or start the query again, within that time."""


class MonitorThread:
    """Daemon thread that polls the stop request, and reports progress once per second."""

    def __init__(
        self,
        queries: ActiveQueries,
        stop: StopRequest,
        progress: ProgressReporter,
        readiness: Readiness,
        *,
        on_abandoned: Callable[[str], None],
        on_failures: Callable[[list[str]], None],
    ) -> None:
        self._queries = queries
        self._stop = stop
        self._progress = progress
        self._readiness = readiness
        self._master = MasterConnection()
        self._on_abandoned = on_abandoned
        """Called with a reason when the driver will never get executors again."""
        self._on_failures = on_failures
        """Called with the labels of queries that have failed while the script continues."""
        self._thread = threading.Thread(target=self._run, name="holdfast", daemon=True)
        self._finished = threading.Event()
        self._reported_at = 0.0
        self._answered_at = time.monotonic()
        self._logged_errors: set[str] = set()
        self._stop_announced = False

    def start(self) -> None:
        self._thread.start()

    @property
    def silent_s(self) -> float:
        """Seconds since Spark last answered all calls for a report. Grows while a call to a dead server is retried."""
        return time.monotonic() - self._answered_at

    def finish(self) -> None:
        """Report once more and end the thread. Waits at most FINISH_TIMEOUT_S, so that a hanging JVM does not block."""
        self._finished.set()
        if self._thread.is_alive():
            self._thread.join(FINISH_TIMEOUT_S)

    def _run(self) -> None:
        while not self._finished.wait(self._interval_s):
            self._check(report=time.monotonic() - self._reported_at >= REPORT_INTERVAL_S)
        self._check(report=True)

    @property
    def _interval_s(self) -> float:
        return STOPPING_CHECK_INTERVAL_S if self._stop_announced and self._queries.live else CHECK_INTERVAL_S

    def _check(self, *, report: bool) -> None:
        try:
            self._readiness.report()
            if report:
                self._reported_at = time.monotonic()
                self._queries.refresh()
                self._progress.report(*self._queries.snapshot())
                self._answered_at = time.monotonic()
                if failed := self._queries.lasting_failures(FAILURE_LASTS_S):
                    self._on_failures(failed)
                if (reason := self._master.check()) is not None:
                    self._on_abandoned(reason)
            if self._stop.requested and not self._finished.is_set():
                self._stop_queries()
        except Exception as error:  # noqa: BLE001 -- an error of Spark or py4j must not stop the script
            if not self._finished.is_set() and (error_name := type(error).__name__) not in self._logged_errors:
                self._logged_errors.add(error_name)
                log_line(f"cannot read the state of the streaming queries ({error_name}); retrying")

    def _stop_queries(self) -> None:
        if not self._stop_announced:
            self._stop_announced = True
            log_line("stop requested: each query ends after its current batch")
        live = self._queries.refresh()
        for query in live:
            query.request_stop(urgent=self._stop.urgent)
            self._stop.sent_to_query = True
            self._stop.interrupted_batch = self._stop.interrupted_batch or query.stopped_abruptly
        for query in live:
            query.stop_if_idle()
