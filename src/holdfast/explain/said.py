"""Events, but only so many of a kind in a minute: the rest is counted, by what it is like."""

from collections import Counter
from dataclasses import dataclass, field

from holdfast.explain.event import Event, Like

EVENTS_PER_MINUTE = 50
"""Of one kind, in one file."""
LIKES_MAX = 1000
"""So many that nothing like them is kept are counted by what they are like."""


@dataclass(frozen=True, slots=True)
class Over:
    count: int
    last_ms: int | None
    """Of the last of them."""

    def and_more(self, count: int, last_ms: int | None) -> "Over":
        moments = [ms for ms in (self.last_ms, last_ms) if ms is not None]
        return Over(self.count + count, max(moments, default=None))


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

    def add(self, event: Event) -> None:
        key = event.kind, event.minute
        kept = self.kept.setdefault(key, [])
        if len(kept) < EVENTS_PER_MINUTE:
            kept.append(event)
            self.events.append(event)
            return
        if key not in self._full:
            self._full.add(key)
            self.over.update((one.like, NONE_OVER) for one in kept if one.like not in self.over)
        like = event.like
        known = self.over.get(like)
        if not event.repeatable or (known is None and len(self.over) >= LIKES_MAX):
            self.dropped[key] += 1
        else:
            self.over[like] = (known or NONE_OVER).and_more(1, event.ms)

    def close(self) -> None:
        """No more comes. What was needed to count goes."""
        self.over = {like: more for like, more in self.over.items() if more.count}
        self.kept.clear()
        self._full.clear()

    @property
    def total(self) -> int:
        return len(self.events) + sum(more.count for more in self.over.values()) + self.dropped.total()
