"""Chains of causes: each happening has at most one, by a named rule. A chain ends where no rule has a cause for it."""

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.explain.happening import Happening
from holdfast.explain.rule import Rule

SLACK_MS = 50
"""Lines of one instant may be written in any order."""
SECOND_MS = 1000
"""A line that tells whole seconds may be of any moment of that one."""


@dataclass(frozen=True, slots=True)
class Link:
    happening: Happening
    rule: str
    """Why it follows from the one before; empty for the first."""
    delay_ms: int


class Causes:
    def __init__(self, happenings: Sequence[Happening], rules: Iterable[Rule]) -> None:
        self._all = list(happenings)
        self._by_kind: dict[str, list[int]] = {}
        for number, one in enumerate(self._all):
            self._by_kind.setdefault(one.kind, []).append(number)
        self._begins = {kind: [self._all[number].begin_ms for number in numbers] for kind, numbers in self._by_kind.items()}
        self._rules = tuple(rules)
        self._cause_of: dict[int, tuple[int, Rule] | None] = {}
        self._number = {id(one): number for number, one in enumerate(self._all)}

    def chain(self, happening: Happening) -> tuple[Link, ...]:
        """From what began it to this."""
        number: int | None = self._number[id(happening)]
        backwards: list[Link] = []
        seen: set[int] = set()
        while number is not None and number not in seen:
            seen.add(number)
            here = self._all[number]
            cause = self._cause(number)
            if cause is None:
                backwards.append(Link(here, "", 0))
                break
            before, rule = cause
            backwards.append(Link(here, rule.says, max(0, here.begin_ms - self._all[before].begin_ms)))
            number = before
        return tuple(reversed(backwards))

    def root(self, happening: Happening) -> Happening:
        return self.chain(happening)[0].happening

    def _cause(self, number: int) -> tuple[int, Rule] | None:
        if number not in self._cause_of:
            self._cause_of[number] = self._looked_for(number)
        return self._cause_of[number]

    def _looked_for(self, number: int) -> tuple[int, Rule] | None:
        effect = self._all[number]
        for rule in self._rules:
            if effect.kind in rule.effect:
                candidates = [found for kind in rule.cause for found in self._before(kind, number, effect, rule)]
                if candidates:
                    return max(candidates, key=lambda found: (self._all[found].begin_ms, -found)), rule
        return None

    def _before(self, kind: str, number: int, effect: Happening, rule: Rule) -> Iterable[int]:
        slack_ms = SECOND_MS if effect.begin_ms % SECOND_MS == 0 else SLACK_MS
        for found in self._between(kind, self._since_ms(effect, rule), effect.begin_ms + slack_ms):
            cause = self._all[found]
            alike = all(cause.of(name) and cause.of(name) == effect.of(name) for name in rule.same)
            # Of two of which each could be the other's cause, it is the one that comes first.
            first_of_both = (cause.begin_ms, found) < (effect.begin_ms, number) or cause.kind not in rule.effect
            if found != number and alike and first_of_both and not self._otherwise(cause, rule):
                yield found

    def _since_ms(self, effect: Happening, rule: Rule) -> int:
        """The earliest that a cause may be."""
        earliest = effect.begin_ms - rule.within_ms
        mine = [other.begin_ms for other in self._near(rule.since, earliest, effect.begin_ms - 1) if _of_one(other, effect)]
        return max([earliest, *mine])

    def _otherwise(self, cause: Happening, rule: Rule) -> bool:
        """Whether something else explains that it is there."""
        before = self._near(rule.unless, cause.begin_ms - rule.within_ms, cause.begin_ms)
        return any(other.component == cause.component for other in before)

    def _near(self, kinds: Iterable[str], first_ms: int, last_ms: int) -> Iterable[Happening]:
        return (self._all[found] for kind in kinds for found in self._between(kind, first_ms, last_ms))

    def _between(self, kind: str, first_ms: int, last_ms: int) -> list[int]:
        numbers, begins = self._by_kind.get(kind, []), self._begins.get(kind, [])
        return numbers[bisect.bisect_left(begins, first_ms) : bisect.bisect_right(begins, last_ms)]


def _of_one(other: Happening, effect: Happening) -> bool:
    """Of one client: a process may have several, each with its session."""
    sessions = {other.of("session"), effect.of("session")} - {""}
    return other.component == effect.component and len(sessions) < 2
