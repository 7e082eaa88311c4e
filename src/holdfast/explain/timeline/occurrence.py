"""Events with a place and a time: who, from when to when, and how often. What all reasoning works on."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.explain.event import Event

FOLDED_WITHIN_MS = 60_000
"""The same again within this time is a repetition."""
_STATES = (
    {"connection-suspended", "connection-regained", "connection-lost"},
    {"client-disconnected", "client-connected"},
    {"leadership-revoked", "leadership-granted"},
)
OTHER_STATES = {kind: states - {kind} for states in _STATES for kind in states}
"""Of a kind that is a state, those that end it: after one of them, the same again is no repetition."""


@dataclass(frozen=True, slots=True)
class Happening:
    event: Event
    """The first of its kind here."""
    component: str
    begin_ms: int
    end_ms: int
    """When its line was written; `begin_ms` is earlier where the line says how long it took."""
    count: int = 1
    last_ms: int = 0
    """When it was last said again."""

    @property
    def kind(self) -> str:
        return self.event.kind

    def of(self, field: str) -> str:
        return self.component if field == "component" else self.event.fields.get(field, "")

    @property
    def key(self) -> tuple[str, ...]:
        """What makes two of them the same but for the time."""
        return self.kind, self.component, *self.event.told


def folded(happenings: Iterable[Happening]) -> list[Happening]:
    """In the order of their beginnings, repetitions as one. The counts add up to what came in."""
    open_: dict[tuple[str, ...], int] = {}
    entered: dict[tuple[str, str, str], int] = {}
    found: list[Happening] = []
    for number, one in enumerate(sorted(happenings, key=_order)):
        last_ms = max(one.begin_ms, one.last_ms)
        key = one.key
        at = open_.get(key)
        left = False
        if one.kind in OTHER_STATES:
            whose = one.component, one.of("session")
            since = entered.get((one.kind, *whose), -1)
            left = any(entered.get((other, *whose), -1) > since for other in OTHER_STATES[one.kind])
            entered[one.kind, *whose] = number
        if at is not None and not left and _repeats(found[at], one):
            before = found[at]
            last_ms = max(before.last_ms, last_ms)
            found[at] = Happening(
                before.event, before.component, before.begin_ms, before.end_ms, before.count + one.count, last_ms
            )
            continue
        open_[key] = len(found)
        found.append(Happening(one.event, one.component, one.begin_ms, one.end_ms, one.count, last_ms))
    return found


def _order(one: Happening) -> tuple[int, int, int, int]:
    return one.begin_ms, one.end_ms, one.event.file, one.event.offset


def _repeats(before: Happening, one: Happening) -> bool:
    """What counts for itself is a repetition only if somebody quoted it twice."""
    if not one.event.repeatable:
        return (before.begin_ms, before.end_ms) == (one.begin_ms, one.end_ms)
    return one.begin_ms - max(before.end_ms, before.last_ms) <= FOLDED_WITHIN_MS


def kinds(happenings: Iterable[Happening]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for one in happenings:
        counted[one.kind] += one.count
    return counted
