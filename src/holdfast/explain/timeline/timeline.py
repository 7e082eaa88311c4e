"""Timeline: all occurrences in order of time, indexed by kind and by the values of their fields."""

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.explain.timeline.occurrence import Occurrence

Values = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClockSkew:
    """Clock of a component that differs from the others."""

    component: str
    behind_ms: int
    error_ms: int
    evidence: tuple[Occurrence, ...]


class Timeline:
    """Occurrences in order of time, repetitions merged. Their position in `occurrences` identifies them."""

    def __init__(self, occurrences: Sequence[Occurrence], skews: Sequence[ClockSkew] = ()) -> None:
        self.occurrences = tuple(occurrences)
        self.skews = tuple(skews)
        self._by_kind: dict[str, list[int]] = {}
        for position, one in enumerate(self.occurrences):
            self._by_kind.setdefault(one.kind, []).append(position)
        self._groups: dict[tuple[str, Values], dict[Values, list[int]]] = {}

    def group(self, kind: str, fields: Values) -> dict[Values, list[int]]:
        """Return the positions of a kind's occurrences by the values of `fields`, each list in order of time."""
        if (kind, fields) not in self._groups:
            groups: dict[Values, list[int]] = {}
            for position in self._by_kind.get(kind, ()):
                one = self.occurrences[position]
                groups.setdefault(tuple(one.value(field) for field in fields), []).append(position)
            self._groups[kind, fields] = groups
        return self._groups[kind, fields]

    def begin_ms(self, position: int) -> int:
        return self.occurrences[position].begin_ms

    def all(self, *kinds: str) -> list[Occurrence]:
        """Return the occurrences of these kinds in order of time."""
        return in_order(self.occurrences[position] for kind in kinds for position in self._by_kind.get(kind, ()))

    def near(self, one: Occurrence, before_ms: int, after_ms: int, *kinds: str, same: str = "") -> list[Occurrence]:
        """Return the occurrences of these kinds around `one`. `same` names a field whose value they share with it."""
        found: list[Occurrence] = []
        for kind in kinds:
            positions = self._sharing(one, same, kind) if same else self._by_kind.get(kind, [])
            first = bisect.bisect_left(positions, one.begin_ms - before_ms, key=self.begin_ms)
            last = bisect.bisect_right(positions, one.begin_ms + after_ms, key=self.begin_ms)
            found += [self.occurrences[position] for position in positions[first:last]]
        return in_order(found) if len(kinds) > 1 else found

    def sharing(self, one: Occurrence, field: str, *kinds: str) -> list[Occurrence]:
        """Return all occurrences of these kinds that have the same value of `field` as `one`, at any time."""
        return [self.occurrences[position] for kind in kinds for position in self._sharing(one, field, kind)]

    def _sharing(self, one: Occurrence, field: str, kind: str) -> list[int]:
        return self.group(kind, (field,)).get((one.value(field),), [])


def in_order(occurrences: Iterable[Occurrence]) -> list[Occurrence]:
    return sorted(occurrences, key=lambda one: one.order)
