"""One time for all: days and zones that lines do not say, and clocks that differ, from what several logs saw.

Every file has a clock; where lines of several programs are quoted in one, each format has. All are read as UTC first, and then
moved by whole quarters of an hour where that is the only way in which what two of them say fits together.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.explain.event import Event
from holdfast.explain.library.causal_rule import Rule

DAY_MS = 86_400_000
QUARTER_MS = 900_000
SECOND_MS = 1000
ZONES = range(-56, 57)
CLOSE_MS = 300_000
SEEN_WITHIN_MS = 100
"""How long it may take until everybody has seen that a session is opened."""
SHARED_MIN = 3
"""So many sessions must agree: one that a log tells of only when its client came back would look like another clock."""
LINKED_MAX = 200
SETTLED_MAX = 500
"""So many events of a clock are held against so many of those before it: what connects them is seldom far."""
Clock = tuple[int, str]


@dataclass(slots=True)
class Clocks:
    moved_ms: dict[Clock, int] = field(default_factory=dict)
    """What is added to what a clock says."""
    error_ms: dict[Clock, int | None] = field(default_factory=dict)
    """How far off it may be still; None if nothing tells."""
    anchors: dict[Clock, tuple[Event, ...]] = field(default_factory=dict)
    """What two logs saw, by which a clock was set right."""
    day_ms: dict[Clock, int] = field(default_factory=dict)
    """The day, for a clock that tells only the time of day."""
    undated: set[Clock] = field(default_factory=set)
    """Those whose day is not known."""

    def at(self, event: Event) -> int | None:
        return None if event.ms is None else self.right(clock_of(event), event.ms)

    def right(self, clock: Clock, ms: int) -> int:
        return ms + self.day_ms.get(clock, 0) + self.moved_ms.get(clock, 0)


def clock_of(event: Event) -> Clock:
    return event.file, event.format


def clocks(events: Iterable[Event], rules: Iterable[Rule]) -> Clocks:
    found = Clocks()
    of_clock: dict[Clock, list[Event]] = {}
    for event in events:
        if event.ms is not None:
            of_clock.setdefault(clock_of(event), []).append(event)
    if not of_clock:
        return found
    for clock, said in of_clock.items():
        if not all(event.dated for event in said):
            day_ms = _day(said)
            found.day_ms[clock] = day_ms or 0
            if day_ms is None:
                found.undated.add(clock)
    reference = max(of_clock, key=lambda clock: (len(of_clock[clock]), -clock[0], clock[1]))
    rules = list(rules)
    settled = list(of_clock[reference])
    begin, end = _span(found, settled)
    for clock in sorted(of_clock, key=lambda clock: (-len(of_clock[clock]), clock)):
        if clock != reference and clock not in found.undated and reference not in found.undated:
            first, last = _span(found, of_clock[clock])
            if first > end + CLOSE_MS or last < begin - CLOSE_MS:  # else both tell of the same time
                _align(found, clock, of_clock[clock], settled, rules)
                first, last = _span(found, of_clock[clock])
            begin, end = min(begin, first), max(end, last)
            settled += of_clock[clock]
    _set_right(found, reference, of_clock)
    return found


def _day(events: list[Event]) -> int | None:
    """Of times of day: from a checkpoint whose number and whose time since 1970 are both told. In the clock's own zone."""
    completed = {event.fields["checkpoint"]: event.ms for event in events if event.kind == "checkpoint-completed" and event.ms}
    for event in events:
        number = event.fields.get("checkpoint", "")
        if event.kind == "checkpoint-restored" and number in completed and "at_ms" in event.fields:
            began_ms = int(event.fields["at_ms"])
            of_day_ms = completed[number] or 0
            for zone in ZONES:
                late_ms = of_day_ms - (began_ms + zone * QUARTER_MS) % DAY_MS
                if 0 <= late_ms < QUARTER_MS:
                    return (began_ms + zone * QUARTER_MS) // DAY_MS * DAY_MS
    return None


def _span(found: Clocks, events: list[Event]) -> tuple[int, int]:
    moments = [found.at(event) or 0 for event in events]
    return min(moments), max(moments)


def _align(found: Clocks, clock: Clock, events: list[Event], settled: list[Event], rules: list[Rule]) -> None:
    """Move a clock to another zone only if that connects what is not connected as it is."""
    fitting = dict.fromkeys(ZONES, 0)
    for event, other, least_ms, most_ms in _links(events, settled, rules):
        between_ms = (found.at(event) or 0) - (found.at(other) or 0)
        first, last = -((between_ms - least_ms) // QUARTER_MS), (most_ms - between_ms) // QUARTER_MS
        for zone in range(max(first, ZONES[0]), min(last, ZONES[-1]) + 1):
            fitting[zone] += 1
    best = max(ZONES, key=lambda zone: (fitting[zone], -abs(zone), zone))
    if fitting[best] > fitting[0]:
        found.moved_ms[clock] = found.moved_ms.get(clock, 0) + best * QUARTER_MS


def _set_right(found: Clocks, reference: Clock, of_clock: dict[Clock, list[Event]]) -> None:
    """By what is seen everywhere at once: a session that is opened. From the reference on, from log to log."""
    opened = {clock: _opened(events) for clock, events in of_clock.items()}
    of_session: dict[str, list[Clock]] = {}
    for clock, sessions in opened.items():
        for session in sessions:
            of_session.setdefault(session, []).append(clock)
    found.error_ms[reference] = 0
    right = [reference]
    for known in right:  # grows meanwhile
        seen_by_both: dict[Clock, list[tuple[Event, Event]]] = {}
        for session, event in sorted(opened[known].items()):
            for clock in of_session[session]:
                if clock not in found.error_ms:
                    seen_by_both.setdefault(clock, []).append((opened[clock][session], event))
        for clock, shared in sorted(seen_by_both.items(), key=lambda pair: pair[0]):
            apart_ms = [(found.at(one) or 0) - (found.at(other) or 0) for one, other in shared]
            if len(apart_ms) < SHARED_MIN:
                continue
            middle_ms = sorted(apart_ms)[len(apart_ms) // 2]
            scattered_ms = max(abs(ms - middle_ms) for ms in apart_ms)
            coarse_ms = max(_coarse_ms(of_clock[clock]), _coarse_ms(of_clock[known]))
            error_ms = scattered_ms + coarse_ms + (found.error_ms[known] or 0) + SEEN_WITHIN_MS
            found.error_ms[clock] = error_ms
            right.append(clock)
            if abs(middle_ms) > error_ms:
                found.moved_ms[clock] = found.moved_ms.get(clock, 0) - middle_ms
                found.anchors[clock] = shared[0]


def _coarse_ms(events: list[Event]) -> int:
    """How much later than it tells a clock may be: one that tells whole seconds is late by up to one."""
    return SECOND_MS if all((event.ms or 0) % SECOND_MS == 0 for event in events) else 0


def _opened(events: list[Event]) -> dict[str, Event]:
    """When each was first told of. Of clients that come back, that is later, and by another time for each."""
    found: dict[str, Event] = {}
    for event in events:
        if event.kind in ("zk-session-opened", "client-connected") and event.fields.get("session"):
            found.setdefault(event.fields["session"], event)
    return found


def _links(events: list[Event], settled: list[Event], rules: list[Rule]) -> Iterable[tuple[Event, Event, int, int]]:
    """Pairs that belong together, and how much later the first may be."""
    others: dict[str, list[Event]] = {}
    for other in settled[:SETTLED_MAX]:
        others.setdefault(other.kind, []).append(other)
    between = [rule for rule in rules if "component" not in rule.same]
    for event in events[:LINKED_MAX]:
        session = event.fields.get("session")
        for other in others.get(event.kind, ()) if session else ():
            if session == other.fields.get("session"):
                yield event, other, -CLOSE_MS, CLOSE_MS
        for rule in between:
            if event.kind in rule.effect:
                yield from ((event, other, 0, rule.within_ms) for kind in rule.cause for other in others.get(kind, ()))
            if event.kind in rule.cause:
                yield from ((event, other, -rule.within_ms, 0) for kind in rule.effect for other in others.get(kind, ()))
