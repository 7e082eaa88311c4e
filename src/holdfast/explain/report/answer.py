"""What is told: in JSON, for scripts. Names and keys are a contract."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.explain.diagnose import Diagnosis
from holdfast.explain.event import Event
from holdfast.explain.library.timestamp import SOME_YEAR, SOME_YEAR_MS, stamp
from holdfast.explain.scan.event_budget import EVENTS_PER_MINUTE
from holdfast.explain.scan.ranges import ROOM
from holdfast.explain.timeline.bursts import Burst, bursts
from holdfast.explain.timeline.clocks import QUARTER_MS, Clocks, clock_of
from holdfast.explain.timeline.component import Component
from holdfast.explain.timeline.lifetimes import Life, lives
from holdfast.explain.timeline.merge import Gathered
from holdfast.explain.timeline.occurrence import Happening

NAMED_MAX = 10
"""So many diagnoses are named in the summary."""
LIVES_MAX = 1000
BURSTS_MAX = 100
LOOKS_MAX = 100


@dataclass(frozen=True, slots=True)
class Answer:
    gathered: Gathered
    clocks: Clocks
    owners: dict[tuple[int, int], Component]
    happenings: tuple[Happening, ...]
    diagnoses: tuple[Diagnosis, ...]

    @property
    def summary(self) -> str:
        if self.diagnoses:
            first, *others = self.diagnoses
            named = "; ".join(one.title for one in others[:NAMED_MAX]) + ("; …" if len(others) > NAMED_MAX else "")
            more = f" {len(others)} more: {named}." if others else ""
            return f"{stamp(first.begin_ms)}: {first.title}.{more}"
        counts = self.gathered.counts
        if not counts.records:
            return f"There are no log lines in what was read ({counts.lines:,} lines): nothing can be said."
        if not counts.events:
            return f"Nothing was found: none of {counts.records:,} records says anything that is known here."
        return f"Nothing is wrong as far as these logs tell: {counts.events:,} events, and no signature fits."

    @property
    def notes(self) -> list[str]:
        """What whoever reads it should know about the answer itself."""
        found = list(self.gathered.troubles)
        files = self.gathered.files
        if more := self.gathered.counts.events - len(self.gathered.events):
            found.append(
                f"{more:,} events are only counted: of each kind, the first {EVENTS_PER_MINUTE} of a minute of a file are kept"
                f", and some {ROOM:,} in all"
            )
        in_a_year = {clock_of(event) for event in self.gathered.events if event.ms is not None and event.ms >= SOME_YEAR_MS}
        for clock in sorted(self.clocks.undated):
            missing = f"the year, and are told as of {SOME_YEAR}" if clock in in_a_year else "the day"
            found.append(f"{files[clock[0]]}: its lines do not say {missing}")
        for (file, format), moved_ms in sorted(self.clocks.moved_ms.items()):
            if moved_ms and not moved_ms % QUARTER_MS:
                hours = moved_ms / 3_600_000
                found.append(
                    f"{files[file]}: the clock of its {format or 'lines'} was moved by {hours:+g} h: another time zone"
                )
        return found

    def json(self) -> dict[str, Any]:
        counts = self.gathered.counts
        return {
            "summary": self.summary,
            "diagnoses": [self._diagnosis(one) for one in self.diagnoses],
            "components": self._components(),
            "counts": {name: getattr(counts, name) for name in ("bytes", "lines", "records", "events", "unparsed_lines")},
            "lives": [self._life(one) for one in self._told_lives()],
            "bursts": [self._burst(one) for one in bursts(self.happenings, self.gathered.dropped)[:BURSTS_MAX]],
            "looks": [
                {"count": look.count, "file": self.gathered.files[look.file], "offset": look.first_offset, "text": look.text}
                for look in self.gathered.looks[:LOOKS_MAX]
            ],
            "notes": self.notes,
        }

    def _told_lives(self) -> list[Life]:
        """Those whose end is told go before those that may still go on."""
        chosen = sorted(lives(self.happenings), key=lambda life: life.end_ms is None)[:LIVES_MAX]
        return sorted(chosen, key=lambda life: life.begin_ms)

    def _life(self, one: Life) -> dict[str, Any]:
        return {
            "kind": one.kind,
            "name": one.name,
            "component": one.component,
            "start": stamp(one.begin_ms),
            "end": stamp(one.end_ms) if one.end_ms is not None else None,
            "ended": one.end,
            "restarts": one.restarts,
            "evidence": [self.evidence(one.first.event), self.evidence(one.last.event)],
        }

    def _burst(self, one: Burst) -> dict[str, Any]:
        return {
            "component": one.component,
            "event": one.kind,
            "count": one.count,
            "start": stamp(one.begin_ms),
            "end": stamp(one.end_ms),
            "evidence": [self.evidence(one.first.event)],
        }

    def _diagnosis(self, one: Diagnosis) -> dict[str, Any]:
        found: dict[str, Any] = {
            "signature": one.signature,
            "title": one.title,
            "confidence": round(one.confidence, 2),
            "start": stamp(one.begin_ms),
            "end": stamp(one.end_ms),
            "components": list(one.components),
            "explanation": one.explanation,
            "advice": one.advice,
            "root": one.root,
            "issues": list(one.issues),
            "evidence": [{**self.evidence(happening.event), "count": happening.count} for happening in one.evidence],
            "chain": [
                {
                    "time": stamp(link.happening.begin_ms),
                    "component": link.happening.component,
                    "event": link.happening.event.says,
                    "rule": link.rule,
                    "delay_ms": link.delay_ms,
                }
                for link in one.chain
            ],
        }
        if one.groups:
            found["groups"] = [
                {"onset": stamp(group.onset_ms), "servers": list(group.servers), "spread_ms": group.spread_ms}
                for group in one.groups
            ]
        return found

    def evidence(self, event: Event) -> dict[str, Any]:
        return {"file": self.gathered.files[event.file], "offset": event.offset, "line": event.line, "text": event.text}

    def _components(self) -> list[dict[str, Any]]:
        of: dict[Component, list[Event]] = {}
        for event in self.gathered.events:
            of.setdefault(self.owners[event.file, event.offset], []).append(event)
        return [
            {
                "name": component.name,
                "kind": component.kind,
                "files": sorted({self.gathered.files[event.file] for event in events}),
                "clock_offset_ms": _common(self.clocks.moved_ms.get(clock_of(event), 0) for event in events),
                "clock_error_ms": self.clocks.error_ms.get(clock_of(events[0])),
            }
            for component, events in sorted(of.items(), key=lambda item: (item[0].kind, item[0].name))
        ]


def _common(offsets: Iterable[int]) -> int:
    return sorted(offsets)[0]
