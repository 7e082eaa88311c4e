"""Trial of a new version: its first batch must be complete within a time limit."""

from holdfast.clock import Clock
from holdfast.runner.interfaces import DriverExecution


class Trial:
    def __init__(self, driver: DriverExecution, clock: Clock, *, on_trial: bool) -> None:
        self._driver = driver
        self._clock = clock
        self._on_trial = on_trial
        self._started_at = clock.boottime()
        self.proven = False
        """True after the first batch of a version on trial."""

    def find_failure(self, timeout_s: float) -> str | None:
        """Return why the version has failed its trial, or None while it may continue.

        A batch with a fixed duration, as in real-time mode, extends the limit: it cannot end earlier in a healthy version.
        """
        if not self._on_trial or self.proven:
            return None
        progress = self._driver.progress()
        self.proven = progress is not None and progress.batch_id is not None
        waited_s = self._clock.boottime() - self._started_at
        if self.proven or waited_s < timeout_s or waited_s < (limit_s := timeout_s + self._driver.batch_s):
            return None
        return f"it completed no batch within {limit_s:.0f} s"
