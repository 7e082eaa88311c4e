"""The Master of a standalone Spark cluster, as the driver sees it that was registered there.

A driver outlives its Master: it goes on with the executors that it has. But a Master that was started again, without recovery,
does not know the driver any more. It ends the driver's executors as soon as their workers are back, and gives it no others; and
the driver would wait for some, for ever. So while there is no executor the Master is asked whether it knows this application.
"""

import sys
import time
from typing import Any

PATIENCE_S = 30.0
"""How long a driver without executors waits for a Master that knows it. One that takes over with recovery needs some time."""


class Master:
    def __init__(self) -> None:
        self._question: Any = None
        """A Scala future, while the Master has not answered."""
        self._alone_since: float | None = None

    def look(self) -> str | None:
        """Why this driver will never have executors again; None as long as it may. Returns soon. Raises what py4j does."""
        context = _context()
        if context is None or not context.master.startswith("spark://"):
            return None
        backend = context._jsc.sc().schedulerBackend()
        if not backend.getExecutorIds().isEmpty() or self._knows_us(backend):
            self._alone_since = None
            return None
        now = time.monotonic()
        if self._alone_since is None:
            self._alone_since = now
        if now - self._alone_since < PATIENCE_S:
            return None
        return f"its Spark Master went away while it ran ({context.master}), and its executors are gone"

    def _knows_us(self, backend: Any) -> bool:
        """By its answer to an order to end no executors at all, which it takes from those it knows. Silence counts as no."""
        if self._question is None:
            self._question = backend.client().killExecutors(_nothing())
        if not self._question.isCompleted():
            return False
        answer, self._question = self._question.value().get(), None
        return bool(answer.isSuccess() and answer.get())


def _context() -> Any:
    """The SparkContext of this process, once its Java part is there."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    active = getattr(context, "_active_spark_context", None)
    return active if getattr(active, "_jsc", None) is not None else None


def _nothing() -> Any:
    """Scala's empty list."""
    from pyspark import SparkContext

    return getattr(getattr(SparkContext._jvm, "scala.collection.immutable.Nil$"), "MODULE$")
