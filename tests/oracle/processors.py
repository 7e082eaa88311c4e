"""Stateful Python functions of the queries. Python workers import this module."""

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # pandas has no types
from pyspark.sql import Row
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

HOUR_MS = 3_600_000


def count_with_timeout(key: tuple[str], batches: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Count the rows of a key (applyInPandasWithState). A key without rows for two minutes of event time is reported."""
    if state.hasTimedOut:
        (count,) = state.get
        state.remove()
        yield pd.DataFrame({"key": [key[0]], "count": [-count]})
        return
    (count,) = state.get if state.exists else (0,)
    newest_ms = 0
    for batch in batches:
        count += len(batch)
        newest_ms = max(newest_ms, int(batch["at"].max().timestamp() * 1000))
    state.update((count,))
    state.setTimeoutTimestamp(newest_ms + 120_000)
    yield pd.DataFrame({"key": [key[0]], "count": [count]})


class TotalsProcessor(StatefulProcessor):
    """Counts rows per key, remembers the numbers in a list and a map, and sets a timer on event time."""

    ttl_ms: int | None = None
    has_timers = False

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", "count long", self.ttl_ms)
        self._numbers = handle.getListState("numbers", "n long", self.ttl_ms)
        self._remainders = handle.getMapState("remainders", "remainder long", "count long", self.ttl_ms)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        numbers = [int(row["n"]) for row in rows]
        return iter([self._add(key, numbers, timerValues)])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        return iter([Row(key=key[0], count=-1, listed=expiredTimerInfo.getExpiryTimeInMs() // 1000, remainders=0)])

    def _add(self, key: Any, numbers: list[int], timers: Any) -> Row:
        known_count = self._count.get() if self._count.exists() else None
        count = len(numbers) + (known_count[0] if known_count is not None else 0)
        self._count.update((count,))
        self._numbers.appendList([(number,) for number in numbers])
        for number in numbers:
            remainder = (number % 4,)
            known = self._remainders.getValue(remainder) if self._remainders.containsKey(remainder) else None
            self._remainders.updateValue(remainder, ((known[0] if known is not None else 0) + 1,))
        if self.has_timers:
            self._handle.registerTimer(timers.getCurrentWatermarkInMs() + 90_000)
        remainders = sum(value[0] for value in self._remainders.values())
        return Row(key=key[0], count=count, listed=len(list(self._numbers.get())), remainders=remainders)

    def close(self) -> None:
        """Hold nothing outside of the state."""


class TimedTotals(TotalsProcessor):
    has_timers = True


class ExpiringTotals(TotalsProcessor):
    ttl_ms = HOUR_MS


class PandasTotals(TotalsProcessor):
    """The same with pandas frames in and out."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        numbers = [int(number) for frame in rows for number in frame["n"]]
        return iter([pd.DataFrame([self._add(key, numbers, timerValues).asDict()])])
