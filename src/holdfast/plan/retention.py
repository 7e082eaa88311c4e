"""Retention of the records of ended jobs and of their checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.model.identifiers import JobId


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Limits on the records and checkpoints of ended jobs."""

    ended_s: float = 7 * 86400.0
    """Seconds after the end of a job until its record expires."""
    ended_max: int = 1000
    """Maximum number of records; the oldest expire first."""
    checkpoints_s: float | None = None
    """Seconds after the deletion of a job's record until its checkpoint expires; None if checkpoints are kept forever."""


def select_expired(ended_at: Mapping[JobId, float], policy: RetentionPolicy, now: float) -> list[JobId]:
    """Return the jobs whose records have expired by age or by number, oldest first. All times are wall times."""
    by_age = sorted((wall_s, job) for job, wall_s in ended_at.items())
    excess = max(0, len(by_age) - policy.ended_max)
    return [job for rank, (wall_s, job) in enumerate(by_age) if rank < excess or wall_s < now - policy.ended_s]


def select_expired_checkpoints(deleted_at: Mapping[JobId, float], policy: RetentionPolicy, now: float) -> list[JobId]:
    """Return the jobs whose checkpoints have expired, the first deleted first. All times are wall times."""
    if policy.checkpoints_s is None:
        return []
    expired = [(wall_s, job) for job, wall_s in deleted_at.items() if wall_s < now - policy.checkpoints_s]
    return [job for _, job in sorted(expired)]
