"""Streaming queries of this process, and waiting for their end."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.driver.queries.query_wrapper import wrap_query
from holdfast.driver.queries.spark_query import SparkQuery
from holdfast.driver.queries.triggers import MICRO_BATCH, Trigger
from holdfast.driver.stderr_log import log_line

WAIT_S = 0.25
DRAIN_POLL_S = 0.05
ENDED_MAX = 20
"""Ended queries that are kept for the progress report, and failed ones whose error is raised later."""


class ActiveQueries:
    """Active queries in order of start. Only a bounded number of ended queries is kept, because scripts may start many."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: list[SparkQuery] = []
        self._failures: list[SparkQuery] = []
        self._ended: deque[SparkQuery] = deque(maxlen=ENDED_MAX)
        self._failed_at: dict[str, float] = {}
        """Label of a failed query → time on the monotonic clock. A later query with the same label replaces it."""
        self._started = 0
        self.any_failed = False
        self.awaited_by_script = False
        """True once the script itself has waited for a query. It then knows of failures up to that point."""
        self.discover: Callable[[], list[Any]] = list
        """Callback that returns queries started outside of Python since its last call."""

    def add(self, query: Any, trigger: Trigger = MICRO_BATCH) -> SparkQuery:
        wrapped = wrap_query(query, trigger)
        with self._lock:
            wrapped.number = self._started = self._started + 1
            self._live.append(wrapped)
            self._failed_at.pop(wrapped.label, None)
            self._ended.clear()
        return wrapped

    @property
    def any_started(self) -> bool:
        return self._started > 0

    @property
    def live(self) -> list[SparkQuery]:
        """Queries that `refresh` has not found ended. Takes no lock and makes no calls, for use in signal handlers."""
        return list(self._live)

    def refresh(self) -> list[SparkQuery]:
        """Discover new queries, move ended ones out of the list, and return the active ones."""
        for query in self.discover():
            self.add(query)
        for active in self.live:
            if active.has_ended():
                self._remove_ended(active)
        return self.live

    def snapshot(self) -> tuple[list[SparkQuery], list[SparkQuery]]:
        """Return the active queries, and those that have ended since the last start."""
        with self._lock:
            return list(self._live), sorted(self._ended, key=lambda query: query.number)

    def lasting_failures(self, age_s: float) -> list[str]:
        """Return the labels of queries that failed at least `age_s` ago and have not been started again."""
        with self._lock:
            return [label for label, at in self._failed_at.items() if time.monotonic() - at >= age_s]

    def wait_for_all(self) -> None:
        """Block until no query is active.

        Raises the error of a failed query, except failures before this call if the script has waited for queries itself.
        """
        if self.awaited_by_script:
            self._failures.clear()
        while True:
            live = self.refresh()
            for query in list(self._failures):
                query.wait()
            if not live:
                return
            live[0].wait(WAIT_S)

    def drain(self) -> None:
        """Block until no query is active, and ignore errors. For use after a stop request."""
        with contextlib.suppress(Exception):  # the JVM may be gone, and the queries with it
            while self.refresh():
                time.sleep(DRAIN_POLL_S)

    def _remove_ended(self, query: SparkQuery) -> None:
        failed = query.has_failed()
        with self._lock:
            if query not in self._live:
                return  # another thread has removed it
            if failed and len(self._failures) < ENDED_MAX:
                self._failures.append(query)
                self._failed_at[query.label] = time.monotonic()
            self._live.remove(query)
            self._ended.append(query)
            self.any_failed = self.any_failed or failed
        if failed:
            log_line(f"the query {query.label} has failed")


def wait_for_queries(queries: Iterable[Any]) -> None:
    """Block until all queries have ended. Raises the error of the first failed query, even if others are still active."""
    live = list(queries)
    while live:
        for query in list(live):
            if not query.isActive:
                query.awaitTermination()
                live.remove(query)
        if live:
            live[0].awaitTermination(WAIT_S)
