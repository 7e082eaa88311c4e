"""Cause chains. Each occurrence has at most one cause, by a named rule; a chain ends where no rule finds a cause."""

import bisect
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.explain.library.causal_rule import CausalRule
from holdfast.explain.timeline.occurrence import Occurrence
from holdfast.explain.timeline.timeline import Timeline, Values

DIFFERING_MAX = 200
"""Candidates examined for a rule whose cause must differ from its effect in some field."""
SLACK_MS = 50
"""Lines of the same instant may be written in any order."""
SECOND_MS = 1000
"""A line that states whole seconds may belong to any millisecond of that second."""
_NEVER_MS = -(1 << 62)


@dataclass(frozen=True, slots=True)
class CauseLink:
    """Step of a chain: an occurrence and the rule by which it follows from the step before."""

    occurrence: Occurrence
    rule: str
    """Empty for the first step."""
    delay_ms: int


class CauseFinder:
    def __init__(self, timeline: Timeline, rules: Iterable[CausalRule]) -> None:
        self._timeline = timeline
        self._all = timeline.occurrences
        self._rules: dict[str, list[CausalRule]] = {}
        for rule in rules:
            for kind in rule.effect:
                self._rules.setdefault(kind, []).append(rule)
        self._causes_by_rule: dict[tuple[str, CausalRule], dict[Values, list[int]]] = {}
        self._cause_of: dict[int, tuple[int, CausalRule] | None] = {}
        self._positions = {id(one): position for position, one in enumerate(self._all)}

    def chain(self, occurrence: Occurrence) -> tuple[CauseLink, ...]:
        """Return the steps from the first cause to this occurrence.

        The chain ends before it reaches the same kind at the same component again: a condition that comes and goes all day
        has no single beginning."""
        position = self._positions[id(occurrence)]
        backwards: list[CauseLink] = []
        visited: set[tuple[str, str]] = set()
        while True:
            here = self._all[position]
            visited.add((here.kind, here.component))
            cause = self._find_cause(position)
            if cause is None or (self._all[cause[0]].kind, self._all[cause[0]].component) in visited:
                backwards.append(CauseLink(here, "", 0))
                return tuple(reversed(backwards))
            position, rule = cause
            backwards.append(CauseLink(here, rule.description, max(0, here.begin_ms - self._all[position].begin_ms)))

    def _find_cause(self, position: int) -> tuple[int, CausalRule] | None:
        if position not in self._cause_of:
            self._cause_of[position] = self._search_rules(position)
        return self._cause_of[position]

    def _search_rules(self, position: int) -> tuple[int, CausalRule] | None:
        """Return the latest cause that the first matching rule allows; of causes at one instant, the first."""
        for rule in self._rules.get(self._all[position].kind, ()):
            latest = [cause for kind in rule.cause if (cause := self._latest_cause(kind, position, rule)) is not None]
            if latest:
                return max(latest, key=lambda cause: (self._all[cause].begin_ms, -cause)), rule
        return None

    def _latest_cause(self, kind: str, position: int, rule: CausalRule) -> int | None:
        effect, begin_ms = self._all[position], self._timeline.begin_ms
        causes = self._possible_causes(kind, rule).get(tuple(effect.value(name) for name in rule.same), [])
        if kind in rule.effect:  # each of the two could cause the other: the earlier one is the cause
            before = bisect.bisect_left(causes, position)
        else:
            slack_ms = SECOND_MS if effect.begin_ms % SECOND_MS == 0 else SLACK_MS
            before = bisect.bisect_right(causes, effect.begin_ms + slack_ms, key=begin_ms)
        if rule.differ:
            recent = causes[max(0, before - DIFFERING_MAX) : before]
            causes = [cause for cause in recent if _differ(self._all[cause], effect, rule)]
            before = len(causes)
        if not before:
            return None
        latest_ms = begin_ms(causes[before - 1])
        if latest_ms < self._earliest_ms(effect, rule):
            return None
        return causes[bisect.bisect_left(causes, latest_ms, key=begin_ms)]

    def _possible_causes(self, kind: str, rule: CausalRule) -> dict[Values, list[int]]:
        """Return the occurrences that this rule accepts as causes. Events that lack a join field never match."""
        if (kind, rule) not in self._causes_by_rule:
            self._causes_by_rule[kind, rule] = {
                values: [position for position in positions if not self._is_excluded(self._all[position], rule)]
                for values, positions in self._timeline.group(kind, rule.same).items()
                if all(values)
            }
        return self._causes_by_rule[kind, rule]

    def _earliest_ms(self, effect: Occurrence, rule: CausalRule) -> int:
        """Return the earliest time of a cause: within the rule's limit, and after the last event named by `since`."""
        earliest = [effect.begin_ms - rule.within_ms]
        for kind in rule.since:
            earliest += [self._last_ms(kind, names, values, effect.begin_ms - 1) for names, values in _same_client(effect)]
        return max(earliest)

    def _is_excluded(self, cause: Occurrence, rule: CausalRule) -> bool:
        """Return True if an event named by `unless` precedes the cause at the same component."""
        here = ("component",), (cause.component,)
        return any(self._last_ms(kind, *here, cause.begin_ms) >= cause.begin_ms - rule.within_ms for kind in rule.unless)

    def _last_ms(self, kind: str, names: Values, values: Values, until_ms: int) -> int:
        """Return the begin of the last such occurrence that began by `until_ms`."""
        positions = self._timeline.group(kind, names).get(values, [])
        before = bisect.bisect_right(positions, until_ms, key=self._timeline.begin_ms)
        return self._timeline.begin_ms(positions[before - 1]) if before else _NEVER_MS


def _differ(cause: Occurrence, effect: Occurrence, rule: CausalRule) -> bool:
    """Return True unless the two agree in a `differ` field. A missing value never counts as equal."""
    return not any(cause.value(name) and cause.value(name) == effect.value(name) for name in rule.differ)


def _same_client(effect: Occurrence) -> list[tuple[Values, Values]]:
    """Return the (fields, values) of occurrences of the same client. A process may have several clients, one per session."""
    session = effect.value("session")
    if not session:
        return [(("component",), (effect.component,))]
    return [(("component", "session"), (effect.component, value)) for value in (session, "")]
