"""An answer with as many happenings as anybody may have, which no log was written for."""

import random
from collections import Counter

from holdfast.explain.event import Event, Look
from holdfast.explain.report.answer import Answer
from holdfast.explain.timeline.clocks import clocks
from holdfast.explain.timeline.component import Component
from holdfast.explain.timeline.merge import Counts, Gathered
from holdfast.explain.timeline.occurrence import Happening

BEGIN_MS = 1_772_582_400_000
_KINDS = (
    "zk-fsync-slow",
    "zk-session-established",
    "connection-suspended",
    "job-restarting",
    "gc-pause",
    "checkpoint-completed",
)


def thousands(number: int, components: int = 12) -> Answer:
    """So many thousand happenings of a day, by some more often than by others; the same each time."""
    chance = random.Random(7)
    starts = sorted(BEGIN_MS + chance.randrange(86_400_000) for _ in range(number * 1000))
    happenings = [_happening(chance, at, place, components) for place, at in enumerate(starts)]
    owners = {(one.event.file, one.event.offset): Component(one.component, "zookeeper") for one in happenings}
    events = tuple(one.event for one in happenings)
    files = tuple(f"zk{number}.log" for number in range(components))
    counts = Counts(bytes=len(events) * 100, lines=len(events), records=len(events), events=len(events))
    looks = (Look(1, len(events), 0, 0, events[0].text),)
    gathered = Gathered(files, counts, (counts,), events, Counter(), looks, 0, ())
    return Answer(gathered, clocks(events[:0], ()), owners, tuple(happenings), ())


def _happening(chance: random.Random, at_ms: int, place: int, components: int) -> Happening:
    file = int(components * chance.random() ** 2)
    kind = _KINDS[int(len(_KINDS) * chance.random() ** 2)]
    length_ms = chance.randrange(1000, 60_000) if kind == "gc-pause" else 0
    text = f"something of the kind {kind} was said {place} times in all, {chance.randrange(10**9)} of them for nothing"
    event = Event(kind, "zookeeper", f"this is {kind}", file, place * 100, place + 1, text, at_ms + length_ms)
    often = chance.choice((1, 1, 1, 5))
    return Happening(event, f"zookeeper {file}", at_ms, at_ms + length_ms, often, at_ms + (often - 1) * 700)
