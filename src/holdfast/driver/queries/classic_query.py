"""Wrapper of a query in this driver's own JVM. It depends on Spark's internals.

Spark's `stop` interrupts the running batch: the effects of a Python `foreachBatch` stay, the batch is not committed, and the
next attempt repeats it. A stream whose internal state is TERMINATED instead ends by itself after its current batch. However,
the stream also checks that state right before it executes a batch that it has planned and logged, and then interrupts itself.
So the state may be set only after that point, or between two batches. `ClassicQuery` takes the lock that a stream needs to plan
and to commit a batch, inspects the stack of the stream's thread, and sets the state if the position is safe.
"""

import json
import time
from typing import Any

from holdfast.driver.queries.spark_query import SparkQuery
from holdfast.driver.queries.triggers import MICRO_BATCH, Trigger
from holdfast.driver.stderr_log import log_line

PLANNING_WAIT_S = 0.5
"""Time to hold the progress lock while a stream plans. The stream can execute its batch meanwhile, but not commit it."""


class ClassicQuery(SparkQuery):
    """Query in this driver's own JVM, of classic Spark or of a Spark Connect server that runs there."""

    def __init__(self, query: Any, java_query: Any, trigger: Trigger = MICRO_BATCH) -> None:
        super().__init__(query, trigger)
        self._java = java_query
        self._stop_requested = False
        self._execution: Any = None
        self._thread: Any = None
        try:
            self._execution = self._java.streamingQuery()
            self._thread = self._execution.queryExecutionThread()
        except Exception as error:  # noqa: BLE001 -- py4j raises various errors for missing members
            log_line(
                f"cannot stop queries of this Spark version at a batch boundary ({type(error).__name__}); a stop is immediate"
            )

    def has_ended(self) -> bool:
        # `isActive` is false as soon as a stream is asked to stop, while its last batch still runs.
        return not (self._java.isActive() if self._thread is None else self._thread.isAlive())

    def has_failed(self) -> bool:
        return bool(self._java.exception().isDefined())

    def wait(self, timeout_s: float | None = None) -> None:
        if timeout_s is None:
            self._java.awaitTermination()
        else:
            self._java.awaitTermination(int(timeout_s * 1000))

    def progress(self) -> dict[str, Any] | None:
        # `recentProgress` would be hundreds of times slower.
        progress = self._java.lastProgress()
        return json.loads(progress.json()) if progress else None

    def request_stop(self, *, urgent: bool = False) -> None:
        if urgent:
            self.stopped_abruptly = True
        if self._stop_requested or self.stopped_abruptly:
            return
        try:
            if self._thread is not None and _calls_stay_on_one_thread():
                self._stop_requested = self._mark_batch_as_last()
            else:
                self.stopped_abruptly = True
        except Exception as error:  # noqa: BLE001 -- py4j raises various errors
            self.stopped_abruptly = True
            log_line(f"stopping the query {self.label} immediately: its position is unknown ({type(error).__name__})")

    def stop_if_idle(self) -> None:
        stop = self.stopped_abruptly or (self._stop_requested and self._stack_position().sleeps_between_batches)
        if stop and not self.has_ended():
            self._java.stop()

    def _mark_batch_as_last(self) -> bool:
        """Set the stream's state to TERMINATED if that is safe. Return True if its current batch is now its last one."""
        lock, state = self._execution.awaitProgressLock(), self._execution.state()
        terminated = getattr(_java_class(f"{state.get().getClass().getPackageName()}.TERMINATED$"), "MODULE$")
        if not lock.tryLock():
            return False  # the stream plans or commits a batch
        try:
            give_up_at = time.monotonic() + PLANNING_WAIT_S
            while (position := self._stack_position()).planning and time.monotonic() < give_up_at:
                pass
            before = state.get()
            if not position.safe_to_stop:
                return False
            state.compareAndSet(before, terminated)
            if self._stack_position().safe_to_stop:
                return True
            # The stream has begun to plan in between and waits for the lock. It must not see the new state there.
            state.compareAndSet(terminated, before)
            return False
        finally:
            lock.unlock()

    def _stack_position(self) -> "_StackPosition":
        """Return the position of the stream's thread. Uses one py4j call for the whole stack instead of one per frame."""
        throwable = _java_class("java.lang.Throwable")()
        throwable.setStackTrace(self._thread.getStackTrace())
        return _StackPosition(str(_java_class("org.apache.spark.util.Utils").exceptionString(throwable)))


class _StackPosition:
    """Position of a stream, derived from the stack of its thread."""

    def __init__(self, stack: str) -> None:
        self._stack = stack

    @property
    def safe_to_stop(self) -> bool:
        """True if the stream checks its state next between two batches."""
        if self._contains("executeOneBatch"):
            executes = self._contains("withNewExecutionId") or self._contains("withProgressLocked")
            return executes if self._contains("runBatch") else self._waits_for_data
        return True

    @property
    def planning(self) -> bool:
        return self._contains("runBatch") and not self.safe_to_stop

    @property
    def sleeps_between_batches(self) -> bool:
        return self._contains("runActivatedStream") and not self._contains("executeOneBatch")

    @property
    def _waits_for_data(self) -> bool:
        top = self._stack.split("\n", 2)[1:2]
        return "Thread.sleep" in "".join(top) and not self._contains("constructNextBatch")

    def _contains(self, method: str) -> bool:
        return f".{method}(" in self._stack or f"$anonfun${method}$" in self._stack


def _java_class(name: str) -> Any:
    from pyspark import SparkContext

    return getattr(SparkContext._jvm, name)


def _calls_stay_on_one_thread() -> bool:
    """Return True if py4j pins each Python thread to one Java thread. Only then can this thread release a lock it took."""
    from pyspark import SparkContext

    return type(SparkContext._gateway).__name__ == "ClientServer"
