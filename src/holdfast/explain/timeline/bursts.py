"""Bursts: many events of one kind at one component within a short time, where there are few otherwise."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from holdfast.explain.timeline.occurrence import Occurrence

COUNT_MIN = 20
GAP_MAX_MS = 10_000
"""A longer gap ends a burst."""
PER_SECOND_MIN = 1.0
LENGTH_MAX_MS = 300_000
"""Longest burst. Events that continue for longer are normal operation."""
MINUTE_MS = 60_000
DroppedEvents = Mapping[tuple[int, str, int], int]
"""(file, kind, minute) → events that are only counted."""


@dataclass(frozen=True, slots=True)
class Burst:
    component: str
    kind: str
    count: int
    begin_ms: int
    end_ms: int
    """Time of the last kept event."""
    first: Occurrence


def find_bursts(occurrences: Iterable[Occurrence], dropped: DroppedEvents) -> list[Burst]:
    """Return the bursts, largest first. `occurrences` are in order of time."""
    groups: dict[tuple[str, str], list[Occurrence]] = {}
    for one in occurrences:
        groups.setdefault((one.component, one.kind), []).append(one)
    runs = [_to_burst(run, dropped) for group in groups.values() for run in _split_at_gaps(group, dropped)]
    bursts = [run for run in runs if _is_burst(run)]
    return sorted(bursts, key=lambda burst: (-burst.count, burst.begin_ms, burst.component, burst.kind))


def _split_at_gaps(group: list[Occurrence], dropped: DroppedEvents) -> Iterator[list[Occurrence]]:
    run: list[Occurrence] = []
    end_ms = 0
    for one in group:
        if run and one.begin_ms - end_ms > GAP_MAX_MS:
            yield run
            run = []
        end_ms = max(end_ms if run else 0, _end_ms(one, dropped))
        run.append(one)
    if run:
        yield run


def _end_ms(one: Occurrence, dropped: DroppedEvents) -> int:
    """Return the end of an occurrence. If further events are only counted, assume that they fill the minute."""
    last_ms = max(one.begin_ms, one.last_ms)
    if one.event.ms is None or (one.event.file, one.kind, one.event.minute) not in dropped:
        return last_ms
    return max(last_ms, (one.event.minute + 1) * MINUTE_MS + one.end_ms - one.event.ms)


def _to_burst(run: list[Occurrence], dropped: DroppedEvents) -> Burst:
    first = run[0]
    minutes = {(one.event.file, one.kind, one.event.minute) for one in run}
    count = sum(one.count for one in run) + sum(dropped.get(minute, 0) for minute in minutes)
    return Burst(first.component, first.kind, count, first.begin_ms, max(max(one.begin_ms, one.last_ms) for one in run), first)


def _is_burst(run: Burst) -> bool:
    length_ms = run.end_ms - run.begin_ms
    return run.count >= COUNT_MIN and length_ms <= LENGTH_MAX_MS and run.count * 1000 >= PER_SECOND_MIN * length_ms
