"""Bursts: much of one kind at one place within a short time, where there is little of it otherwise. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.explain.happening import Happening

COUNT_MIN = 20
PAUSE_MAX_MS = 10_000
"""A longer one ends it."""
PER_SECOND_MIN = 1.0
LENGTH_MAX_MS = 300_000
"""What goes on for longer is how it always is."""


@dataclass(frozen=True, slots=True)
class Burst:
    component: str
    kind: str
    count: int
    begin_ms: int
    end_ms: int
    first: Happening


def bursts(happenings: Iterable[Happening]) -> list[Burst]:
    """The largest first."""
    of: dict[tuple[str, str], list[Happening]] = {}
    for one in happenings:
        of.setdefault((one.component, one.kind), []).append(one)
    found = [burst for told in of.values() for burst in _runs(told) if _is_one(burst)]
    return sorted(found, key=lambda burst: (-burst.count, burst.begin_ms, burst.component, burst.kind))


def _runs(told: list[Happening]) -> Iterator[Burst]:
    """Of one kind at one place: what follows each other without a pause."""
    run: Burst | None = None
    for one in told:
        end_ms = max(one.begin_ms, one.last_ms)
        if run is not None and one.begin_ms - run.end_ms <= PAUSE_MAX_MS:
            run = Burst(run.component, run.kind, run.count + one.count, run.begin_ms, max(run.end_ms, end_ms), run.first)
            continue
        if run is not None:
            yield run
        run = Burst(one.component, one.kind, one.count, one.begin_ms, end_ms, one)
    if run is not None:
        yield run


def _is_one(run: Burst) -> bool:
    length_ms = run.end_ms - run.begin_ms
    return run.count >= COUNT_MIN and length_ms <= LENGTH_MAX_MS and run.count * 1000 >= PER_SECOND_MIN * length_ms
