"""Health of this node, from checks that run in threads of their own: a disk that hangs must not delay a heartbeat."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

CHECK_INTERVAL_S = 5.0
STORAGE_CHECK_INTERVAL_S = 15.0
CHECK_TIMEOUT_S = 20.0
"""Time limit of a check. After that, the problem is that the checked object does not answer."""
GOOD_RESULTS_MIN = 3
"""Consecutive good results after which a problem is over. One bad result is enough to report it."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    name: str
    """Object of the check, for the sentence `NAME does not answer`."""
    run: Callable[[], str]
    """Function that blocks and returns a problem, or an empty string."""
    interval_s: float = CHECK_INTERVAL_S


class CheckResults:
    """Results of one check, with hysteresis. Pure; the caller passes the time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._started_at: float | None = None
        self._problem = ""
        self._good_results = 0

    def start(self, now: float) -> None:
        self._started_at = now

    def finish(self, problem: str) -> None:
        self._started_at = None
        if problem:
            self._problem, self._good_results = problem, 0
            return
        self._good_results += 1
        if self._good_results >= GOOD_RESULTS_MIN:
            self._problem = ""

    def problem(self, now: float) -> str:
        """Return the current problem, or an empty string."""
        if self._started_at is not None and now - self._started_at >= CHECK_TIMEOUT_S:
            self._problem, self._good_results = f"{self._name} does not answer", 0
        return self._problem


class HealthMonitor:
    """Threads that run the checks, and their combined result. `health` never blocks."""

    def __init__(self, checks: Sequence[HealthCheck]) -> None:
        self._checks = [(check, CheckResults(check.name)) for check in checks]
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Run each check once in its thread, then periodically. A check that hangs keeps only its own thread busy."""
        for check, results in self._checks:
            thread = threading.Thread(target=self._run, args=(check, results), name=f"health: {check.name}", daemon=True)
            thread.start()

    def stop(self) -> None:
        """End the threads after their current check."""
        self._stopped.set()

    def health(self) -> str:
        """Return the problems of this node, or an empty string if it can start attempts."""
        now = time.monotonic()
        with self._lock:
            return "; ".join(filter(None, (results.problem(now) for _, results in self._checks)))

    def _run(self, check: HealthCheck, results: CheckResults) -> None:
        while not self._stopped.is_set():
            with self._lock:
                results.start(time.monotonic())
            problem = check.run()
            with self._lock:
                results.finish(problem)
            self._stopped.wait(check.interval_s)
