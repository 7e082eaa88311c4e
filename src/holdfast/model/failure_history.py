"""Failures of a job that its restart strategy takes into account. Pure."""

from dataclasses import dataclass

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

    def add_failure(self, *, started: float | None, now: float) -> "FailureHistory":
        """Return the history after an attempt has failed. A run of at least HEALTHY_S resets the count.

        Both times are wall times; `started` is None if the attempt never reported its start.
        """
        healthy = started is not None and now - started >= HEALTHY_S
        return FailureHistory(1 if healthy else self.in_a_row + 1, (*self.recent, now)[-RECENT_MAX:])
