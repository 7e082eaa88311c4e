"""Check of the connection to the Master of a standalone Spark cluster.

A driver survives the loss of its Master and continues with the executors that it has. But a Master that restarts without
recovery no longer knows the driver. It stops the driver's executors as soon as their workers reconnect and never assigns new
ones, so the driver would wait forever. Therefore, while the driver has no executors, this module asks the Master whether the
application is still registered.
"""

import sys
import time
from typing import Any

NO_EXECUTORS_TIMEOUT_S = 30.0
"""Time without executors and without a registration after which the driver gives up. A Master needs time for recovery."""


class MasterConnection:
    """Tracker of the time without executors and without a registration."""

    def __init__(self) -> None:
        self._pending_reply: Any = None
        """Scala future of the Master's reply, or None if no request is in flight."""
        self._no_executors_since: float | None = None

    def check(self) -> str | None:
        """Return the reason why this driver will never get executors again, or None. Does not block. Raises py4j errors."""
        context = _active_context()
        if context is None or not context.master.startswith("spark://"):
            return None
        backend = context._jsc.sc().schedulerBackend()
        if not backend.getExecutorIds().isEmpty() or self._is_registered(backend):
            self._no_executors_since = None
            return None
        now = time.monotonic()
        if self._no_executors_since is None:
            self._no_executors_since = now
        if now - self._no_executors_since < NO_EXECUTORS_TIMEOUT_S:
            return None
        return f"the Spark Master was lost while the job was running ({context.master}), and no executors are left"

    def _is_registered(self, backend: Any) -> bool:
        """Ask the Master to kill an empty list of executors, which it confirms only to registered applications.

        No reply yet counts as not registered.
        """
        if self._pending_reply is None:
            self._pending_reply = backend.client().killExecutors(_empty_scala_list())
        if not self._pending_reply.isCompleted():
            return False
        answer, self._pending_reply = self._pending_reply.value().get(), None
        return bool(answer.isSuccess() and answer.get())


def _active_context() -> Any:
    """Return the SparkContext of this process, or None before its JVM part exists."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    active = getattr(context, "_active_spark_context", None)
    return active if getattr(active, "_jsc", None) is not None else None


def _empty_scala_list() -> Any:
    from pyspark import SparkContext

    return getattr(getattr(SparkContext._jvm, "scala.collection.immutable.Nil$"), "MODULE$")
