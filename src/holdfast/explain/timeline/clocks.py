"""Align clocks: infer missing dates and time zones, estimate the skew between files.

Each file has a clock. In text that quotes lines of several programs, each format has one. All clocks are read as UTC first. A
clock is then moved by whole quarters of an hour if only that connects its events with those of other clocks.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.explain.event import LogEvent
from holdfast.explain.library.causal_rule import CausalRule

DAY_MS = 86_400_000
QUARTER_HOUR_MS = 900_000
SECOND_MS = 1000
ZONES = range(-56, 57)
CLOSE_MS = 300_000
SEEN_WITHIN_MS = 100
"""Time within which all servers report that a session was opened."""
SHARED_MIN = 3
"""Shared sessions needed to correct a clock. A single session may be reported late, when its client reconnects."""
LINKED_MAX = 200
SETTLED_MAX = 500
"""Events of a clock, and of the clocks before it, that are compared: related events are rarely far apart."""
Clock = tuple[int, str]


@dataclass(slots=True)
class Clocks:
    offset_ms: dict[Clock, int] = field(default_factory=dict)
    """Added to the times of a clock to get the common time."""
    error_ms: dict[Clock, int | None] = field(default_factory=dict)
    """Uncertainty of a corrected clock; None if unknown."""
    anchors: dict[Clock, tuple[LogEvent, ...]] = field(default_factory=dict)
    """Events of two logs by which a clock was corrected."""
    day_ms: dict[Clock, int] = field(default_factory=dict)
    """Start of the day, for a clock that states only the time of day."""
    undated: set[Clock] = field(default_factory=set)
    """Clocks whose date is unknown."""

    def event_ms(self, event: LogEvent) -> int | None:
        return None if event.ms is None else self.to_common_ms(clock_of(event), event.ms)

    def to_common_ms(self, clock: Clock, ms: int) -> int:
        return ms + self.day_ms.get(clock, 0) + self.offset_ms.get(clock, 0)


def clock_of(event: LogEvent) -> Clock:
    return event.file, event.format


def align_clocks(events: Iterable[LogEvent], rules: Iterable[CausalRule]) -> Clocks:
    clocks = Clocks()
    events_of: dict[Clock, list[LogEvent]] = {}
    for event in events:
        if event.ms is not None:
            events_of.setdefault(clock_of(event), []).append(event)
    if not events_of:
        return clocks
    for clock, its_events in events_of.items():
        if not all(event.dated for event in its_events):
            day_ms = _infer_day(its_events)
            clocks.day_ms[clock] = day_ms or 0
            if day_ms is None:
                clocks.undated.add(clock)
    reference = max(events_of, key=lambda clock: (len(events_of[clock]), -clock[0], clock[1]))
    rules = list(rules)
    settled = list(events_of[reference])
    begin, end = _span(clocks, settled)
    for clock in sorted(events_of, key=lambda clock: (-len(events_of[clock]), clock)):
        if clock != reference and clock not in clocks.undated and reference not in clocks.undated:
            first, last = _span(clocks, events_of[clock])
            if first > end + CLOSE_MS or last < begin - CLOSE_MS:  # otherwise the two overlap in time
                _align(clocks, clock, events_of[clock], settled, rules)
                first, last = _span(clocks, events_of[clock])
            begin, end = min(begin, first), max(end, last)
            settled += events_of[clock]
    _correct_skew(clocks, reference, events_of)
    return clocks


def _infer_day(events: list[LogEvent]) -> int | None:
    """Infer the day from a Flink checkpoint that is reported with a time of day and again with its time since 1970."""
    completed = {event.fields["checkpoint"]: event.ms for event in events if event.kind == "checkpoint-completed" and event.ms}
    for event in events:
        number = event.fields.get("checkpoint", "")
        if event.kind == "checkpoint-restored" and number in completed and "at_ms" in event.fields:
            begin_ms = int(event.fields["at_ms"])
            of_day_ms = completed[number] or 0
            for zone in ZONES:
                late_ms = of_day_ms - (begin_ms + zone * QUARTER_HOUR_MS) % DAY_MS
                if 0 <= late_ms < QUARTER_HOUR_MS:
                    return (begin_ms + zone * QUARTER_HOUR_MS) // DAY_MS * DAY_MS
    return None


def _span(clocks: Clocks, events: list[LogEvent]) -> tuple[int, int]:
    times = [clocks.event_ms(event) or 0 for event in events]
    return min(times), max(times)


def _align(clocks: Clocks, clock: Clock, events: list[LogEvent], settled: list[LogEvent], rules: list[CausalRule]) -> None:
    """Move a clock to another time zone if more of its events are then connected with other clocks."""
    fitting = dict.fromkeys(ZONES, 0)
    for event, other, least_ms, most_ms in _links(events, settled, rules):
        between_ms = (clocks.event_ms(event) or 0) - (clocks.event_ms(other) or 0)
        first, last = -((between_ms - least_ms) // QUARTER_HOUR_MS), (most_ms - between_ms) // QUARTER_HOUR_MS
        for zone in range(max(first, ZONES[0]), min(last, ZONES[-1]) + 1):
            fitting[zone] += 1
    best = max(ZONES, key=lambda zone: (fitting[zone], -abs(zone), zone))
    if fitting[best] > fitting[0]:
        clocks.offset_ms[clock] = clocks.offset_ms.get(clock, 0) + best * QUARTER_HOUR_MS


def _correct_skew(clocks: Clocks, reference: Clock, events_of: dict[Clock, list[LogEvent]]) -> None:
    """Correct clocks by session openings, which all servers report at once: from the reference clock on, from log to log."""
    opened = {clock: _session_openings(events) for clock, events in events_of.items()}
    of_session: dict[str, list[Clock]] = {}
    for clock, sessions in opened.items():
        for session in sessions:
            of_session.setdefault(session, []).append(clock)
    clocks.error_ms[reference] = 0
    corrected = [reference]
    for known in corrected:  # grows while it is read
        shared_sessions: dict[Clock, list[tuple[LogEvent, LogEvent]]] = {}
        for session, event in sorted(opened[known].items()):
            for clock in of_session[session]:
                if clock not in clocks.error_ms:
                    shared_sessions.setdefault(clock, []).append((opened[clock][session], event))
        for clock, shared in sorted(shared_sessions.items(), key=lambda pair: pair[0]):
            apart_ms = [(clocks.event_ms(one) or 0) - (clocks.event_ms(other) or 0) for one, other in shared]
            if len(apart_ms) < SHARED_MIN:
                continue
            middle_ms = sorted(apart_ms)[len(apart_ms) // 2]
            scattered_ms = max(abs(ms - middle_ms) for ms in apart_ms)
            resolution_ms = max(_resolution_ms(events_of[clock]), _resolution_ms(events_of[known]))
            error_ms = scattered_ms + resolution_ms + (clocks.error_ms[known] or 0) + SEEN_WITHIN_MS
            clocks.error_ms[clock] = error_ms
            corrected.append(clock)
            if abs(middle_ms) > error_ms:
                clocks.offset_ms[clock] = clocks.offset_ms.get(clock, 0) - middle_ms
                clocks.anchors[clock] = shared[0]


def _resolution_ms(events: list[LogEvent]) -> int:
    """Return the resolution of a clock: 1000 ms if it states whole seconds, otherwise 0."""
    return SECOND_MS if all((event.ms or 0) % SECOND_MS == 0 for event in events) else 0


def _session_openings(events: list[LogEvent]) -> dict[str, LogEvent]:
    """Return the first event of each session. For clients that reconnect it is later, by a different time for each."""
    first: dict[str, LogEvent] = {}
    for event in events:
        if event.kind in ("zk-session-opened", "client-connected") and event.fields.get("session"):
            first.setdefault(event.fields["session"], event)
    return first


def _links(
    events: list[LogEvent], settled: list[LogEvent], rules: list[CausalRule]
) -> Iterable[tuple[LogEvent, LogEvent, int, int]]:
    """Yield pairs of related events with the least and greatest delay of the first one after the second."""
    others: dict[str, list[LogEvent]] = {}
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
