"""Wrappers of queries in this driver's own JVM that do not commit each micro-batch: continuous and asynchronous execution.

The next attempt requires that the checkpoint has every batch that this attempt has reported. So only batches in the
checkpoint's commit log are reported here, and not those that Spark's progress names.
"""

import json
import time
from typing import Any

from holdfast.driver.queries.classic_query import ClassicQuery
from holdfast.driver.queries.triggers import MICRO_BATCH, Trigger
from holdfast.driver.stderr_log import log_line

EPOCH_CHECK_INTERVAL_S = 5.0
"""Interval at which the newest epoch is looked up, which lists a directory of the checkpoint."""
_CONTINUOUS = "ContinuousExecution"
_ASYNCHRONOUS = "AsyncProgressTrackingMicroBatchExecution"


class ContinuousQuery(ClassicQuery):
    """Query with a continuous trigger. Spark reports no progress of it, and its output is not divided by epochs."""

    def __init__(self, query: Any, java_query: Any, trigger: Trigger = MICRO_BATCH) -> None:
        super().__init__(query, java_query, trigger)
        self._checked_at = float("-inf")
        self._progress: dict[str, Any] | None = None

    def progress(self) -> dict[str, Any] | None:
        """Return the newest committed epoch and its offset in the form of a progress report."""
        if time.monotonic() - self._checked_at < EPOCH_CHECK_INTERVAL_S and not self.has_ended():
            return self._progress
        self._checked_at = time.monotonic()
        epoch = self._execution.commitLog().getLatestBatchId()
        if epoch.isDefined():
            offsets = self._execution.committedOffsets().values().iterator()
            source = {"endOffset": json.loads(offsets.next().json()) if offsets.hasNext() else None}
            self._progress = {"batchId": int(epoch.get()), "durationMs": {"addBatch": 0}, "sources": [source]}
        return self._progress

    def request_stop(self, *, urgent: bool = False) -> None:
        if not self.stopped_abruptly:
            self.stopped_abruptly = True
            log_line(f"stopping the query {self.label} within an epoch, whose rows are written again")


class AsynchronousQuery(ClassicQuery):
    """Query with asynchronous progress tracking, which commits some of its batches, and each only after it has ended."""

    def progress(self) -> dict[str, Any] | None:
        progress = super().progress()
        if progress is None:
            return None
        durable = self._execution.commitLog().writtenToDurableStorage().peekLast()
        next_batch = "addBatch" not in progress.get("durationMs", {})
        return {**progress, "batchId": (-1 if durable is None else int(durable)) + next_batch}


def wrap_java_query(query: Any, java_query: Any, trigger: Trigger) -> ClassicQuery:
    """Wrap a query of this driver's JVM according to the class that executes it."""
    try:
        execution = str(java_query.streamingQuery().getClass().getSimpleName())
    except Exception:  # noqa: BLE001 -- py4j raises various errors for missing members
        execution = ""
    wrapper: type[ClassicQuery] = {_CONTINUOUS: ContinuousQuery, _ASYNCHRONOUS: AsynchronousQuery}.get(execution, ClassicQuery)
    return wrapper(query, java_query, trigger)
