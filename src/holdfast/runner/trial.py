"""First batch of an attempt. A version on trial must complete it within a time limit."""

from holdfast.clock import Clock
from holdfast.runner.interfaces import DriverExecution


class Trial:
    def __init__(self, driver: DriverExecution, clock: Clock, *, on_trial: bool) -> None:
        self._driver = driver
        self._clock = clock
        self._on_trial = on_trial
        self._started_at = clock.boottime()
        self.proven = False
        """True after the attempt's first batch, whether or not its version is on trial."""

    def find_failure(self, timeout_s: float) -> str | None:
        """Record the first batch. Return why a version on trial has failed, or None while the attempt may continue.

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
        return f"it completed no batch within {limit_s:.0f} s"
