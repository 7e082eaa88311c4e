"""Structured logging: JSON lines in files, readable lines on a terminal.

Only entry points call `configure_logging`. All other code receives a `Log` with its context bound.
"""

import contextlib
import json
import logging
import sys
from typing import Any, Protocol, TextIO, cast

import structlog


class _ErrorTolerantStream:
    """Stream that drops output it cannot write, so that a full disk does not stop the process that logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            return self._stream.write(text)
        return 0

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


class _JsonLineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({"event": "library", "logger": record.name, "text": super().format(record)})


class Log(Protocol):
    def info(self, event: str, **context: Any) -> Any: ...
    def warning(self, event: str, **context: Any) -> Any: ...
    def error(self, event: str, **context: Any) -> Any: ...


def configure_logging(*, component: str, **context: Any) -> Log:
    """Log to stderr: readable lines on a terminal, JSON lines otherwise. Other libraries log only errors."""
    terminal = sys.stderr.isatty()
    timestamper = structlog.processors.TimeStamper(fmt="iso", utc=True, key="time")
    renderer: Any = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[structlog.processors.add_log_level, timestamper, structlog.processors.format_exc_info, renderer],
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, _ErrorTolerantStream(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(cast(TextIO, _ErrorTolerantStream(sys.stderr)))
    handler.setFormatter(_JsonLineFormatter())
    logging.basicConfig(level=logging.ERROR, handlers=[handler], force=True)
    log: Log = structlog.get_logger().bind(component=component, **context)
    return log
