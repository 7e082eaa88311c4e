"""Thread that reports the executors and the YARN state of this driver's application to the runner.

It is separate from the monitor thread: a ResourceManager that does not answer must not delay the progress report.
"""

import contextlib
import sys
import threading
import time
from dataclasses import replace
from typing import Any

from holdfast.driver.application.executor_counts import ExecutorCounter
from holdfast.driver.application.yarn_application import YarnClient, YarnReport
from holdfast.driver.stderr_log import log_line
from holdfast.driver_protocol.application_status import ApplicationStatus
from holdfast.driver_protocol.control_files import APPLICATION_FILE, write_control_file

POLL_S = 2.0
FINISH_TIMEOUT_S = 3.0
YARN_FAILURES_MIN = 2
"""Failed requests in a row after which the note says that the ResourceManager does not answer."""
NO_EXECUTORS_S = 15.0
"""Time without executors after which the note says so. A cluster needs some time to start them."""
YARN = "yarn"


class ApplicationMonitor:
    """Daemon thread. It does nothing for a local master, which runs its tasks in the driver."""

    def __init__(self, control_directory: str) -> None:
        self._directory = control_directory
        self._thread = threading.Thread(target=self._run, name="holdfast-application", daemon=True)
        self._finished = threading.Event()
        self._yarn: YarnClient | None = None
        self._context: Any = None
        self._counter = ExecutorCounter()
        self._written = ApplicationStatus()
        self._yarn_failures = 0
        self._no_executors_since: float | None = None

    def start(self) -> None:
        if self._directory:
            self._thread.start()

    def finish(self) -> None:
        """Report once more and end the thread. Waits at most FINISH_TIMEOUT_S."""
        self._finished.set()
        if self._thread.is_alive():
            self._thread.join(FINISH_TIMEOUT_S)

    def _run(self) -> None:
        while not self._finished.wait(POLL_S):
            self._report_safely()
        self._report_safely()

    def _report_safely(self) -> None:
        with contextlib.suppress(Exception):  # the JVM starts or ends; the next poll tries again
            self._report()

    def _report(self) -> None:
        context_class = getattr(sys.modules.get("pyspark"), "SparkContext", None)
        jvm = getattr(context_class, "_jvm", None)
        if jvm is None:
            return
        context = getattr(context_class, "_active_spark_context", None)
        context = context if getattr(context, "_jsc", None) is not None else None
        master = context.master if context is not None else str(jvm.java.lang.System.getProperty("spark.master") or "")
        if not master or master.startswith("local"):
            return
        status = self._count_executors(context) if context is not None else ApplicationStatus()
        if master == YARN:
            status = self._add_yarn_state(jvm, status)
        if status != self._written and write_control_file(self._directory, APPLICATION_FILE, status.to_json()):
            self._written = status

    def _count_executors(self, context: Any) -> ApplicationStatus:
        if context is not self._context:
            self._context, self._counter, self._no_executors_since = context, ExecutorCounter(), None
        if context._jsc.sc().isStopped():  # YARN has ended the application, and Spark its context
            return replace(self._written, executors=0, note="")
        counts = self._counter.count(context._jsc.sc().statusStore())
        now = time.monotonic()
        waits_for_tasks = not counts.alive and len(context._jsc.statusTracker().getActiveJobIds()) > 0
        self._no_executors_since = (self._no_executors_since or now) if waits_for_tasks else None
        waits = self._no_executors_since is not None and now - self._no_executors_since >= NO_EXECUTORS_S
        return ApplicationStatus(
            id=str(context.applicationId),
            executors=counts.alive,
            lost=counts.lost,
            decommissioned=counts.decommissioned,
            last_loss=counts.last_loss,
            note=f"has no executors: it waits until {context.master} grants resources" if waits else "",
        )

    def _add_yarn_state(self, jvm: Any, status: ApplicationStatus) -> ApplicationStatus:
        try:
            report = self._read_yarn_report(jvm, status.id)
        except Exception:  # noqa: BLE001 -- the ResourceManager is away, or starts
            self._yarn_failures += 1
            known = replace(status, id=status.id or self._written.id, state=self._written.state)
            return replace(known, note=_unreachable_note(status)) if self._yarn_failures >= YARN_FAILURES_MIN else known
        self._yarn_failures = 0
        if report is None:
            return status
        return replace(status, id=report.id, state=report.state, note=report.note() or status.note)

    def _read_yarn_report(self, jvm: Any, application_id: str) -> YarnReport | None:
        if self._yarn is None:
            yarn = YarnClient(jvm)
            for killed in yarn.kill_earlier_attempts():
                log_line(f"killed {killed}, which an earlier attempt of this job had left in YARN")
            self._yarn = yarn
        return self._yarn.report(application_id) if application_id else self._yarn.own_application()


def _unreachable_note(status: ApplicationStatus) -> str:
    continuation = "the job continues with its executors" if status.executors else "the job waits for it"
    return f"YARN's ResourceManager does not answer; {continuation}"
