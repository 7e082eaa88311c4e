"""Counts of the executors of an application: alive, lost, decommissioned."""

import re
from dataclasses import dataclass
from typing import Any

RELEASED = "Executor killed by driver."
"""Spark's reason for an executor that the driver gave back, for example dynamic allocation."""
DECOMMISSION_REASONS = ("Executor decommission: ", "Finished decommissioning")
# YARN adds the whole diagnostics of a container to its exit status.
_DETAILS = re.compile(r"\s*(?:Possible causes|Diagnostics):.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ExecutorCounts:
    alive: int = 0
    lost: int = 0
    decommissioned: int = 0
    last_loss: str = ""


class ExecutorCounter:
    """Counter of the executors of one SparkContext. Spark forgets old removals, so the counter keeps its own sums."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        """Removed executors that are counted."""
        self._sizes = (0, 0)
        """Numbers of active executors and of all that Spark lists, at the last count."""
        self._lost = 0
        self._decommissioned = 0
        self._last_loss = ""

    def count(self, status_store: Any) -> ExecutorCounts:
        """Return the counts according to Spark's status store. Raises py4j errors."""
        active, every = status_store.executorList(True), status_store.executorList(False)
        sizes = (int(active.size()), int(every.size()))
        if sizes != self._sizes:  # a list of a thousand executors takes thousands of calls
            for index in range(sizes[1]):
                self._record(every.apply(index))
            self._sizes = sizes
        return self.totals(alive=max(0, sizes[0] - 1))  # Spark lists the driver, too

    def _record(self, executor: Any) -> None:
        executor_id = str(executor.id())
        if executor.isActive() or executor_id in self._seen:
            return
        self._seen.add(executor_id)
        self.record_removal(str(executor.removeReason().get()) if executor.removeReason().isDefined() else "")

    def totals(self, alive: int) -> ExecutorCounts:
        return ExecutorCounts(alive, self._lost, self._decommissioned, self._last_loss)

    def record_removal(self, reason: str) -> None:
        if reason == RELEASED:
            return
        if reason.startswith(DECOMMISSION_REASONS):
            self._decommissioned += 1
            return
        self._lost += 1
        self._last_loss = " ".join(_DETAILS.sub("", reason).split())
