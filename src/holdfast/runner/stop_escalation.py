"""Escalation of a stop request: wait for a batch boundary, then send SIGTERM, then demand a kill."""

from holdfast.clock import Clock
from holdfast.log import Log
from holdfast.runner.interfaces import DriverExecution
from holdfast.runner.timeouts import AttemptTimeouts


class StopEscalation:
    def __init__(self, driver: DriverExecution, clock: Clock, timeouts: AttemptTimeouts, log: Log) -> None:
        self._driver = driver
        self._clock = clock
        self._timeouts = timeouts
        self._log = log
        self._requested_at: float | None = None
        self._batch_s = 0.0
        """Time that the current batch may need to reach its end: the duration that its trigger demands."""
        self._sigterm_sent = False

    @property
    def requested(self) -> bool:
        return self._requested_at is not None

    def request(self, command: str) -> None:
        """Ask the driver to stop at a batch boundary. Only the first call has an effect. `command` is for the log."""
        if self._requested_at is None:
            self._log.info("stop requested", command=command)
            self._requested_at = self._clock.boottime()
            self._batch_s = self._driver.batch_s
            self._driver.request_stop()

    def escalate(self) -> bool:
        """Send SIGTERM when it is due. Return True when that has not helped either and the driver must be killed."""
        if self._requested_at is None:
            return False
        waited_s = self._clock.boottime() - self._requested_at
        stop_timeout_s = self._timeouts.stop_timeout_s + self._batch_s
        if waited_s >= stop_timeout_s and not self._sigterm_sent:
            self._sigterm_sent = True
            self._log.warning("driver did not stop, sending SIGTERM", waited_s=round(waited_s))
            self._driver.send_sigterm()
        return waited_s >= stop_timeout_s + self._timeouts.sigterm_timeout_s
