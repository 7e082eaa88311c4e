"""Events of all kinds, as many as anybody may have, which no log was written for."""

import random
from collections import Counter

from holdfast.explain.event import Event, Look
from holdfast.explain.library import Library
from holdfast.explain.library.event_pattern import Pattern
from holdfast.explain.timeline.merge import Counts, Gathered

BEGIN_MS = 1_772_582_400_000
DAY_MS = 86_400_000
NAMES = 10_000
"""So many sessions, jobs and partitions there are."""


def many(
    number: int, library: Library, kinds: frozenset[str] = frozenset(), files: int = 12, span_ms: int = DAY_MS
) -> Gathered:
    """Of some kinds or of all, within so many milliseconds; the same each time."""
    chance = random.Random(7)
    patterns = [pattern for pattern in library.patterns.all if not kinds or pattern.kind in kinds]
    events = [_event(chance, place, chance.choice(patterns), files, span_ms) for place in range(number)]
    events.sort(key=lambda event: (event.file, event.offset))
    counts = Counts(bytes=number * 100, lines=number, records=number, events=number)
    names = tuple(f"{file}.log" for file in range(files))
    return Gathered(names, counts, (counts,), tuple(events), Counter(), (Look(1, number, 0, 0, ""),), 0, ())


def _event(chance: random.Random, place: int, pattern: Pattern, files: int, span_ms: int) -> Event:
    names = {name.rstrip("0123456789") for name in pattern.match.groupindex}
    fields = {name: _value(chance, name) for name in sorted(names)}
    file = chance.randrange(files)
    return Event(
        kind=pattern.kind,
        system=pattern.system,
        says=pattern.sentence(fields),
        file=file,
        offset=place * 100,
        line=place + 1,
        text=f"line {place}",
        ms=BEGIN_MS + chance.randrange(span_ms),
        duration_ms=int(fields.get("duration_ms", "0")),
        actor=f"server {file}" if pattern.system == "zookeeper" else "",
        fields=fields,
    )


def _value(chance: random.Random, name: str) -> str:
    if name == "session":
        return f"0x{chance.randrange(NAMES):x}"
    if name == "job":
        return f"{chance.randrange(NAMES):032x}"
    if name == "partition":
        return f"clicks-{chance.randrange(NAMES)}"
    return {"duration_ms": str(chance.randrange(20_000)), "at_ms": "1772647450500"}.get(name, str(chance.randrange(200)))
