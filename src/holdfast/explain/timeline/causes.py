"""Chains of causes: each happening has at most one, by a named rule. A chain ends where no rule has a cause for it."""

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.explain.library.causal_rule import Rule
from holdfast.explain.timeline.occurrence import Happening

LOOKED_BACK = 200
"""So many are looked at for one that differs."""
SLACK_MS = 50
"""Lines of one instant may be written in any order."""
SECOND_MS = 1000
"""A line that tells whole seconds may be of any moment of that one."""
_NEVER_MS = -(1 << 62)
_Groups = dict[tuple[str, ...], list[int]]


@dataclass(frozen=True, slots=True)
class Link:
    happening: Happening
    rule: str
    """Why it follows from the one before; empty for the first."""
    delay_ms: int


class Causes:
    def __init__(self, happenings: Sequence[Happening], rules: Iterable[Rule]) -> None:
        self._all = list(happenings)
        self._rules: dict[str, list[Rule]] = {}
        for rule in rules:
            for kind in rule.effect:
                self._rules.setdefault(kind, []).append(rule)
        self._by_kind: dict[str, list[int]] = {}
        for number, one in enumerate(self._all):
            self._by_kind.setdefault(one.kind, []).append(number)
        self._by_names: dict[tuple[str, tuple[str, ...]], _Groups] = {}
        self._by_rule: dict[tuple[str, Rule], _Groups] = {}
        self._cause_of: dict[int, tuple[int, Rule] | None] = {}
        self._number = {id(one): number for number, one in enumerate(self._all)}

    def chain(self, happening: Happening) -> tuple[Link, ...]:
        """From what began it to this. Where it would come to the same kind of thing at the same place again, it ends: what
        goes on and off all day has not one beginning."""
        number = self._number[id(happening)]
        backwards: list[Link] = []
        seen: set[tuple[str, str]] = set()
        while True:
            here = self._all[number]
            seen.add((here.kind, here.component))
            cause = self._cause(number)
            if cause is None or (self._all[cause[0]].kind, self._all[cause[0]].component) in seen:
                backwards.append(Link(here, "", 0))
                return tuple(reversed(backwards))
            number, rule = cause
            backwards.append(Link(here, rule.says, max(0, here.begin_ms - self._all[number].begin_ms)))

    def _cause(self, number: int) -> tuple[int, Rule] | None:
        if number not in self._cause_of:
            self._cause_of[number] = self._looked_for(number)
        return self._cause_of[number]

    def _looked_for(self, number: int) -> tuple[int, Rule] | None:
        """By the first rule that has a cause for it, the latest one; of those of one instant, the first."""
        for rule in self._rules.get(self._all[number].kind, ()):
            latest = [found for kind in rule.cause if (found := self._latest(kind, number, rule)) is not None]
            if latest:
                return max(latest, key=lambda found: (self._all[found].begin_ms, -found)), rule
        return None

    def _latest(self, kind: str, number: int, rule: Rule) -> int | None:
        effect = self._all[number]
        alike = self._causes_of(kind, rule).get(tuple(effect.of(name) for name in rule.same), [])
        if kind in rule.effect:  # of two of which each could be the other's cause, it is the one that comes first
            before = bisect.bisect_left(alike, number)
        else:
            slack_ms = SECOND_MS if effect.begin_ms % SECOND_MS == 0 else SLACK_MS
            before = bisect.bisect_right(alike, effect.begin_ms + slack_ms, key=self._begin_ms)
        if rule.differ:
            alike = [found for found in alike[max(0, before - LOOKED_BACK) : before] if _differ(self._all[found], effect, rule)]
            before = len(alike)
        if not before:
            return None
        latest_ms = self._begin_ms(alike[before - 1])
        if latest_ms < self._since_ms(effect, rule):
            return None
        return alike[bisect.bisect_left(alike, latest_ms, key=self._begin_ms)]

    def _causes_of(self, kind: str, rule: Rule) -> _Groups:
        """Those that can be causes by this rule. What one does not say, none has in common with it."""
        if (kind, rule) not in self._by_rule:
            groups = self._alike(kind, rule.same).items()
            self._by_rule[kind, rule] = {
                values: [number for number in numbers if not self._otherwise(self._all[number], rule)]
                for values, numbers in groups
                if all(values)
            }
        return self._by_rule[kind, rule]

    def _since_ms(self, effect: Happening, rule: Rule) -> int:
        """The earliest that a cause may be."""
        earliest = [effect.begin_ms - rule.within_ms]
        for kind in rule.since:
            earliest += [self._last_ms(kind, names, values, effect.begin_ms - 1) for names, values in _of_one(effect)]
        return max(earliest)

    def _otherwise(self, cause: Happening, rule: Rule) -> bool:
        """Whether something else explains that it is there."""
        here = ("component",), (cause.component,)
        return any(self._last_ms(kind, *here, cause.begin_ms) >= cause.begin_ms - rule.within_ms for kind in rule.unless)

    def _last_ms(self, kind: str, names: tuple[str, ...], values: tuple[str, ...], until_ms: int) -> int:
        """When the last of these was that began until then."""
        alike = self._alike(kind, names).get(values, [])
        before = bisect.bisect_right(alike, until_ms, key=self._begin_ms)
        return self._begin_ms(alike[before - 1]) if before else _NEVER_MS

    def _begin_ms(self, number: int) -> int:
        return self._all[number].begin_ms

    def _alike(self, kind: str, names: tuple[str, ...]) -> _Groups:
        """Those of a kind by what they say of these, in order."""
        if (kind, names) not in self._by_names:
            groups: _Groups = {}
            for number in self._by_kind.get(kind, []):
                groups.setdefault(tuple(self._all[number].of(name) for name in names), []).append(number)
            self._by_names[kind, names] = groups
        return self._by_names[kind, names]


def _differ(cause: Happening, effect: Happening, rule: Rule) -> bool:
    """What one of the two does not say is not known to be the same."""
    return not any(cause.of(name) and cause.of(name) == effect.of(name) for name in rule.differ)


def _of_one(effect: Happening) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """What tells those of one client: a process may have several, each with its session, if that is said."""
    session = effect.of("session")
    if not session:
        return [(("component",), (effect.component,))]
    return [(("component", "session"), (effect.component, told)) for told in (session, "")]
