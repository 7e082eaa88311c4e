"""Occurrence: an event on the common clock, with its component, its duration and its repetitions. All reasoning uses these."""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.explain.event import LogEvent

REPETITION_GAP_MS = 60_000
"""The same event within this time is a repetition."""
_STATES = (
    {"connection-suspended", "connection-regained", "connection-lost"},
    {"client-disconnected", "client-connected"},
    {"leadership-revoked", "leadership-granted"},
)
OTHER_STATES = {kind: states - {kind} for states in _STATES for kind in states}
"""Kind that is a state → kinds that end it. After one of those, the same event is not a repetition."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    event: LogEvent
    """First event, if it was repeated."""
    component: str
    begin_ms: int
    end_ms: int
    """Time of the line. `begin_ms` is earlier if the line states a duration."""
    count: int = 1
    last_ms: int = 0
    """Time of the last repetition."""

    @property
    def kind(self) -> str:
        return self.event.kind

    def value(self, field: str) -> str:
        """Return the value of an event field, or the component for the field "component"; empty if the field is missing."""
        return self.component if field == "component" else self.event.fields.get(field, "")

    @property
    def repetition_key(self) -> tuple[str, ...]:
        return self.kind, self.component, *self.event.repetition_values

    @property
    def order(self) -> tuple[int, int, int, int]:
        return self.begin_ms, self.end_ms, self.event.file, self.event.offset


def fold_repetitions(occurrences: Iterable[Occurrence]) -> list[Occurrence]:
    """Sort by begin and merge repetitions. The counts of the result add up to those of the input."""
    open_index: dict[tuple[str, ...], int] = {}
    entered: dict[tuple[str, str, str], int] = {}
    folded: list[Occurrence] = []
    for number, one in enumerate(sorted(occurrences, key=lambda occurrence: occurrence.order)):
        last_ms = max(one.begin_ms, one.last_ms)
        key = one.repetition_key
        at = open_index.get(key)
        state_changed = False
        if one.kind in OTHER_STATES:
            client = one.component, one.value("session")
            since = entered.get((one.kind, *client), -1)
            state_changed = any(entered.get((other, *client), -1) > since for other in OTHER_STATES[one.kind])
            entered[one.kind, *client] = number
        if at is not None and not state_changed and _repeats(folded[at], one):
            before = folded[at]
            last_ms = max(before.last_ms, last_ms)
            folded[at] = Occurrence(
                before.event, before.component, before.begin_ms, before.end_ms, before.count + one.count, last_ms
            )
            continue
        open_index[key] = len(folded)
        folded.append(Occurrence(one.event, one.component, one.begin_ms, one.end_ms, one.count, last_ms))
    return folded


def _repeats(before: Occurrence, one: Occurrence) -> bool:
    """Return True if `one` repeats `before`. An event that is not repeatable does so only if its line was quoted twice."""
    if not one.event.is_repeatable:
        return (before.begin_ms, before.end_ms) == (one.begin_ms, one.end_ms)
    return one.begin_ms - max(before.end_ms, before.last_ms) <= REPETITION_GAP_MS
