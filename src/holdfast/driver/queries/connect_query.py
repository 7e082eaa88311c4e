"""Wrapper of a query in a Spark Connect server outside of this process, which offers no access to the stream itself."""

import json
from typing import Any

from holdfast.driver.queries.spark_query import SparkQuery, call_original
from holdfast.driver.queries.triggers import MICRO_BATCH, Trigger
from holdfast.driver.stderr_log import log_line


class ConnectQuery(SparkQuery):
    """Query of a remote server. It is stopped when a batch has ended; the server may have begun the next batch by then."""

    outlives_driver = True

    def __init__(self, query: Any, trigger: Trigger = MICRO_BATCH) -> None:
        super().__init__(query, trigger)
        self._batches_at_request: tuple[int | None] | None = None
        """Last batch that had ended at the time of the stop request; None before the request."""

    def has_ended(self) -> bool:
        return not call_original(self._query, "isActive")

    def has_failed(self) -> bool:
        return call_original(self._query, "exception") is not None

    def wait(self, timeout_s: float | None = None) -> None:
        call_original(self._query, "awaitTermination", timeout_s)

    def progress(self) -> dict[str, Any] | None:
        progress = self._query.lastProgress
        return json.loads(progress.json) if progress is not None else None

    def request_stop(self, *, urgent: bool = False) -> None:
        if self.stopped_abruptly:
            return
        if urgent or self._trigger.kind == "continuous" or self._is_between_batches():
            self.stopped_abruptly = True
            log_line(f"stopping the query {self.label}; Spark Connect cannot tell whether a batch has begun just now")
            self._query.stop()

    def _is_between_batches(self) -> bool:
        """Return True if no trigger is active, or if a batch has ended since the stop request."""
        ended = ((self.progress() or {}).get("batchId"),)
        if self._batches_at_request is None:
            self._batches_at_request = ended
        return ended != self._batches_at_request or not self._query.status["isTriggerActive"]
