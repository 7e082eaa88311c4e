"""Logs are events with context: one JSON object a line in files, one readable line on a terminal.

Only entry points call `configure`; everything else is handed a `Log` with its context bound.
"""

import contextlib
import json
import logging
import sys
from typing import Any, Protocol, TextIO, cast

import structlog


class _Forgiving:
    """A stream that drops what cannot be written: a full disk must not stop whoever has something to say."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            return self._stream.write(text)
        return 0

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


class _JsonLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({"event": "library", "logger": record.name, "text": super().format(record)})


class Log(Protocol):
    def info(self, event: str, **context: Any) -> Any: ...
    def warning(self, event: str, **context: Any) -> Any: ...
    def error(self, event: str, **context: Any) -> Any: ...


def configure(*, component: str, **context: Any) -> Log:
    """To stderr: readable if that is a terminal, JSON lines if not. Of libraries, only errors."""
    terminal = sys.stderr.isatty()
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True, key="time")
    renderer: Any = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[structlog.processors.add_log_level, stamp, structlog.processors.format_exc_info, renderer],
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, _Forgiving(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(cast(TextIO, _Forgiving(sys.stderr)))
    handler.setFormatter(_JsonLine())
    logging.basicConfig(level=logging.ERROR, handlers=[handler], force=True)
    log: Log = structlog.get_logger().bind(component=component, **context)
    return log
