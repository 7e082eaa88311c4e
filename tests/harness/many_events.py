"""Synthetic events of all kinds, in any number."""

import random
from collections import Counter

from holdfast.explain.event import LogEvent
from holdfast.explain.library import Library
from holdfast.explain.library.event_pattern import EventPattern
from holdfast.explain.scan.templates import LogTemplate
from holdfast.explain.timeline.merge import MergedScan, ScanCounts

BEGIN_MS = 1_772_582_400_000
DAY_MS = 86_400_000
NAMES = 10_000
"""Number of distinct sessions, jobs and partitions."""


def make_events(
    number: int, library: Library, kinds: frozenset[str] = frozenset(), files: int = 12, span_ms: int = DAY_MS
) -> MergedScan:
    """Return `number` events of the given kinds, or of all kinds, within `span_ms`; always the same."""
    rng = random.Random(7)
    patterns = [pattern for pattern in library.patterns.all if not kinds or pattern.kind in kinds]
    events = [_event(rng, index, rng.choice(patterns), files, span_ms) for index in range(number)]
    events.sort(key=lambda event: (event.file, event.offset))
    counts = ScanCounts(bytes=number * 100, lines=number, records=number, events=number)
    names = tuple(f"{file}.log" for file in range(files))
    return MergedScan(names, counts, (counts,), tuple(events), Counter(), (LogTemplate(1, number, 0, 0, ""),), 0, ())


def _event(rng: random.Random, index: int, pattern: EventPattern, files: int, span_ms: int) -> LogEvent:
    names = {name.rstrip("0123456789") for name in pattern.match.groupindex}
    fields = {name: _value(rng, name) for name in sorted(names)}
    file = rng.randrange(files)
    return LogEvent(
        kind=pattern.kind,
        system=pattern.system,
        description=pattern.describe(fields),
        file=file,
        offset=index * 100,
        line=index + 1,
        text=f"line {index}",
        ms=BEGIN_MS + rng.randrange(span_ms),
        duration_ms=int(fields.get("duration_ms", "0")),
        actor=f"server {file}" if pattern.system == "zookeeper" else "",
        fields=fields,
    )


def _value(rng: random.Random, name: str) -> str:
    if name == "session":
        return f"0x{rng.randrange(NAMES):x}"
    if name == "job":
        return f"{rng.randrange(NAMES):032x}"
    if name == "partition":
        return f"clicks-{rng.randrange(NAMES)}"
    return {"duration_ms": str(rng.randrange(20_000)), "at_ms": "1772647450500"}.get(name, str(rng.randrange(200)))
