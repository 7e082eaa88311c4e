"""Bursts: much of one kind at one place within a short time, where there is little of it otherwise. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from holdfast.explain.timeline.occurrence import Happening

COUNT_MIN = 20
PAUSE_MAX_MS = 10_000
"""A longer one ends it."""
PER_SECOND_MIN = 1.0
LENGTH_MAX_MS = 300_000
"""What goes on for longer is how it always is."""
MINUTE_MS = 60_000
Dropped = Mapping[tuple[int, str, int], int]
"""(file, kind, minute) → those that are only counted."""


@dataclass(frozen=True, slots=True)
class Burst:
    component: str
    kind: str
    count: int
    begin_ms: int
    end_ms: int
    """Of those that are kept."""
    first: Happening


def bursts(happenings: Iterable[Happening], dropped: Dropped) -> list[Burst]:
    """The largest first."""
    of: dict[tuple[str, str], list[Happening]] = {}
    for one in happenings:
        of.setdefault((one.component, one.kind), []).append(one)
    found = [burst for told in of.values() for run in _runs(told, dropped) if _is_one(burst := _burst(run, dropped))]
    return sorted(found, key=lambda burst: (-burst.count, burst.begin_ms, burst.component, burst.kind))


def _runs(told: list[Happening], dropped: Dropped) -> Iterator[list[Happening]]:
    """Of one kind at one place: what follows each other without a pause."""
    run: list[Happening] = []
    end_ms = 0
    for one in told:
        if run and one.begin_ms - end_ms > PAUSE_MAX_MS:
            yield run
            run = []
        end_ms = max(end_ms if run else 0, _end_ms(one, dropped))
        run.append(one)
    if run:
        yield run


def _end_ms(one: Happening, dropped: Dropped) -> int:
    """Where some are only counted, they went on until the minute was over."""
    told_ms = max(one.begin_ms, one.last_ms)
    if one.event.ms is None or (one.event.file, one.kind, one.event.minute) not in dropped:
        return told_ms
    return max(told_ms, (one.event.minute + 1) * MINUTE_MS + one.end_ms - one.event.ms)


def _burst(run: list[Happening], dropped: Dropped) -> Burst:
    first = run[0]
    minutes = {(one.event.file, one.kind, one.event.minute) for one in run}
    count = sum(one.count for one in run) + sum(dropped.get(minute, 0) for minute in minutes)
    return Burst(first.component, first.kind, count, first.begin_ms, max(max(one.begin_ms, one.last_ms) for one in run), first)


def _is_one(run: Burst) -> bool:
    length_ms = run.end_ms - run.begin_ms
    return run.count >= COUNT_MIN and length_ms <= LENGTH_MAX_MS and run.count * 1000 >= PER_SECOND_MIN * length_ms
