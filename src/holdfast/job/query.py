"""One streaming query, as this package sees it. The only module that knows Spark's internals.

Spark's own `stop` interrupts the batch that runs: what a Python `foreachBatch` did is done, but not committed, and the
next attempt does it again. So a stream is told that it is over by its internal state, which it looks at between two
batches only.
"""

import json
from typing import Any

from holdfast.job.log import say

_IN_A_BATCH = "executeOneBatch"
"""The method of a stream's thread that looks at the state first, then plans, runs and commits one batch."""


def of(query: Any) -> "Query":
    return Classic(query) if hasattr(query, "_jsq") else Query(query)


class Query:
    """A query of Spark Connect: its stream lives in the server, and nobody can reach into that."""

    def __init__(self, query: Any) -> None:
        self._query = query
        self.label = str(query.name or query.id)
        self.number = 0
        """Its place in the order of starts."""
        self._told = False

    def ended(self) -> bool:
        return not self._query.isActive

    def failed(self) -> bool:
        return self._query.exception() is not None

    def wait(self, timeout_s: float | None = None) -> None:
        """Raises what it failed of, if it did."""
        self._query.awaitTermination(timeout_s)

    def progress(self) -> dict[str, Any] | None:
        progress = self._query.lastProgress
        return json.loads(progress.json) if progress is not None else None

    def stop(self) -> None:
        """Once or again, until it has ended."""
        if not self._told:
            self._told = True
            say(f"the query {self.label} is stopped at once: with Spark Connect, a batch cannot be waited for")
            self._query.stop()


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

    def stop(self) -> None:
        if self._thread is not None and self._let_the_batch_end():
            return
        if not self.ended():
            self._java.stop()

    def _let_the_batch_end(self) -> bool:
        """True while a batch is being made. Then none begins, and a thread that sleeps until a trigger can be woken."""
        try:
            if not self._told:
                state = self._execution.state()
                over = f"{state.get().getClass().getPackageName()}.TERMINATED$"
                state.set(getattr(_java(over), "MODULE$"))
                self._told = True
            return _IN_A_BATCH in self._stack() or bool(self._java.status().isTriggerActive())
        except Exception as error:  # noqa: BLE001 as above
            if not self.ended():
                say(f"the query {self.label} is stopped at once: a batch cannot be waited for ({type(error).__name__})")
            return False

    def _stack(self) -> str:
        """Where the stream's thread is, in one answer instead of one for each frame."""
        witness = _java("java.lang.Throwable")()
        witness.setStackTrace(self._thread.getStackTrace())
        return str(_java("org.apache.spark.util.Utils").exceptionString(witness))


def _java(name: str) -> Any:
    from pyspark import SparkContext

    return getattr(SparkContext._jvm, name)
