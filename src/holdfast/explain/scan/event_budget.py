"""Events, but only so many of a kind in a minute, and of a range as many as it has room for. The rest is counted, by what it is
like, and what is too much for that by its kind and minute."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.explain.event import Event, Like, minute
from holdfast.explain.scan.event_matcher import Sighting

EVENTS_PER_MINUTE = 50
"""Of one kind, in one file."""
LIKES_MAX = 1000
"""So many that nothing like them is kept are counted by what they are like."""


class Over(NamedTuple):
    times: int
    last_ms: int | None
    """Of the last of them."""

    def and_more(self, times: int, last_ms: int | None) -> "Over":
        if last_ms is None or (self.last_ms is not None and self.last_ms > last_ms):
            last_ms = self.last_ms
        return Over(self.times + times, last_ms)


NONE_OVER = Over(0, None)


class Told(NamedTuple):
    events: tuple[Event, ...]
    over: Mapping[Like, Over]
    """Events that there were more, by what they are like."""
    dropped: Mapping[tuple[str, int], int]
    """(kind, minute) → those of which nothing but their number is known."""

    @property
    def total(self) -> int:
        return len(self.events) + sum(more.times for more in self.over.values()) + sum(self.dropped.values())


NOTHING_TOLD = Told((), {}, {})


class Said:
    def __init__(self, room: int) -> None:
        self._room = room
        self._events: list[Event] = []
        self._over: dict[Like, Over] = {}
        self._dropped: Counter[tuple[str, int]] = Counter()
        self._often: Counter[tuple[str, int]] = Counter()
        self._kept: dict[tuple[str, int], list[Event]] = {}
        self._full: set[tuple[str, int]] = set()
        """Those of which there was one more than are kept."""

    def add(self, one: Sighting) -> None:
        key = one.kind, one.minute
        self._often[key] += 1
        kept = self._kept.setdefault(key, [])
        if len(kept) < EVENTS_PER_MINUTE:
            event = one.event()
            kept.append(event)
            self._events.append(event)
            return
        if key not in self._full:
            self._full.add(key)
            self._over.update((before.like, NONE_OVER) for before in kept if before.like not in self._over)
        like = one.like
        known = self._over.get(like)
        if not one.repeatable or (known is None and len(self._over) >= LIKES_MAX):
            self._dropped[key] += 1
        else:
            self._over[like] = (known or NONE_OVER).and_more(1, one.ms)

    def close(self) -> Told:
        """No more comes."""
        stay = self._stay() if len(self._events) > self._room else range(len(self._events))
        for number, event in enumerate(self._events):
            if number not in stay and event.repeatable:
                self._over[event.like] = self._over.get(event.like, NONE_OVER).and_more(1, event.ms)
            elif number not in stay:
                self._dropped[event.kind, event.minute] += 1
        events = tuple(event for number, event in enumerate(self._events) if number in stay)
        return Told(events, self._told_over({event.like for event in events}), self._told_dropped())

    def _stay(self) -> set[int]:
        """The kinds take turns, so that a rare one is not lost in a common one; each with the first of every minute first, and
        with those of the minutes before others in which there was most of it."""
        of_minute: Counter[tuple[str, int]] = Counter()
        of_kind: dict[str, list[tuple[int, int, int]]] = {}
        for number, event in enumerate(self._events):
            key = event.kind, event.minute
            of_kind.setdefault(event.kind, []).append((of_minute[key], -self._often[key], number))
            of_minute[key] += 1
        turns = sorted((turn, number) for told in of_kind.values() for turn, (_, _, number) in enumerate(sorted(told)))
        return {number for _, number in turns[: max(self._room, len(of_kind))]}

    def _told_over(self, kept: set[Like]) -> dict[Like, Over]:
        """First those that there is an event for, and then the commonest."""
        over = {like: more for like, more in self._over.items() if more.times}
        if len(over) > self._room:
            for like in sorted(over, key=lambda like: (like not in kept, -over[like].times))[self._room :]:
                self._dropped[like.kind, like.minute] += over.pop(like).times
        return over

    def _told_dropped(self) -> dict[tuple[str, int], int]:
        """Of the commonest, their minute."""
        for key in sorted(self._dropped, key=lambda key: -self._dropped[key])[self._room :]:
            self._dropped[key[0], minute(None)] += self._dropped.pop(key)
        return dict(self._dropped)
