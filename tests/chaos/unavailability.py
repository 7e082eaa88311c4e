"""Unavailability of jobs after each fault, computed from the heartbeats of their drivers. Pure."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.chaos.history import FaultRecord, History

INTERVAL_S = 0.05
"""Time between two heartbeats of a healthy driver; it does not count as unavailability."""


@dataclass(frozen=True, slots=True)
class KindSummary:
    """Unavailability in seconds after all faults of one kind: of the job that was hit hardest by each."""

    kind: str
    faults: int
    p50_s: float
    p99_s: float
    max_s: float


def summarize(history: History) -> list[KindSummary]:
    """Return one summary per kind, in alphabetical order."""
    longest: dict[str, list[float]] = defaultdict(list)
    gaps = {steady.job: heartbeat_gaps(history, steady.job) for steady in history.steady}
    for fault in history.faults:
        longest[fault.kind].append(max((_longest_gap_s(each, fault) for each in gaps.values()), default=0.0))
    return [
        KindSummary(kind, len(values), percentile(values, 50), percentile(values, 99), max(values))
        for kind, values in sorted(longest.items())
    ]


def heartbeat_gaps(history: History, job: str) -> list[tuple[float, float]]:
    """Return the start and end of each pause of more than four intervals between two heartbeats of a job, of any attempt."""
    times = sorted(at for series in history.heartbeats if series.job == job for at in series.times)
    return [(before, after) for before, after in pairwise(times) if after - before > 4 * INTERVAL_S]


def _longest_gap_s(gaps: Sequence[tuple[float, float]], fault: FaultRecord) -> float:
    until = fault.recovered_at or fault.healed_at + fault.bound_s
    return max(
        (after - before - INTERVAL_S for before, after in gaps if fault.injected_at <= after and before <= until), default=0.0
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that is not exceeded by `percent` per cent of all values."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]
