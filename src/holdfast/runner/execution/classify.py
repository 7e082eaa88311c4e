"""Classification of a driver's end, from its wait status, its exit record and its output. Pure.

Record and output come from user code: they may be missing or wrong, and nothing here raises because of them. In doubt an
attempt has not FINISHED, because a finished job never runs again.
"""

import os
import re
import signal

from holdfast.driver_protocol.application_status import APPLICATION_FAILED, APPLICATION_FORGOTTEN, ApplicationStatus
from holdfast.driver_protocol.exit_record import (
    CHECKPOINT_CLAIMED,
    CONNECT_SERVER_LOST,
    EXECUTORS_UNAVAILABLE,
    FINISHED,
    KAFKA_UNAVAILABLE,
    NODE_LACKS_DEPENDENCY,
    STOPPED,
    ExitRecord,
)
from holdfast.driver_protocol.untrusted_text import single_line
from holdfast.model.job import Ending, Outcome

NO_APPLICATION = ApplicationStatus()
REASON_MAX = 300
OUTPUT_TAIL_MAX = 20_000
JAVA_OUT_OF_MEMORY = 3
"""Exit code of Java under -XX:+ExitOnOutOfMemoryError when it runs out of memory."""
FOREIGN_CHECKPOINT = ("CONCURRENT_STREAM_LOG_UPDATE", "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY")
REFUSED_BY_SINK = ("OutputRefused", "Superseded")
"""Errors of `holdfast.sinks` that a retry cannot cure."""
SYNTAX_ERRORS = ("SyntaxError", "IndentationError", "TabError")
PYTHON_OUT_OF_MEMORY = "Python ran out of memory: the script holds more data than fits into the machine's memory"
JAVA_NEEDS_MORE = "Java ran out of memory: raise spark.driver.memory"
KERNEL_KILLED = "the kernel killed the driver because the machine ran out of memory: reduce its memory, or run fewer jobs there"
STOPPED_BY_SIGNAL = (
    "the job did not reach a batch boundary in time after the stop request and was killed: its last batch runs again"
)

CRASH_SIGNALS = frozenset(
    (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS, signal.SIGTRAP)
)
"""Signals that a program causes itself, for example by a segmentation fault in a native library. They are failures of the job.

All other signals count as sent from outside: Holdfast, the kernel's out-of-memory killer and operators use other ones."""

_JAVA_HEAP = re.compile(r"java\.lang\.OutOfMemoryError|Java heap space|GC overhead limit exceeded")
_DATA_LOST = re.compile(r"data may have been lost", re.IGNORECASE)
_WORKER_CRASHED = re.compile(r"Python worker exited unexpectedly")
_ENDED_BY_SPARK = re.compile(r"Application has been killed\. Reason: (.+)$", re.MULTILINE)
_LOST_APPLICATION_MASTER = "due to AM Container"
_NO_MASTER_ANSWERED = "All masters are unresponsive"
_NOT_INSTALLED = re.compile(r"No module named '?holdfast")
_JAVA_REFUSED = re.compile(r'^(?:Exception in thread "main" |Error: )(.+)$', re.MULTILINE)
_EXIT_CODE_ONLY = re.compile(r"exit code \d+$")
_SPARK_LOG_LINE = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d |WARNING: |Setting default log level|To adjust logging level")
_EXCEPTION_LINE = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)): (?P<message>.+)$", re.MULTILINE)


def classify_exit(
    *,
    status: int,
    record: ExitRecord | None,
    output_tail: str,
    stop_requested: bool,
    kernel_killed_for_memory: bool,
    master: str = "",
    application: ApplicationStatus = NO_APPLICATION,
) -> Outcome:
    """Return the outcome of a driver.

    `status` is its wait status, `record` its exit record and `output_tail` the end of its output. `kernel_killed_for_memory`
    is True if the kernel killed any process of this machine to free memory. `master` is the Spark master that the job names,
    and `application` its application there.
    """
    output_tail = output_tail[-OUTPUT_TAIL_MAX:]
    if record is not None and record.how == "stopped":
        return _outcome(Ending.STOPPED, record.reason or STOPPED.reason)
    if not os.WIFSIGNALED(status) and (spark_reasons := _ENDED_BY_SPARK.findall(output_tail)):
        return _classify_end_by_spark(spark_reasons[-1], master)
    if not os.WIFSIGNALED(status) and (outcome := _classify_end_by_yarn(application)) is not None:
        return outcome
    if record is not None and record.how == "failed":
        return _classify_failure(record, output_tail, kernel_killed_for_memory=kernel_killed_for_memory)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return _classify_signal(number, stop_requested=stop_requested, kernel_killed_for_memory=kernel_killed_for_memory)
    code = os.WEXITSTATUS(status)
    if code != 0:
        return _classify_exit_code(code, output_tail)
    if record is None and stop_requested:
        return _outcome(Ending.STOPPED, "the driver ended after the stop request, without an exit record")
    return _outcome(Ending.FINISHED, FINISHED.reason)


def _classify_signal(number: int, *, stop_requested: bool, kernel_killed_for_memory: bool) -> Outcome:
    if stop_requested and number in (signal.SIGTERM, signal.SIGKILL):
        return _outcome(Ending.STOPPED, STOPPED_BY_SIGNAL)
    if kernel_killed_for_memory and number == signal.SIGKILL:
        return _outcome(Ending.OUT_OF_MEMORY, KERNEL_KILLED)
    if number in CRASH_SIGNALS:
        return _outcome(Ending.FAILED, f"the driver crashed with {_signal_name(number)}")
    return _outcome(Ending.KILLED, f"the driver was killed by {_signal_name(number)}")


def _classify_end_by_spark(spark_reason: str, master: str) -> Outcome:
    """Classify a driver that its standalone cluster has ended. The script may report that as a failure or as a normal end."""
    if _NO_MASTER_ANSWERED not in spark_reason:
        return _outcome(Ending.FAILED, f"the Spark cluster ended the application: {spark_reason}")
    where = f" at {master}" if master else ""
    return _outcome(Ending.LOST, f"the Spark Master is unreachable: none answered{where}, and Spark gave up")


def _classify_end_by_yarn(application: ApplicationStatus) -> Outcome | None:
    """Classify a driver whose application YARN has ended. Spark then stops, and the script may report that as a normal end.

    A lost application master, and a ResourceManager that has restarted without recovery, are not the job's fault.
    """
    if application.state == APPLICATION_FORGOTTEN:
        return _outcome(Ending.LOST, application.note)
    if application.state not in APPLICATION_FAILED:
        return None
    lost = _LOST_APPLICATION_MASTER in application.note
    return _outcome(Ending.LOST if lost else Ending.FAILED, application.note)


def _classify_failure(record: ExitRecord, output_tail: str, *, kernel_killed_for_memory: bool) -> Outcome:
    reason = record.reason or "the script failed without a reason in its exit record"
    if record.started is False or (record.started is None and record.exception in SYNTAX_ERRORS):
        return _outcome(Ending.UNSTARTABLE, reason)
    if record.condition in (EXECUTORS_UNAVAILABLE, CONNECT_SERVER_LOST, NODE_LACKS_DEPENDENCY, KAFKA_UNAVAILABLE):
        return _outcome(Ending.LOST, reason)
    if record.condition == CHECKPOINT_CLAIMED:
        return _outcome(Ending.CHECKPOINT_CONFLICT, reason)
    if record.condition in FOREIGN_CHECKPOINT:
        return _outcome(Ending.CHECKPOINT_CONFLICT, f"another driver wrote to the job's checkpoint: {reason}")
    if record.exception in REFUSED_BY_SINK:
        return _outcome(Ending.OUTPUT_CONFLICT, reason)
    if "DATA_LOSS" in record.condition or _DATA_LOST.search(reason):
        return _outcome(Ending.DATA_LOSS, reason)
    if (memory_problem := _memory_problem(record, reason, output_tail, kernel_killed_for_memory)) is not None:
        return _outcome(Ending.OUT_OF_MEMORY, memory_problem)
    if record.condition == "JAVA_GATEWAY_EXITED":
        return _classify_failed_java_start(reason, output_tail)
    if record.exception == "KeyboardInterrupt":
        return _outcome(Ending.KILLED, f"{reason} (SIGINT)")
    if record.exception == "SystemExit" and _EXIT_CODE_ONLY.search(reason) and (line := _last_script_line(output_tail)):
        return _outcome(Ending.FAILED, f"{reason}: {line}")
    return _outcome(Ending.FAILED, reason)


def _last_script_line(output_tail: str) -> str:
    """Return the last line that is not a log line of Spark, for example the error message of argparse."""
    lines = (line.strip() for line in reversed(output_tail.splitlines()))
    return next((line for line in lines if line and not _SPARK_LOG_LINE.match(line)), "")


def _memory_problem(record: ExitRecord, reason: str, output_tail: str, kernel_killed_for_memory: bool) -> str | None:
    """Return a sentence about the memory that ran out, or None."""
    if record.exception == "MemoryError":
        return f"{PYTHON_OUT_OF_MEMORY} ({reason})"
    if _java_ran_out_of_memory(record, output_tail):
        return JAVA_NEEDS_MORE
    java_killed = record.java_status == -signal.SIGKILL
    if kernel_killed_for_memory and (java_killed or _WORKER_CRASHED.search(reason + output_tail)):
        return KERNEL_KILLED
    return None


def _java_ran_out_of_memory(record: ExitRecord, output_tail: str) -> bool:
    if _JAVA_HEAP.search(record.exception) or _JAVA_HEAP.search(record.reason):
        return True
    if record.java_status is None:
        return False  # Java is alive, so the output is about an executor, which may have recovered
    return record.java_status == JAVA_OUT_OF_MEMORY or bool(_JAVA_HEAP.search(output_tail))


def _classify_failed_java_start(reason: str, output_tail: str) -> Outcome:
    if "JAVA_HOME is not set" in output_tail:
        return _outcome(Ending.LOST, "the node has no Java: install Java 17 or later there")
    java_errors = _JAVA_REFUSED.findall(output_tail)
    return _outcome(Ending.FAILED, f"Java did not start: {java_errors[-1]}" if java_errors else reason)


def _classify_exit_code(code: int, output_tail: str) -> Outcome:
    """Classify a driver without an exit record: it called os._exit, or it failed before it could write the record."""
    if _NOT_INSTALLED.search(output_tail):
        return _outcome(Ending.LOST, "the node's Python cannot import holdfast: install Holdfast there")
    if _JAVA_HEAP.search(output_tail):
        return _outcome(Ending.OUT_OF_MEMORY, JAVA_NEEDS_MORE)
    exceptions = list(_EXCEPTION_LINE.finditer(output_tail))
    if exceptions and exceptions[-1]["kind"] == "MemoryError":
        return _outcome(Ending.OUT_OF_MEMORY, PYTHON_OUT_OF_MEMORY)
    last_exception = f"; last exception in its output: {exceptions[-1][0]}" if exceptions else ""
    return _outcome(Ending.FAILED, f"the driver ended with exit code {code}{last_exception}")


def _outcome(ending: Ending, reason: str) -> Outcome:
    reason = single_line(reason, 10 * REASON_MAX)
    return Outcome(ending, reason if len(reason) <= REASON_MAX else reason[: REASON_MAX - 1] + "…")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
