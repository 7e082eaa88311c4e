"""Everything that was read, put together: by file, with lines counted from the beginning of each."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.explain.event import Event, Like, Look
from holdfast.explain.gc_pause import without_collector
from holdfast.explain.inputs import Input
from holdfast.explain.range_scan import Haul, Scanned
from holdfast.explain.scan.event_budget import EVENTS_PER_MINUTE, NONE_OVER, Over
from holdfast.explain.scan.record_scan import Mode
from holdfast.explain.scan.templates import Looks


@dataclass(frozen=True, slots=True)
class Counts:
    bytes: int = 0
    lines: int = 0
    records: int = 0
    events: int = 0
    """Those that are only counted, too."""
    unparsed_lines: int = 0


@dataclass(frozen=True, slots=True)
class Gathered:
    files: tuple[str, ...]
    counts: Counts
    of_files: tuple[Counts, ...]
    events: tuple[Event, ...]
    """In the order of files and of lines."""
    dropped: Counter[tuple[int, str, int]]
    """(file, kind, minute) → events that are neither kept nor repetitions of one that is."""
    looks: tuple[Look, ...]
    """The commonest first. With `other_records` they add up to the records."""
    other_records: int
    troubles: tuple[str, ...]


@without_collector()
def gathered(inputs: list[Input], hauls: Sequence[Haul]) -> Gathered:
    of_files = [Counts() for _ in inputs]
    begun = [False] * len(inputs)
    events: list[Event] = []
    dropped: Counter[tuple[int, str, int]] = Counter()
    kept: Counter[tuple[int, str, int]] = Counter()
    over: dict[tuple[int, Like], Over] = {}
    looks = Looks()
    for haul in hauls:
        looks.add(haul.looks)
    troubles: list[str] = []
    ranges = [one for haul in hauls for one in haul.ranges]
    for one in sorted(ranges, key=lambda found: (found.range.file, found.range.begin)):
        number, before = one.range.file, of_files[one.range.file]
        for said in (one.own,) if begun[number] else (one.lead, one.own):
            dropped.update({(number, kind, minute): count for (kind, minute), count in said.dropped.items()})
            for event in said.events:
                key = number, event.kind, event.minute
                kept[key] += 1
                if kept[key] <= EVENTS_PER_MINUTE:
                    events.append(event._replace(line=event.line + before.lines + 1))
                elif not event.repeatable:
                    dropped[key] += 1
                else:
                    over[number, event.like] = over.get((number, event.like), NONE_OVER).and_more(1, event.ms)
            for like, more in said.over.items():
                over[number, like] = over.get((number, like), NONE_OVER).and_more(more.times, more.last_ms)
        of_files[number] = _with(before, one, begun=begun[number])
        begun[number] |= one.begun
        if one.trouble:
            troubles.append(f"{inputs[number].name}: {one.trouble}")
    _repeat(events, over, dropped)
    return Gathered(
        tuple(one.name for one in inputs),
        _sum(of_files),
        tuple(of_files),
        tuple(events),
        dropped,
        _told_apart(looks),
        looks.others,
        tuple(troubles),
    )


def _told_apart(looks: Looks) -> tuple[Look, ...]:
    found = [Look(look, count, *looks.first[look]) for look, count in looks.often.items()]
    return tuple(sorted(found, key=lambda look: (-look.count, look.file, look.first_offset)))


def _repeat(events: list[Event], over: dict[tuple[int, Like], Over], dropped: "Counter[tuple[int, str, int]]") -> None:
    """What is not kept is told with the last one that is like it."""
    last = {(event.file, event.like): at for at, event in enumerate(events) if event.repeatable} if over else {}
    for (file, like), more in over.items():
        at = last.get((file, like))
        if at is None:
            dropped[file, like.kind, like.minute] += more.times
        else:
            events[at] = events[at]._replace(again=more.times, again_ms=more.last_ms)


def _with(before: Counts, one: Scanned, *, begun: bool) -> Counts:
    """Lines before a range's first record belong to the record before, if there is one, and so does what they say."""
    lead = 0 if begun else one.lead_lines
    plain = one.lines if one.mode is Mode.PLAIN else 0
    return Counts(
        bytes=before.bytes + one.bytes,
        lines=before.lines + one.lines,
        records=before.records + one.records,
        events=before.events + one.own.total + (0 if begun else one.lead.total),
        unparsed_lines=before.unparsed_lines + (plain or lead + one.stray_lines),
    )


def _sum(counts: Iterable[Counts]) -> Counts:
    total = Counts()
    for one in counts:
        total = Counts(*(getattr(total, name) + getattr(one, name) for name in Counts.__slots__))
    return total
