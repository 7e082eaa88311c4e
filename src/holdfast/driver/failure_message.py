"""One-sentence description of an exception. PySpark wraps the cause in pages of text; this module extracts the cause."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import traceback
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from holdfast.errors import HoldfastError

SENTENCE_MAX = 300
JVM_EXIT_WAIT_S = 2.0
"""Time to wait for the JVM's exit status after its socket has broken."""
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OWN = tuple(os.path.join(_PACKAGE, name, "") for name in ("driver", "job"))
_WRAPPED = " terminated with exception: "
_AWAIT_RESULT = "Exception thrown in awaitResult"
_PLAN = "\n=== Streaming Query ==="
_TRACEBACK = "Traceback (most recent call last):"
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z][A-Z0-9_]*)*)\]\s*")
_STATE = re.compile(r"\s*SQLSTATE: [0-9A-Z]{5}")
_FRAME = re.compile(r'^\s*File "(.+)", line (\d+)', re.MULTILINE)
_LAST_LINE = re.compile(r"^(?P<kind>[\w.$]+)(?:: (?P<message>.*))?$", re.MULTILINE)
_JAVA = re.compile(r"(?P<kind>(?:[a-z][\w$]*\.)+[A-Z][\w$]*(?:Error|Exception))(?:: (?P<message>.*))?")
_EXISTS = re.compile(r"Path (.+?) already exists")


@dataclass(frozen=True, slots=True)
class Failure:
    """Cause of a failed attempt."""

    reason: str
    condition: str = ""
    """Spark's error condition, for example PATH_ALREADY_EXISTS, or empty."""
    exception: str = ""
    java_status: int | None = None
    """Exit status of Spark's JVM if it ended before this process; a signal is negative."""


def describe_failure(error: BaseException, script: str) -> Failure:
    """Return the cause of an error. Never raises, although many PySpark exceptions query the JVM, which may be gone."""
    kind, where, condition = type(error).__name__, _script_line(_traceback_frames(error.__traceback__), script), ""
    try:
        status = _java_status(error)
        if status:
            reason = _single_line(f"the JVM {exit_phrase(status)}, then {kind}: {_error_text(error)}")
            return Failure(reason, "", kind, status)
        text = _error_text(error)
        condition = _error_condition(error, text)
        kind, message, inner = _innermost_error(error, kind, text)
        where = _script_line(inner, script) or where
        condition, message = _split_condition(message, condition)
        if _is_holdfast_error(error, kind, text):
            return Failure(_single_line(f"{message}{where}"), condition, kind)
        return Failure(_sentence(error, kind, message, condition, where), condition, kind)
    except Exception:  # noqa: BLE001 -- a failure to describe the error must not hide the error
        return Failure(_single_line(f"the script failed: {kind}{where}"), condition, kind)


def strip_own_frames(error: BaseException) -> None:
    """Remove the frames of Holdfast from the tracebacks of an error and of its causes."""
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        following.__traceback__ = _script_frames(following.__traceback__)
        following = following.__cause__ or following.__context__


def _script_frames(trace: TracebackType | None) -> TracebackType | None:
    shortened: TracebackType | None = None
    links = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_OWN):
            links.append(trace)
        trace = trace.tb_next
    for link in reversed(links):
        shortened = TracebackType(shortened, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return shortened


def _sentence(error: BaseException, kind: str, message: str, condition: str, where: str) -> str:
    if condition == "PATH_ALREADY_EXISTS" and (path := _EXISTS.search(message)) is not None:
        return _single_line(
            f"the output path {path[1]} already exists (PATH_ALREADY_EXISTS){where}: choose another output path"
        )
    if isinstance(error, KeyboardInterrupt):
        return _single_line(f"the script was interrupted{where}")
    suffix = f" ({condition})" if condition else ""
    colon = ": " if message else ""
    # A long message is cut in the middle of the sentence, because the line number at its end is worth more.
    room = SENTENCE_MAX - len("the script failed: ") - len(kind) - len(suffix) - len(where) - 2
    return _single_line(f"the script failed: {kind}{colon}{_truncate(message, max(room, 40))}{suffix}{where}")


def _innermost_error(error: BaseException, kind: str, text: str) -> tuple[str, str, list[tuple[str, int]]]:
    """Return type, message and frames of the innermost exception: Python's if the text has a traceback, else Java's."""
    if _TRACEBACK in text:
        inner = text.rpartition(_TRACEBACK)[2]
        frames = [(match[1], int(match[2])) for match in _FRAME.finditer(inner)]
        last = _LAST_LINE.search(inner)
        if last is not None:
            return last["kind"].rpartition(".")[2], last["message"] or "", frames
    java = _JAVA.search(text) if _comes_from_java(error) else None
    if java is not None and not _CONDITION.match(text):
        return java["kind"], java["message"] or "", []
    return kind, text, []


def _comes_from_java(error: BaseException) -> bool:
    return type(error).__module__.startswith(("py4j.", "pyspark."))


def _is_holdfast_error(error: BaseException, kind: str, text: str) -> bool:
    """Return True for an error of Holdfast, also if it was raised in a batch and passed through the JVM."""
    return isinstance(error, HoldfastError) or f"\n{HoldfastError.__module__}.{kind}: " in text


def _error_text(error: BaseException) -> str:
    """Return the message of an error, without the text that Spark wraps around the failure of a stream."""
    if isinstance(error, SyntaxError):
        return f"{error.msg} (line {error.lineno} of {os.path.basename(error.filename or '')})"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename is not None else error.strerror
    text = str(error).partition(_PLAN)[0]
    _, wrapped, inside = text.partition(_WRAPPED)
    text = _STATE.sub("", inside if wrapped else text).strip()
    if wrapped and not _CONDITION.match(text) and _TRACEBACK not in text:
        # Spark keeps only the message of a Java exception; the cause has its type.
        text = str(getattr(_unwrap_await_result(error), "_desc", None) or text)
    return _STATE.sub("", text).strip()


def _unwrap_await_result(error: BaseException) -> Any:
    """Return the first cause that is not an `awaitResult` wrapper around an error of another thread."""
    cause: Any = getattr(error, "_cause", None)
    while _AWAIT_RESULT in str(getattr(cause, "_desc", "")) and getattr(cause, "_cause", None) is not None:
        cause = cause._cause
    return cause


def _error_condition(error: BaseException, text: str) -> str:
    leading = _CONDITION.match(text)
    if leading is not None:
        return leading[1]
    ask: Any = getattr(error, "getCondition", None)
    with contextlib.suppress(Exception):
        condition = str((ask() if callable(ask) else None) or "")
        return "" if condition.startswith(("_LEGACY", "STREAM_FAILED")) else condition
    return ""


def _split_condition(message: str, condition: str) -> tuple[str, str]:
    """Return the condition at the start of the message, or the given one, and the message without it."""
    match = _CONDITION.match(message)
    return (match[1], message[match.end() :]) if match is not None else (condition, message)


def _traceback_frames(trace: TracebackType | None) -> list[tuple[str, int]]:
    return [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(trace)]


def _script_line(frames: list[tuple[str, int]], script: str) -> str:
    """Return the innermost line of the user's code: in the script or in a file beside it."""
    folder = os.path.dirname(os.path.abspath(script)) + os.sep
    for file, line in reversed(frames):
        if file == script or (os.path.abspath(file).startswith(folder) and "site-packages" not in file):
            return f" (line {line} of {os.path.basename(file)})"
    return ""


def _java_status(error: BaseException) -> int | None:
    """Return the exit status of the JVM, or None while it runs or if none was started."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    if process is None:
        return None
    if isinstance(error, ConnectionError) or type(error).__name__ in ("Py4JError", "Py4JNetworkError"):
        # The socket breaks shortly before the process can be reaped.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(JVM_EXIT_WAIT_S)
    status: int | None = process.poll()
    return status


def exit_phrase(status: int) -> str:
    """Return the end of a process in words, for example `was killed by SIGKILL`. The status of a signal is negative."""
    if status >= 0:
        return f"ended with exit code {status}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-status).name}"
    return f"was killed by signal {-status}"


def _single_line(text: str) -> str:
    return _truncate(" ".join(text.split()), SENTENCE_MAX)


def _truncate(text: str, size: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= size else text[: size - 1] + "…"
