"""Events, but only so many of a kind in a minute: the rest is counted, by what it is like."""

from collections import Counter
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class Said:
    events: list[Event] = field(default_factory=list)
    over: dict[Like, Over] = field(default_factory=dict)
    """Events that there were more, by what they are like."""
    dropped: Counter[tuple[str, int]] = field(default_factory=Counter)
    """(kind, minute) → those of which nothing but their number is known."""
    kept: dict[tuple[str, int], list[Event]] = field(default_factory=dict)

    _full: set[tuple[str, int]] = field(default_factory=set)
    """Those of which there was one more than are kept."""

    def add(self, one: Sighting) -> None:
        key = one.kind, one.minute
        kept = self.kept.setdefault(key, [])
        if len(kept) < EVENTS_PER_MINUTE:
            event = one.event()
            kept.append(event)
            self.events.append(event)
            return
        if key not in self._full:
            self._full.add(key)
            self.over.update((before.like, NONE_OVER) for before in kept if before.like not in self.over)
        like = one.like
        known = self.over.get(like)
        if not one.repeatable or (known is None and len(self.over) >= LIKES_MAX):
            self.dropped[key] += 1
        else:
            self.over[like] = (known or NONE_OVER).and_more(1, one.ms)

    def close(self) -> None:
        """No more comes. What was needed to count goes."""
        self.over = {like: more for like, more in self.over.items() if more.times}
        self.kept.clear()
        self._full.clear()

    @property
    def total(self) -> int:
        return len(self.events) + sum(more.times for more in self.over.values()) + self.dropped.total()
