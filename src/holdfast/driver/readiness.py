"""Readiness of a driver: announces once to the runner that the job has started, so that its phase becomes RUNNING.

A job has started when its driver has a SparkContext, a Connect session or a query. A script that does not use Spark has none
of them, so a time limit applies too. The limit is short if nothing suggests that the script uses Spark.
"""

import contextlib
import sys
import time
from collections.abc import Callable
from typing import Any

from holdfast.driver.queries.active_queries import ActiveQueries
from holdfast.driver_protocol.control_files import READY_FILE, write_control_file

PLAIN_SCRIPT_S = 1.0
"""Time limit for a script that neither mentions nor imports PySpark."""
UNUSED_SPARK_S = 120.0
"""Time limit for any other script that does not start Spark. Long enough for a JVM to start on an overloaded machine."""
_SPARK_IMPORTS = (b"pyspark", b"holdfast.job")


class Readiness:
    """Writer of `control/ready.json`."""

    def __init__(self, directory: str, queries: ActiveQueries, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._queries = queries
        self._clock = clock
        self._began_at: float | None = None
        self._mentions_spark = False
        self._reported = not directory

    def begin_script(self, script: str) -> None:
        """Start the time limits: the first line of the script runs next."""
        with contextlib.suppress(OSError), open(script, "rb") as file:
            source = file.read()
            self._mentions_spark = any(word in source for word in _SPARK_IMPORTS)
        self._began_at = self._clock()

    def report(self) -> None:
        """Write the announcement once the job has started. A write that failed is tried again by the next call."""
        if not self._reported and (reason := self._started_by()):
            self._reported = write_control_file(self._directory, READY_FILE, {"reason": reason})

    def _started_by(self) -> str:
        """Return why the job counts as started, or an empty string."""
        if self._queries.any_started:
            return "a query has started"
        context = _spark_context()
        if context is not None:
            # While its JVM part is missing, Spark waits for its master, for example for a place in a queue.
            return "Spark has started" if getattr(context, "_jsc", None) is not None else ""
        if _has_connect_session():
            return "the script is connected to Spark"
        if self._began_at is None:
            return ""
        uses_spark = self._mentions_spark or "pyspark" in sys.modules
        limit_s = UNUSED_SPARK_S if uses_spark else PLAIN_SCRIPT_S
        return f"the script has run for {limit_s:g} s without Spark" if self._clock() - self._began_at >= limit_s else ""


def _spark_context() -> Any:
    """Return the SparkContext of this process, also while it is being created, or None."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return getattr(context, "_active_spark_context", None)


def _has_connect_session() -> bool:
    session = getattr(sys.modules.get("pyspark.sql.connect.session"), "SparkSession", None)
    return getattr(session, "_default_session", None) is not None
