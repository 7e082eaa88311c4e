"""Synthetic answer with very many occurrences."""

import random
from collections import Counter

from holdfast.explain.event import LogEvent
from holdfast.explain.report.answer import Answer
from holdfast.explain.scan.templates import LogTemplate
from holdfast.explain.timeline.clocks import align_clocks
from holdfast.explain.timeline.component import Component
from holdfast.explain.timeline.merge import MergedScan, ScanCounts
from holdfast.explain.timeline.occurrence import Occurrence

BEGIN_MS = 1_772_582_400_000
_KINDS = (
    "zk-fsync-slow",
    "zk-session-established",
    "connection-suspended",
    "job-restarting",
    "gc-pause",
    "checkpoint-completed",
)


def answer_with_many_occurrences(number: int, components: int = 12) -> Answer:
    """Return an answer with `number` thousand occurrences of one day, unevenly distributed over components; always the same."""
    rng = random.Random(7)
    starts = sorted(BEGIN_MS + rng.randrange(86_400_000) for _ in range(number * 1000))
    occurrences = [_occurrence(rng, at, index, components) for index, at in enumerate(starts)]
    owners = {(one.event.file, one.event.offset): Component(one.component, "zookeeper") for one in occurrences}
    events = tuple(one.event for one in occurrences)
    files = tuple(f"zk{number}.log" for number in range(components))
    counts = ScanCounts(bytes=len(events) * 100, lines=len(events), records=len(events), events=len(events))
    templates = (LogTemplate(1, len(events), 0, 0, events[0].text),)
    gathered = MergedScan(files, counts, (counts,), events, Counter(), templates, 0, ())
    return Answer(gathered, align_clocks(events[:0], ()), owners, tuple(occurrences), ())


def _occurrence(rng: random.Random, at_ms: int, index: int, components: int) -> Occurrence:
    file = int(components * rng.random() ** 2)
    kind = _KINDS[int(len(_KINDS) * rng.random() ** 2)]
    length_ms = rng.randrange(1000, 60_000) if kind == "gc-pause" else 0
    text = f"something of the kind {kind} was said {index} times in all, {rng.randrange(10**9)} of them for nothing"
    event = LogEvent(kind, "zookeeper", f"this is {kind}", file, index * 100, index + 1, text, at_ms + length_ms)
    count = rng.choice((1, 1, 1, 5))
    return Occurrence(event, f"zookeeper {file}", at_ms, at_ms + length_ms, count, at_ms + (count - 1) * 700)
