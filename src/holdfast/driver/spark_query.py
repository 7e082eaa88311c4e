"""One streaming query, as this package sees it. The only module that knows Spark's internals.

Spark's own `stop` interrupts the batch that runs: what a Python `foreachBatch` did is done, but not committed, and the next
attempt does it again. A stream whose internal state is TERMINATED ends by itself instead, after the batch that it is at. But it
also looks at that state just before it executes a batch that it has planned and written down, and then interrupts itself. So
the state may only be set while the stream is past that point, or between two batches. `Classic` holds the lock that a stream
needs to plan a batch and to commit one, looks where the stream's thread is, and sets the state if that is a good place.
"""

import inspect
import json
import time
from typing import Any

from holdfast.driver.stderr_log import say

PLANNING_S = 0.5
"""How long a stream that plans is watched with its lock in hand. It can execute the batch meanwhile, but not commit it."""


def of(query: Any) -> "Query":
    return Classic(query) if hasattr(query, "_jsq") else Query(query)


class Query:
    """A query of Spark Connect: its stream lives in the server, and nobody can reach into that."""

    def __init__(self, query: Any) -> None:
        self._query = query
        self.label = str(query.name or query.id)
        self.number = 0
        """Its place in the order of starts."""
        self.abrupt = False
        """Whether it was stopped within a batch, for want of a better way."""
        self._told = False

    def ended(self) -> bool:
        return not self._query.isActive

    def failed(self) -> bool:
        return self._unnoticed("exception") is not None

    def wait(self, timeout_s: float | None = None) -> None:
        """Raises what it failed of, if it did."""
        self._unnoticed("awaitTermination", timeout_s)

    def progress(self) -> dict[str, Any] | None:
        progress = self._query.lastProgress
        return json.loads(progress.json) if progress is not None else None

    def tell(self) -> None:
        """That it is to stop: again and again, until it has ended. Returns soon."""
        if not self._told:
            self._told = self.abrupt = True
            say(f"the query {self.label} is stopped at once: with Spark Connect, a batch cannot be waited for")
            self._query.stop()

    def wake(self) -> None:
        """What has been told and sleeps until its next trigger. Returns when it has ended."""

    def _unnoticed(self, method: str, *args: Any) -> Any:
        """What the script calls is taken note of; what is called here is not."""
        return inspect.unwrap(getattr(type(self._query), method))(self._query, *args)


class Classic(Query):
    """A query in this driver's own Java process."""

    def __init__(self, query: Any) -> None:
        super().__init__(query)
        self._java = query._jsq
        self._execution: Any = None
        self._thread: Any = None
        try:
            self._execution = self._java.streamingQuery()
            self._thread = self._execution.queryExecutionThread()
        except Exception as error:  # noqa: BLE001 py4j has many words for what is not there
            say(f"this Spark's streams look different inside ({type(error).__name__}): they are stopped at once when asked to")

    def ended(self) -> bool:
        # `isActive` is false from the moment a stream is told to stop, while its last batch still runs.
        return not (self._java.isActive() if self._thread is None else self._thread.isAlive())

    def failed(self) -> bool:
        return bool(self._java.exception().isDefined())

    def wait(self, timeout_s: float | None = None) -> None:
        if timeout_s is None:
            self._java.awaitTermination()
        else:
            self._java.awaitTermination(int(timeout_s * 1000))

    def progress(self) -> dict[str, Any] | None:
        # Never `recentProgress`, which is hundreds of times as slow.
        progress = self._java.lastProgress()
        return json.loads(progress.json()) if progress else None

    def tell(self) -> None:
        if self._told or self.abrupt:
            return
        try:
            if self._thread is not None and _calls_stay_on_one_thread():
                self._told = self._tell()
            else:
                self.abrupt = True
        except Exception as error:  # noqa: BLE001 as above
            self.abrupt = True
            say(f"the query {self.label} is stopped at once: a batch cannot be waited for ({type(error).__name__})")

    def wake(self) -> None:
        if (self.abrupt or (self._told and self._place().sleeps_between_batches)) and not self.ended():
            self._java.stop()

    def _tell(self) -> bool:
        """Whether the stream knows now that this batch is its last."""
        lock, state = self._execution.awaitProgressLock(), self._execution.state()
        over = getattr(_java_class(f"{state.get().getClass().getPackageName()}.TERMINATED$"), "MODULE$")
        if not lock.tryLock():
            return False  # it plans a batch, or commits one
        try:
            give_up_at = time.monotonic() + PLANNING_S
            while (place := self._place()).plans and time.monotonic() < give_up_at:
                pass
            before = state.get()
            if not place.good:
                return False
            state.compareAndSet(before, over)
            if self._place().good:
                return True
            # It has begun to plan in between, and waits for the lock: it must not find out now.
            state.compareAndSet(over, before)
            return False
        finally:
            lock.unlock()

    def _place(self) -> "_Place":
        """Where the stream's thread is, by one question instead of one for each frame."""
        witness = _java_class("java.lang.Throwable")()
        witness.setStackTrace(self._thread.getStackTrace())
        return _Place(str(_java_class("org.apache.spark.util.Utils").exceptionString(witness)))


class _Place:
    """What the stack of a stream's thread says."""

    def __init__(self, stack: str) -> None:
        self._stack = stack

    @property
    def good(self) -> bool:
        """Whether it will look at its state next when it is between two batches."""
        if self._in("executeOneBatch"):
            executes = self._in("withNewExecutionId") or self._in("withProgressLocked")
            return executes if self._in("runBatch") else self._waits_for_data
        return True

    @property
    def plans(self) -> bool:
        return self._in("runBatch") and not self.good

    @property
    def sleeps_between_batches(self) -> bool:
        return self._in("runActivatedStream") and not self._in("executeOneBatch")

    @property
    def _waits_for_data(self) -> bool:
        top = self._stack.split("\n", 2)[1:2]
        return "Thread.sleep" in "".join(top) and not self._in("constructNextBatch")

    def _in(self, method: str) -> bool:
        return f".{method}(" in self._stack or f"$anonfun${method}$" in self._stack


def _java_class(name: str) -> Any:
    from pyspark import SparkContext

    return getattr(SparkContext._jvm, name)


def _calls_stay_on_one_thread() -> bool:
    """Whoever takes a lock must be able to give it back: all calls of a Python thread go to one Java thread, by default."""
    from pyspark import SparkContext

    return type(SparkContext._gateway).__name__ == "ClientServer"
