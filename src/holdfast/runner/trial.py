"""First batch of an attempt. A version on trial must complete it within a time limit, unless its program has no batches."""

from holdfast.clock import Clock
from holdfast.runner.interfaces import DriverExecution


class Trial:
    def __init__(self, driver: DriverExecution, clock: Clock, *, on_trial: bool) -> None:
        self._driver = driver
        self._clock = clock
        self._on_trial = on_trial
        self._started_at = clock.boottime()
        self.proven = False
        """True after the attempt's first batch, whether or not its version is on trial; or after a trial without batches."""

    def find_failure(self, timeout_s: float, *, had_batches: bool) -> str | None:
        """Record the first batch. Return why a version on trial has failed, or None while the attempt may continue.

        `had_batches` is True if an earlier attempt of the job has completed a batch. If none has, and Spark runs without a
        streaming query at the end of the limit, the version is a batch program, which never completes one: it has passed.

        A batch with a fixed duration, as in real-time mode, extends the limit: it cannot end earlier in a healthy version.
        """
        if self.proven:
            return None
        progress = self._driver.progress()
        self.proven = progress is not None and progress.batch_id is not None
        if self.proven or not self._on_trial:
            return None
        waited_s = self._clock.boottime() - self._started_at
        if waited_s < timeout_s or waited_s < (limit_s := timeout_s + self._driver.batch_s):
            return None
        self.proven = not had_batches and self._driver.is_ready and not self._driver.has_queries
        return None if self.proven else f"it completed no batch within {limit_s:.0f} s"
