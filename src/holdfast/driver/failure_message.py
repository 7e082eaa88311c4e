"""What an exception says, in one sentence for a person. PySpark wraps the cause in pages of text; the cause is what counts."""

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
JAVA_ENDS_S = 2.0
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OWN = tuple(os.path.join(_PACKAGE, name, "") for name in ("driver", "job"))
_WRAPPED = " terminated with exception: "
_WAITED = "Exception thrown in awaitResult"
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
    reason: str
    condition: str = ""
    """Spark's name for it, its "error class"."""
    exception: str = ""
    java_status: int | None = None
    """How Spark's Java process ended, if it did before this one."""


def describe(error: BaseException, script: str) -> Failure:
    """Never raises, even if Java is gone, which half of PySpark's exceptions ask for their own text."""
    kind, where, condition = type(error).__name__, _where(_frames(error.__traceback__), script), ""
    try:
        status = _java_status(error)
        if status:
            return Failure(_one_line(f"its Java process {_ended(status)}, and then {kind}: {_text(error)}"), "", kind, status)
        text = _text(error)
        condition = _condition_of(error, text)
        kind, message, inner = _cause(error, kind, text)
        where = _where(inner, script) or where
        condition, message = _leading(message, condition)
        if _is_own(error, kind, text):
            return Failure(_one_line(f"{message}{where}"), condition, kind)
        return Failure(_sentence(error, kind, message, condition, where), condition, kind)
    except Exception:  # noqa: BLE001 what went wrong with the words must not hide what went wrong
        return Failure(_one_line(f"its script failed: {kind}{where}"), condition, kind)


def without_own_frames(error: BaseException) -> None:
    """What the script's author reads begins in the script."""
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        following.__traceback__ = _kept(following.__traceback__)
        following = following.__cause__ or following.__context__


def _kept(trace: TracebackType | None) -> TracebackType | None:
    kept: TracebackType | None = None
    links = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_OWN):
            links.append(trace)
        trace = trace.tb_next
    for link in reversed(links):
        kept = TracebackType(kept, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return kept


def _sentence(error: BaseException, kind: str, message: str, condition: str, where: str) -> str:
    if condition == "PATH_ALREADY_EXISTS" and (path := _EXISTS.search(message)) is not None:
        return _one_line(f"its output path {path[1]} exists already (PATH_ALREADY_EXISTS){where}")
    if isinstance(error, KeyboardInterrupt):
        return _one_line(f"it was interrupted{where}")
    known = f" ({condition})" if condition else ""
    colon = ": " if message else ""
    # Whatever must be cut is the middle: where it happened is worth more than the end of a long message.
    room = SENTENCE_MAX - len("its script failed: ") - len(kind) - len(known) - len(where) - 2
    return _one_line(f"its script failed: {kind}{colon}{_cut(message, max(room, 40))}{known}{where}")


def _cause(error: BaseException, kind: str, text: str) -> tuple[str, str, list[tuple[str, int]]]:
    """What kind of exception it was in the end, what it said, and where: Python's if there is a traceback, otherwise Java's."""
    if _TRACEBACK in text:
        inner = text.rpartition(_TRACEBACK)[2]
        frames = [(match[1], int(match[2])) for match in _FRAME.finditer(inner)]
        last = _LAST_LINE.search(inner)
        if last is not None:
            return last["kind"].rpartition(".")[2], last["message"] or "", frames
    java = _JAVA.search(text) if _is_from_java(error) else None
    if java is not None and not _CONDITION.match(text):
        return java["kind"], java["message"] or "", []
    return kind, text, []


def _is_from_java(error: BaseException) -> bool:
    return type(error).__module__.startswith(("py4j.", "pyspark."))


def _is_own(error: BaseException, kind: str, text: str) -> bool:
    """Whether it is an error of Holdfast, whose text is a sentence. One that was raised in a batch has come through Java."""
    return isinstance(error, HoldfastError) or f"\n{HoldfastError.__module__}.{kind}: " in text


def _text(error: BaseException) -> str:
    """What it says, out of the envelope of a failed stream."""
    if isinstance(error, SyntaxError):
        return f"{error.msg} (line {error.lineno} of {os.path.basename(error.filename or '')})"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename is not None else error.strerror
    text = str(error).partition(_PLAN)[0]
    _, wrapped, inside = text.partition(_WRAPPED)
    text = _STATE.sub("", inside if wrapped else text).strip()
    if wrapped and not _CONDITION.match(text) and _TRACEBACK not in text:
        # Of a Java exception Spark keeps the message only; its type is in the cause.
        text = str(getattr(_cause_that_speaks(error), "_desc", None) or text)
    return _STATE.sub("", text).strip()


def _cause_that_speaks(error: BaseException) -> Any:
    """Answers of other threads come wrapped, and what is around them says only that."""
    cause: Any = getattr(error, "_cause", None)
    while _WAITED in str(getattr(cause, "_desc", "")) and getattr(cause, "_cause", None) is not None:
        cause = cause._cause
    return cause


def _condition_of(error: BaseException, text: str) -> str:
    leading = _CONDITION.match(text)
    if leading is not None:
        return leading[1]
    ask: Any = getattr(error, "getCondition", None)
    with contextlib.suppress(Exception):
        condition = str((ask() if callable(ask) else None) or "")
        return "" if condition.startswith(("_LEGACY", "STREAM_FAILED")) else condition
    return ""


def _leading(message: str, condition: str) -> tuple[str, str]:
    """The condition that leads the innermost message, if one does, and the message without it."""
    match = _CONDITION.match(message)
    return (match[1], message[match.end() :]) if match is not None else (condition, message)


def _frames(trace: TracebackType | None) -> list[tuple[str, int]]:
    return [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(trace)]


def _where(frames: list[tuple[str, int]], script: str) -> str:
    """The innermost line that the script's author wrote: in the script, or in what lies beside it."""
    folder = os.path.dirname(os.path.abspath(script)) + os.sep
    for file, line in reversed(frames):
        if file == script or (os.path.abspath(file).startswith(folder) and "site-packages" not in file):
            return f" (line {line} of {os.path.basename(file)})"
    return ""


def _java_status(error: BaseException) -> int | None:
    """How Java ended, or None while it lives or if there never was one."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    if process is None:
        return None
    if isinstance(error, ConnectionError) or type(error).__name__ in ("Py4JError", "Py4JNetworkError"):
        # Its socket breaks a moment before it can be waited for.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(JAVA_ENDS_S)
    status: int | None = process.poll()
    return status


def _ended(status: int) -> str:
    if status >= 0:
        return f"ended with exit code {status}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-status).name}"
    return f"was killed by signal {-status}"


def _one_line(text: str) -> str:
    return _cut(" ".join(text.split()), SENTENCE_MAX)


def _cut(text: str, size: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= size else text[: size - 1] + "…"
