"""Gate for queries with Kafka sources: a query starts only after its checkpoint offsets have passed the offset check.

A separate process, `holdfast.kafka.monitor`, checks the offsets before the start and while the query runs. The driver sends
each query's options, which may contain passwords, to that process through a pipe. The process ends with the driver.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.driver.failure_message import Failure
from holdfast.driver.kafka.sources import list_kafka_sources
from holdfast.driver.start_refused import StartRefused
from holdfast.driver.stderr_log import log_line
from holdfast.driver.stop_request import StopRequest
from holdfast.driver_protocol.environment import DriverEnvironment, is_guard_disabled
from holdfast.driver_protocol.exit_record import KAFKA_DATA_LOSS, KAFKA_UNAVAILABLE, NODE_LACKS_DEPENDENCY, ExitRecord
from holdfast.driver_protocol.kafka_messages import (
    OFFSET_CHECK_NAME,
    DiagnoseFailure,
    FailureDiagnosis,
    MonitorAnswer,
    MonitoredQuery,
    MonitorRequest,
    ParkRequired,
    QueryRejected,
    StartAllowed,
    WatchQuery,
    encode_message,
    parse_answer,
)

POLL_S = 0.2
DIAGNOSIS_TIMEOUT_S = 40.0
"""Time to wait for the monitor's diagnosis after a query has failed."""
RESTART_DELAY_S = 1.0
RESTART_DELAY_S_MAX = 30.0
LOG_WAIT_AFTER_S = 5.0
"""Delay before the log mentions that a query waits for the offset check."""


class KafkaGate:
    """Client of the monitor process. Without supervision, or with the guard switched off, every query passes."""

    def __init__(
        self, script: str, variables: Mapping[str, str], stop: StopRequest, end_now: Callable[[ExitRecord], None]
    ) -> None:
        """`end_now` is called on the gate's thread when a running query must stop immediately."""
        self._variables = _without_script_directory(variables, script)
        self._stop = stop
        self._end_now = end_now
        can_be_monitored = DriverEnvironment.from_variables(variables).can_be_monitored
        self._open = not can_be_monitored or is_guard_disabled(OFFSET_CHECK_NAME, variables)
        self._changed = threading.Condition()
        self._process: subprocess.Popen[bytes] | None = None
        self._queries: dict[str, MonitoredQuery] = {}
        """Every query sent to the monitor, by checkpoint location."""
        self._answers: dict[str, ExitRecord | None] = {}
        """Decisions by checkpoint location: None permits the start. A query without a decision has no entry."""
        self._diagnosis: FailureDiagnosis | None = None

    def wait_for_permission(self, writer: Any, location: str | None, label: str) -> None:
        """Block until the query may start. Raises StartRefused, or SystemExit if the job is asked to stop meanwhile."""
        sources = [] if self._open else list_kafka_sources(writer)
        if not sources:
            return
        checkpoint = (location or "").rstrip("/")
        query = MonitoredQuery(checkpoint, label, tuple(sources))
        with self._changed:
            self._queries[checkpoint] = query
            self._answers.pop(checkpoint, None)
            self._ensure_monitor()
        self._send(WatchQuery(query, before_start=True))
        end = self._wait_for_answer(checkpoint, label)
        if end is not None:
            raise StartRefused(end)

    def _wait_for_answer(self, location: str, label: str) -> ExitRecord | None:
        log_at = time.monotonic() + LOG_WAIT_AFTER_S
        with self._changed:
            while location not in self._answers:
                self._changed.wait(POLL_S)
                if self._stop.requested:
                    self._stop.seen_by_script = True
                    raise SystemExit(0)
                if time.monotonic() >= log_at:
                    log_at = float("inf")
                    log_line(f"the query {label} waits for the check of its Kafka offsets; see `holdfast show JOB`")
            return self._answers[location]

    def find_kafka_cause(self, failure: Failure) -> ExitRecord | None:
        """Return an exit record if Kafka caused the failure: unavailable brokers or lost offsets. Otherwise None."""
        text = f"{failure.condition} {failure.exception} {failure.reason}".lower()
        if self._process is None or "kafka" not in text:
            return None
        give_up_at = time.monotonic() + DIAGNOSIS_TIMEOUT_S
        with self._changed:
            self._diagnosis = None
        self._send(DiagnoseFailure())
        with self._changed:
            while self._diagnosis is None and time.monotonic() < give_up_at:
                self._changed.wait(POLL_S)
            diagnosis = self._diagnosis or FailureDiagnosis("", "")
        if diagnosis.verdict == "park":
            return ExitRecord("failed", diagnosis.reason, condition=KAFKA_DATA_LOSS)
        if diagnosis.verdict == "wait":
            return ExitRecord("failed", f"Kafka: {diagnosis.reason}", condition=KAFKA_UNAVAILABLE)
        if "DATA_LOSS" in failure.condition:
            reason = f"Spark reported lost Kafka offsets, but they are available now: {failure.reason}"
            return ExitRecord("failed", reason, condition=KAFKA_UNAVAILABLE)
        return None

    # Monitor process

    def _ensure_monitor(self) -> None:
        if self._process is None:
            threading.Thread(
                target=self._run_monitor, args=(self._start_monitor(),), name="holdfast-kafka", daemon=True
            ).start()

    def _start_monitor(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-P", "-m", "holdfast.kafka.monitor"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._variables)
        return self._process

    def _send(self, message: MonitorRequest) -> None:
        """Send a message. Errors are ignored: after a restart the monitor receives every query again."""
        with self._changed, contextlib.suppress(OSError, ValueError):
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.write(encode_message(message))
                self._process.stdin.flush()

    def _run_monitor(self, process: "subprocess.Popen[bytes]") -> None:
        delay_s = RESTART_DELAY_S
        while True:
            began = time.monotonic()
            assert process.stdout is not None
            for line in process.stdout:
                if (answer := parse_answer(line)) is not None:
                    self._handle_answer(answer)
            process.wait()
            ran_long = time.monotonic() - began > RESTART_DELAY_S_MAX
            delay_s = RESTART_DELAY_S if ran_long else min(2 * delay_s, RESTART_DELAY_S_MAX)
            log_line(f"the Kafka monitor has ended with exit code {process.returncode}; restarting it in {delay_s:g} s")
            time.sleep(delay_s)
            with self._changed:
                process = self._start_monitor()
                requests = [WatchQuery(query, location not in self._answers) for location, query in self._queries.items()]
            for request in requests:
                self._send(request)

    def _handle_answer(self, answer: MonitorAnswer) -> None:
        match answer:
            case StartAllowed(location):
                self._set_answer(location, None)
            case QueryRejected(location, reason, node_lacks_dependency):
                condition = NODE_LACKS_DEPENDENCY if node_lacks_dependency else ""
                record = ExitRecord("failed", reason, condition=condition, started=node_lacks_dependency)
                self._set_answer(location, record)
            case ParkRequired(location, reason):
                self._park(location, ExitRecord("failed", reason, condition=KAFKA_DATA_LOSS))
            case FailureDiagnosis():
                with self._changed:
                    self._diagnosis = answer
                    self._changed.notify_all()

    def _park(self, location: str, record: ExitRecord) -> None:
        """End the process if the query is running; otherwise refuse its start."""
        with self._changed:
            starting = location not in self._answers
        if not starting:
            self._end_now(record)
        self._set_answer(location, record)

    def _set_answer(self, location: str, end: ExitRecord | None) -> None:
        with self._changed:
            self._answers[location] = end
            self._changed.notify_all()


def _without_script_directory(variables: Mapping[str, str], script: str) -> dict[str, str]:
    """Return the variables without the script's folder in PYTHONPATH, so that no user file shadows a module."""
    folder = os.path.dirname(os.path.abspath(script))
    paths = [path for path in variables.get("PYTHONPATH", "").split(os.pathsep) if path and os.path.abspath(path) != folder]
    others = {name: value for name, value in variables.items() if name != "PYTHONPATH"}
    return {**others, "PYTHONPATH": os.pathsep.join(paths)} if paths else others
