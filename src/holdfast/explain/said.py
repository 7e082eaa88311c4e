"""Events, but only so many of a kind in a minute: the rest is counted, by what it is like."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.explain.event import Event, Like
from holdfast.explain.reader import Sighting

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
    def __init__(self) -> None:
        self._events: list[Event] = []
        self._over: dict[Like, Over] = {}
        self._dropped: Counter[tuple[str, int]] = Counter()
        self._kept: dict[tuple[str, int], list[Event]] = {}
        self._full: set[tuple[str, int]] = set()
        """Those of which there was one more than are kept."""

    def add(self, one: Sighting) -> None:
        key = one.kind, one.minute
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
        return Told(tuple(self._events), {like: more for like, more in self._over.items() if more.times}, dict(self._dropped))
