"""Logs are events with context: one JSON object a line in files, one readable line on a terminal.

Only entry points call `configure`; everything else is handed a `Log` with its context bound.
"""

import logging
import sys
from typing import Any, Protocol

import structlog


class Log(Protocol):
    def info(self, event: str, **context: Any) -> Any: ...
    def warning(self, event: str, **context: Any) -> Any: ...
    def error(self, event: str, **context: Any) -> Any: ...


def configure(*, component: str, **context: Any) -> Log:
    """To stderr: readable if that is a terminal, JSON lines if not. Library logs only from WARNING on."""
    terminal = sys.stderr.isatty()
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True, key="time")
    renderer: Any = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[structlog.processors.add_log_level, stamp, structlog.processors.format_exc_info, renderer],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    # kazoo and uvicorn speak through the standard library; only what may need a person is let through.
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format='{"event":"library","text":"%(message)s"}')
    log: Log = structlog.get_logger().bind(component=component, **context)
    return log
