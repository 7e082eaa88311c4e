"""Limits on the events that a scan returns, and the count of the events beyond them. This module owns all of these limits.

Per file, kind and minute the first 50 events are kept. A range keeps at most its share of 400,000 events. Every further event
is counted: with the kept event that it repeats, or by kind and minute if it repeats none.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.explain.event import NO_REPETITIONS, LogEvent, RepetitionKey, Repetitions, minute_of
from holdfast.explain.scan.event_matcher import EventMatch

EVENTS_PER_MINUTE = 50
"""Events of one kind kept per minute of one file."""
EVENTS_MAX = 400_000
"""Events returned by all ranges together; the same limit holds for templates and for counts of events that are not kept."""
RANGE_EVENTS_MIN = 50
"""Least share of a range."""
REPETITION_KEYS_MAX = 1000
"""Repetition keys of a range that are counted though no event with that key is kept."""


def range_event_limit(size: int, total: int, ranges: int) -> int:
    """Return a range's share of `EVENTS_MAX`: by its size, but at least an equal share.

    The log of a coordinator is small compared with those of its workers, and reports more."""
    return max(EVENTS_MAX * size // max(total, 1), EVENTS_MAX // ranges, RANGE_EVENTS_MIN)


class KeptEvents(NamedTuple):
    """Events of a range within its limits, and counts of the others."""

    events: tuple[LogEvent, ...]
    repeated: Mapping[RepetitionKey, Repetitions]
    """Events that are not kept, by repetition key."""
    dropped: Mapping[tuple[str, int], int]
    """(kind, minute) → further events, of which only the number is known."""

    @property
    def total(self) -> int:
        return len(self.events) + sum(more.total for more in self.repeated.values()) + sum(self.dropped.values())


NO_EVENTS = KeptEvents((), {}, {})


class EventBudget:
    """Bounded event buffer of one range: at most 50 events per kind and minute and `limit` in all; the rest are counted."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._events: list[LogEvent] = []
        self._repeated: dict[RepetitionKey, Repetitions] = {}
        self._dropped: Counter[tuple[str, int]] = Counter()
        self._seen: Counter[tuple[str, int]] = Counter()
        self._kept: dict[tuple[str, int], list[LogEvent]] = {}
        self._full: set[tuple[str, int]] = set()
        """(kind, minute) of which events beyond the limit were seen."""

    def add(self, match: EventMatch) -> None:
        minute = match.kind, match.minute
        self._seen[minute] += 1
        kept = self._kept.setdefault(minute, [])
        if len(kept) < EVENTS_PER_MINUTE:
            event = match.to_event()
            kept.append(event)
            self._events.append(event)
            return
        if minute not in self._full:
            self._full.add(minute)
            for event in kept:
                self._repeated.setdefault(event.repetition_key, NO_REPETITIONS)
        key = match.repetition_key
        known = self._repeated.get(key)
        if not match.is_repeatable or (known is None and len(self._repeated) >= REPETITION_KEYS_MAX):
            self._dropped[minute] += 1
        else:
            self._repeated[key] = (known or NO_REPETITIONS).plus(1, match.ms)

    def close(self) -> KeptEvents:
        """Apply the limit of the range and return what is kept."""
        chosen = self._choose() if len(self._events) > self._limit else range(len(self._events))
        for index, event in enumerate(self._events):
            if index not in chosen and event.is_repeatable:
                key = event.repetition_key
                self._repeated[key] = self._repeated.get(key, NO_REPETITIONS).plus(1, event.ms)
            elif index not in chosen:
                self._dropped[event.kind, event.minute] += 1
        events = tuple(event for index, event in enumerate(self._events) if index in chosen)
        return KeptEvents(events, self._limit_repeated({event.repetition_key for event in events}), self._limit_dropped())

    def _choose(self) -> set[int]:
        """Choose events by turns of the kinds, so that a common kind does not displace a rare one.

        Within a kind, the first event of every minute comes first, and minutes with more events come before others."""
        of_minute: Counter[tuple[str, int]] = Counter()
        of_kind: dict[str, list[tuple[int, int, int]]] = {}
        for index, event in enumerate(self._events):
            minute = event.kind, event.minute
            of_kind.setdefault(event.kind, []).append((of_minute[minute], -self._seen[minute], index))
            of_minute[minute] += 1
        turns = sorted((turn, index) for ranked in of_kind.values() for turn, (_, _, index) in enumerate(sorted(ranked)))
        return {index for _, index in turns[: max(self._limit, len(of_kind))]}

    def _limit_repeated(self, kept: set[RepetitionKey]) -> dict[RepetitionKey, Repetitions]:
        """Keep the counts that belong to kept events first, then the largest counts."""
        repeated = {key: more for key, more in self._repeated.items() if more.total}
        if len(repeated) > self._limit:
            for key in sorted(repeated, key=lambda key: (key not in kept, -repeated[key].total))[self._limit :]:
                self._dropped[key.kind, key.minute] += repeated.pop(key).total
        return repeated

    def _limit_dropped(self) -> dict[tuple[str, int], int]:
        """Keep the minutes of the largest counts; add up the others per kind."""
        for key in sorted(self._dropped, key=lambda key: -self._dropped[key])[self._limit :]:
            self._dropped[key[0], minute_of(None)] += self._dropped.pop(key)
        return dict(self._dropped)


class EventMerger:
    """Events of the ranges of all files, merged in order of files and offsets. Applies the limit per minute to whole files."""

    def __init__(self) -> None:
        self._events: list[LogEvent] = []
        self._kept: Counter[tuple[int, str, int]] = Counter()
        self._repeated: dict[tuple[int, RepetitionKey], Repetitions] = {}
        self._dropped: Counter[tuple[int, str, int]] = Counter()

    def add(self, file: int, range_events: KeptEvents, lines_before: int) -> None:
        """Add the events of the file's next range. `lines_before` is added to their line numbers."""
        self._dropped.update({(file, *minute): count for minute, count in range_events.dropped.items()})
        for event in range_events.events:
            minute = file, event.kind, event.minute
            self._kept[minute] += 1
            if self._kept[minute] <= EVENTS_PER_MINUTE:
                self._events.append(event._replace(line=event.line + lines_before))
            elif not event.is_repeatable:
                self._dropped[minute] += 1
            else:
                self._repeat(file, event.repetition_key, 1, event.ms)
        for key, more in range_events.repeated.items():
            self._repeat(file, key, *more)

    def _repeat(self, file: int, key: RepetitionKey, number: int, last_ms: int | None) -> None:
        self._repeated[file, key] = self._repeated.get((file, key), NO_REPETITIONS).plus(number, last_ms)

    def close(self) -> tuple[tuple[LogEvent, ...], Counter[tuple[int, str, int]]]:
        """Return the events, and (file, kind, minute) → events that are neither kept nor repeat a kept one.

        Repetitions are counted with the last kept event that they repeat."""
        events = self._events
        last: dict[tuple[int, RepetitionKey], int] = {}
        if self._repeated:
            last = {(event.file, event.repetition_key): at for at, event in enumerate(events) if event.is_repeatable}
        for (file, key), more in self._repeated.items():
            at = last.get((file, key))
            if at is None:
                self._dropped[file, key.kind, key.minute] += more.total
            else:
                events[at] = events[at]._replace(repetitions=more)
        return tuple(events), self._dropped
