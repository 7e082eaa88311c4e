"""How a driver ended, from what the kernel says of it, what it said itself, and what it printed. Pure.

What it said and printed is the user's: it may be missing, wrong or garbage, and nothing here raises for it. In doubt an attempt
has not FINISHED, because nothing follows that.
"""

import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.driver.exit_record import FORSAKEN, KAFKA_AWAY, NOT_HERE
from holdfast.model.job import Ending, Outcome

REASON_MAX = 300
TAIL_MAX = 20_000
JAVA_OUT_OF_MEMORY = 3
"""The exit code of a Java that was told to end when it runs out of memory."""
FOREIGN_CHECKPOINT = ("CONCURRENT_STREAM_LOG_UPDATE", "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY")
REFUSED_BY_SINK = ("OutputRefused", "Superseded")
"""The errors of `holdfast.sinks`: to try again would not help."""
NO_PYTHON = ("SyntaxError", "IndentationError", "TabError")
PYTHON_OUT_OF_MEMORY = "Python ran out of memory: the script holds more data than the machine has room for"
JAVA_NEEDS_MORE = "Java ran out of memory: raise spark.driver.memory"
KERNEL_KILLED = "the kernel killed it because the machine ran out of memory: give it less to hold, or fewer neighbours"
NOT_AT_A_BOUNDARY = "it was asked to stop, did not reach a batch boundary in time, and was ended: its last batch runs again"

_JAVA_HEAP = re.compile(r"java\.lang\.OutOfMemoryError|Java heap space|GC overhead limit exceeded")
_DATA_LOST = re.compile(r"data may have been lost", re.IGNORECASE)
_WORKER_CRASHED = re.compile(r"Python worker exited unexpectedly")
_SPARK_ENDED_IT = re.compile(r"Application has been killed\. Reason: (.+)$", re.MULTILINE)
_MASTERS_SILENT = "All masters are unresponsive"
_NOT_INSTALLED = re.compile(r"No module named '?holdfast")
_JAVA_REFUSED = re.compile(r'^(?:Exception in thread "main" |Error: )(.+)$', re.MULTILINE)
_EXCEPTION_LINE = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)): (?P<message>.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Words:
    """What the driver said at its end, with everything that is not what it should be left out."""

    how: str
    reason: str
    condition: str
    exception: str
    started: bool | None
    java_status: int | None

    @staticmethod
    def read(end: Mapping[str, Any] | None) -> "_Words | None":
        if not isinstance(end, Mapping) or end.get("how") not in ("finished", "stopped", "failed"):
            return None
        java = end.get("java_status")
        return _Words(
            how=end["how"],
            reason=_text(end.get("reason")),
            condition=_text(end.get("condition")),
            exception=_text(end.get("exception")),
            started=started if isinstance(started := end.get("started"), bool) else None,
            java_status=java if isinstance(java, int) and not isinstance(java, bool) else None,
        )


def classify(
    *, status: int, end: Mapping[str, Any] | None, tail: str, stop_asked: bool, oom_kills: bool, master: str = ""
) -> Outcome:
    """`status` is the driver's wait status; `oom_kills`, whether the kernel killed anything on this machine to free memory.

    `master` is the one that the job names, if it does.
    """
    words, tail = _Words.read(end), tail[-TAIL_MAX:] if isinstance(tail, str) else ""
    if words is not None and words.how == "stopped":
        return _outcome(Ending.STOPPED, words.reason or "it stopped at a batch boundary, as asked")
    if not os.WIFSIGNALED(status) and (told := _SPARK_ENDED_IT.findall(tail)):
        return _ended_by_spark(told[-1], master)
    if words is not None and words.how == "failed":
        return _failed(words, tail, oom_kills=oom_kills)
    if os.WIFSIGNALED(status):
        return _killed(os.WTERMSIG(status), stop_asked=stop_asked, oom_kills=oom_kills)
    code = os.WEXITSTATUS(status)
    if code != 0:
        return _silent(code, tail)
    if words is None and stop_asked:
        return _outcome(Ending.STOPPED, "it ended when it was asked to stop, and left no word about it")
    return _outcome(Ending.FINISHED, "its script ended")


def _killed(number: int, *, stop_asked: bool, oom_kills: bool) -> Outcome:
    if stop_asked and number in (signal.SIGTERM, signal.SIGKILL):
        return _outcome(Ending.STOPPED, NOT_AT_A_BOUNDARY)
    if oom_kills and number == signal.SIGKILL:
        return _outcome(Ending.OUT_OF_MEMORY, KERNEL_KILLED)
    return _outcome(Ending.KILLED, f"it was killed by {_name(number)}")


def _ended_by_spark(why: str, master: str) -> Outcome:
    """A standalone cluster had no use for it. What the script makes of that is anything, even an orderly end."""
    if _MASTERS_SILENT not in why:
        return _outcome(Ending.FAILED, f"its Spark cluster ended it: {why}")
    where = f" at {master}" if master else ""
    return _outcome(Ending.LOST, f"the Spark Master is away: none answered{where}, and Spark gave up")


def _failed(words: _Words, tail: str, *, oom_kills: bool) -> Outcome:
    reason = words.reason or "its script failed, and did not say of what"
    if words.started is False or (words.started is None and words.exception in NO_PYTHON):
        return _outcome(Ending.UNSTARTABLE, reason)
    if words.condition in (FORSAKEN, NOT_HERE, KAFKA_AWAY):
        return _outcome(Ending.LOST, reason)
    if words.condition in FOREIGN_CHECKPOINT:
        return _outcome(Ending.CHECKPOINT_CONFLICT, f"another driver wrote to its checkpoint: {reason}")
    if words.exception in REFUSED_BY_SINK:
        return _outcome(Ending.OUTPUT_CONFLICT, reason)
    if "DATA_LOSS" in words.condition or _DATA_LOST.search(reason):
        return _outcome(Ending.DATA_LOSS, reason)
    if words.exception == "MemoryError":
        return _outcome(Ending.OUT_OF_MEMORY, f"{PYTHON_OUT_OF_MEMORY} ({reason})")
    if _java_ran_out(words, tail):
        return _outcome(Ending.OUT_OF_MEMORY, JAVA_NEEDS_MORE)
    if oom_kills and (words.java_status == -signal.SIGKILL or _WORKER_CRASHED.search(reason + tail)):
        return _outcome(Ending.OUT_OF_MEMORY, KERNEL_KILLED)
    if words.condition == "JAVA_GATEWAY_EXITED":
        return _no_java(reason, tail)
    if words.exception == "KeyboardInterrupt":
        return _outcome(Ending.KILLED, f"{reason} (SIGINT)")
    return _outcome(Ending.FAILED, reason)


def _java_ran_out(words: _Words, tail: str) -> bool:
    if _JAVA_HEAP.search(words.exception) or _JAVA_HEAP.search(words.reason):
        return True
    # What Java prints counts only if Java is gone: an executor may have come back from it.
    return words.java_status == JAVA_OUT_OF_MEMORY or (words.java_status is not None and bool(_JAVA_HEAP.search(tail)))


def _no_java(reason: str, tail: str) -> Outcome:
    if "JAVA_HOME is not set" in tail:
        return _outcome(Ending.LOST, "there is no Java on its node: install Java 17 or later there")
    said = _JAVA_REFUSED.findall(tail)
    return _outcome(Ending.FAILED, f"Java did not start: {said[-1]}" if said else reason)


def _silent(code: int, tail: str) -> Outcome:
    """It left no word: it ended by os._exit, or before it could speak."""
    if _NOT_INSTALLED.search(tail):
        return _outcome(Ending.LOST, "Holdfast cannot be imported by the Python of its node: install it there")
    if _JAVA_HEAP.search(tail):
        return _outcome(Ending.OUT_OF_MEMORY, JAVA_NEEDS_MORE)
    lines = list(_EXCEPTION_LINE.finditer(tail))
    if lines and lines[-1]["kind"] == "MemoryError":
        return _outcome(Ending.OUT_OF_MEMORY, PYTHON_OUT_OF_MEMORY)
    said = f"; the last that it said of a failure: {lines[-1][0]}" if lines else ""
    return _outcome(Ending.FAILED, f"it ended with exit code {code}{said}")


def _outcome(ending: Ending, reason: str) -> Outcome:
    reason = _text(reason)
    return Outcome(ending, reason if len(reason) <= REASON_MAX else reason[: REASON_MAX - 1] + "…")


def _text(value: object) -> str:
    """One line that can be shown anywhere, whatever it was."""
    if not isinstance(value, str):
        return ""
    printable = "".join(character if character.isprintable() else " " for character in value[: 10 * REASON_MAX])
    return " ".join(printable.split())


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
