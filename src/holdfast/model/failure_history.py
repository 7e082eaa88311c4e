"""Failures of a job, for its restart strategy and for display. Pure."""

from dataclasses import dataclass, replace

from holdfast.model.identifiers import Attempt

HEALTHY_S = 600.0
"""Run time after which earlier failures no longer count."""
RECENT_MAX = 101
"""Failure times kept in the history: one more than the largest `rate`."""


@dataclass(frozen=True, slots=True)
class FailureHistory:
    """Failures of a job that its restart strategy takes into account."""

    in_a_row: int = 0
    recent: tuple[float, ...] = ()
    """Wall times of the last failures, for `rate`."""
    without_progress: int = 0
    """Failures of the script before any attempt of the job made progress. A kill from outside does not count."""

    def add_failure(self, *, started: float | None, now: float) -> "FailureHistory":
        """Return the history after an attempt has failed. A run of at least HEALTHY_S resets the count.

        Both times are wall times; `started` is None if the attempt never reported its start.
        """
        in_a_row = 1 if is_healthy_run(started, now) else self.in_a_row + 1
        return replace(self, in_a_row=in_a_row, recent=(*self.recent, now)[-RECENT_MAX:])


@dataclass(frozen=True, slots=True)
class LastFailure:
    """End of an attempt by a failure or a loss, for display until the next attempts are healthy again."""

    attempt: Attempt
    wall: float
    """Wall time at which the leader saw the end."""
    reason: str
    is_loss: bool = False
    """True if the infrastructure lost the attempt."""


def is_healthy_run(started: float | None, now: float) -> bool:
    """Return True if an attempt that started at this wall time has run long enough for earlier failures not to count."""
    return started is not None and now - started >= HEALTHY_S
