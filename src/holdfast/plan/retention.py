"""What is kept of jobs that ended."""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.model.identifiers import JobId
from holdfast.model.job import State


@dataclass(frozen=True, slots=True)
class Keep:
    """How much of what ended is kept."""

    ended_s: float = 7 * 86400.0
    ended_max: int = 1000


def due(ended: Iterable[tuple[JobId, State]], keep: Keep, wall: float) -> list[JobId]:
    """The oldest first: those that ended too long ago, and those that are too many."""
    by_age = sorted((state.events[-1].wall if state.events else 0.0, job) for job, state in ended)
    too_many = max(0, len(by_age) - keep.ended_max)
    return [job for place, (at, job) in enumerate(by_age) if place < too_many or at < wall - keep.ended_s]
