"""The streaming queries that this process has started, and waiting for them."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.driver import spark_query as one
from holdfast.driver.stderr_log import say

WAIT_S = 0.25
SETTLE_S = 0.05
ENDED_MAX = 20


class Queries:
    """In the order in which they were started. What has ended is forgotten, so that a script may start them for ever."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: list[one.Query] = []
        self._failed: list[one.Query] = []
        self._ended: deque[one.Query] = deque(maxlen=ENDED_MAX)
        self._started = 0
        self.any_failed = False
        self.awaited = False
        """Whether the script has ever waited for a query itself. Then what a query failed of was its to know."""
        self.find: Callable[[], list[Any]] = list
        """Gives the queries that were started behind Python's back since it was asked last."""

    def add(self, query: Any) -> None:
        started = one.of(query)
        with self._lock:
            started.number = self._started = self._started + 1
            self._live.append(started)
            self._ended.clear()

    @property
    def any_started(self) -> bool:
        return self._started > 0

    @property
    def live(self) -> list[one.Query]:
        """Those that have not been seen to end. It asks nobody and takes no lock: a signal handler calls it."""
        return list(self._live)

    def look(self) -> list[one.Query]:
        """Those that have not ended, after a look at each."""
        for found in self.find():
            self.add(found)
        for query in self.live:
            if query.ended():
                self._forget(query)
        return self.live

    def picture(self) -> tuple[list[one.Query], list[one.Query]]:
        """Those that live, and those that have ended since the last one was started."""
        with self._lock:
            return list(self._live), sorted(self._ended, key=lambda query: query.number)

    def wait(self) -> None:
        """Until none is left. Raises what one failed of, unless it did so while the script waited for its queries itself."""
        if self.awaited:
            self._failed.clear()
        while True:
            live = self.look()
            for query in list(self._failed):
                query.wait()
            if not live:
                return
            live[0].wait(WAIT_S)

    def settle(self) -> None:
        """Until none is left, whatever becomes of them. For the time in which all are told to stop."""
        with contextlib.suppress(Exception):  # Java may be gone, and the queries with it
            while self.look():
                time.sleep(SETTLE_S)

    def _forget(self, query: one.Query) -> None:
        failed = query.failed()
        with self._lock:
            if query not in self._live:
                return  # another thread saw it end, too
            if failed and len(self._failed) < ENDED_MAX:
                self._failed.append(query)
            self._live.remove(query)
            self._ended.append(query)
            self.any_failed = self.any_failed or failed
        if failed:
            say(f"the query {query.label} has failed")


def wait_for(queries: Iterable[Any]) -> None:
    """Until all have ended. Raises what the first of them failed of, even if others go on."""
    live = list(queries)
    while live:
        for query in list(live):
            if not query.isActive:
                query.awaitTermination()
                live.remove(query)
        if live:
            live[0].awaitTermination(WAIT_S)
