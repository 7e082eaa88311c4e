"""Retention of the records of ended jobs."""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.model.identifiers import JobId
from holdfast.model.job import JobState


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Limits on the records of ended jobs."""

    ended_s: float = 7 * 86400.0
    """Seconds after the end of a job until its record expires."""
    ended_max: int = 1000
    """Maximum number of records; the oldest expire first."""


def select_expired(ended: Iterable[tuple[JobId, JobState]], policy: RetentionPolicy, now: float) -> list[JobId]:
    """Return the jobs whose records have expired by age or by number, oldest first. `now` is a wall time."""
    by_age = sorted((state.events[-1].wall if state.events else 0.0, job) for job, state in ended)
    excess = max(0, len(by_age) - policy.ended_max)
    return [job for rank, (ended_at, job) in enumerate(by_age) if rank < excess or ended_at < now - policy.ended_s]
