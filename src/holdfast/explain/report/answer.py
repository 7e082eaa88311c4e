"""Answer of an analysis: the diagnoses, all that the renderers show, and its JSON form, whose keys are a public contract."""

from dataclasses import dataclass
from typing import Any

from holdfast.explain.diagnose import Diagnosis
from holdfast.explain.event import LogEvent
from holdfast.explain.library.timestamp import PLACEHOLDER_YEAR, PLACEHOLDER_YEAR_MS, format_timestamp
from holdfast.explain.scan.error_classifier import ErrorKind
from holdfast.explain.scan.error_lines import ErrorLine
from holdfast.explain.scan.event_budget import EVENTS_MAX, EVENTS_PER_MINUTE
from holdfast.explain.scan.templates import LogTemplate
from holdfast.explain.timeline.bursts import Burst
from holdfast.explain.timeline.clocks import QUARTER_HOUR_MS, Clocks, clock_of
from holdfast.explain.timeline.component import Component
from holdfast.explain.timeline.lifetimes import Lifetime
from holdfast.explain.timeline.merge import MergedScan
from holdfast.explain.timeline.occurrence import Occurrence

NAMED_MAX = 10
"""Diagnoses named in the summary, apart from the first."""
NOTABLE_MAX = 3
"""Events named in the summary if there is no diagnosis."""
LIFETIMES_MAX = 1000
BURSTS_MAX = 100
TEMPLATES_MAX = 100
ERRORS_MAX = 20
"""Templates of error lines in an answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    scan: MergedScan
    clocks: Clocks
    components: dict[tuple[int, int], Component]
    """(file, offset) of an event → its component."""
    occurrences: tuple[Occurrence, ...]
    """Occurrences in order of time, repetitions merged."""
    diagnoses: tuple[Diagnosis, ...]
    """Diagnoses, the root first."""
    lifetimes: tuple[Lifetime, ...] = ()
    bursts: tuple[Burst, ...] = ()
    """Bursts, largest first."""
    notable: tuple[Occurrence, ...] = ()
    """Occurrences that may be part of a problem even if no signature fits, in order of time."""

    @property
    def summary(self) -> str:
        if self.diagnoses:
            first, *others = self.diagnoses
            named = "; ".join(one.title for one in others[:NAMED_MAX]) + ("; …" if len(others) > NAMED_MAX else "")
            more = f" {len(others)} more: {named}." if others else ""
            return f"{format_timestamp(first.begin_ms)}: {first.title}.{more}"
        counts = self.scan.counts
        if self.scan.errors.counts or self.notable or (counts.records and not self.complete):
            return " ".join(["No known signature fits.", *self._reasons_for_doubt()])
        if not counts.records:
            return self._without_records()
        if not counts.events:
            return f"Nothing was found: none of {format_count(counts.records, 'record', 'records')} matches a known event."
        events = format_count(counts.events, "event", "events")
        return f"Nothing is wrong as far as these logs tell: {events}, and no signature fits."

    def _without_records(self) -> str:
        """Say that no line starts as the lines of a known log do. Events without a time cannot be diagnosed."""
        lines = format_count(self.scan.counts.lines, "line", "lines")
        if not self.scan.events:
            return f"There are no log lines in the input ({lines}), so nothing can be diagnosed."
        known, first = format_count(self.scan.counts.events, "line reports", "lines report"), self.scan.events[0]
        return (
            f"No line of the input ({lines}) begins with a time that is recognized, so nothing can be diagnosed. "
            f"{known} a known event, the first one at {self.scan.files[first.file]}:{first.line}; "
            "--library can add the format of such lines."
        )

    @property
    def complete(self) -> bool:
        """Return True if everything was read, and every line belongs to a record that states its time and date."""
        return not (self.scan.problems or self._undated_lines or self.clocks.undated or self._has_undated_events)

    @property
    def _undated_lines(self) -> int:
        return self.scan.counts.unparsed_lines + self.scan.errors.undated_records

    @property
    def _has_undated_events(self) -> bool:
        return any(event.ms is None for event in self.scan.events)

    def _reasons_for_doubt(self) -> list[str]:
        """Return sentences that say why the logs may show a problem though no signature fits."""
        reasons = []
        counts = self.scan.errors.counts
        if total := counts.total():
            exceptions = "exception" if counts[ErrorKind.EXCEPTION] == 1 else "exceptions"
            names = {ErrorKind.FATAL: "FATAL", ErrorKind.ERROR: "ERROR", ErrorKind.EXCEPTION: exceptions}
            kinds = ", ".join(f"{counts[kind]:,} {name}" for kind, name in names.items() if counts[kind])
            reasons.append(f"{format_count(total, 'line reports', 'lines report')} an error ({kinds}).")
        if self.notable:
            named = list(dict.fromkeys(one.event.description for one in self.notable))
            more = "; …" if len(named) > NOTABLE_MAX else ""
            reasons.append(f"Events that may matter: {'; '.join(named[:NOTABLE_MAX])}{more}.")
        if self._undated_lines:
            reasons.append(f"{format_count(self._undated_lines, 'line has', 'lines have')} no time.")
        elif self._has_undated_events:
            reasons.append("Some events have no time.")
        if self.clocks.undated:
            files = len({file for file, _ in self.clocks.undated})
            reasons.append(f"{format_count(files, 'file states', 'files state')} times without a date.")
        if self.scan.problems:
            reasons.append("Some input was not read completely: see the notes.")
        return reasons

    def first_error(self) -> ErrorLine | None:
        """Return the earliest error line on the common clock; lines without a time come last, in the order of files."""

        def order(one: ErrorLine) -> tuple[bool, int, tuple[int, int]]:
            at = self.clocks.to_common_ms((one.file, one.format), one.ms) if one.ms is not None else 0
            return one.ms is None, at, one.position

        return min(self.scan.errors.first, key=order, default=None)

    def frequent_errors(self) -> list[ErrorLine]:
        return self.scan.errors.most_frequent()[:ERRORS_MAX]

    @property
    def notes(self) -> list[str]:
        """Sentences about the answer itself: input that was not read, events that are only counted, clocks."""
        notes = list(self.scan.problems)
        files = self.scan.files
        if more := self.scan.counts.events - len(self.scan.events):
            notes.append(
                f"{more:,} events are only counted: the first {EVENTS_PER_MINUTE} of a kind per minute and file are kept, "
                f"and about {EVENTS_MAX:,} in total"
            )
        in_a_year = {clock_of(event) for event in self.scan.events if event.ms is not None and event.ms >= PLACEHOLDER_YEAR_MS}
        for clock in sorted(self.clocks.undated):
            missing = f"the year, so {PLACEHOLDER_YEAR} is used" if clock in in_a_year else "the day"
            notes.append(f"{files[clock[0]]}: its lines do not contain {missing}")
        for (file, format), moved_ms in sorted(self.clocks.offset_ms.items()):
            if moved_ms and not moved_ms % QUARTER_HOUR_MS:
                hours = moved_ms / 3_600_000
                lines = f"{format} lines" if format else "lines"
                notes.append(f"{files[file]}: its {lines} are in another time zone; their times were moved by {hours:+g} h")
        return notes

    def as_json(self) -> dict[str, Any]:
        counts = self.scan.counts
        return {
            "summary": self.summary,
            "diagnoses": [self._diagnosis(one) for one in self.diagnoses],
            "components": self._components(),
            "counts": {name: getattr(counts, name) for name in ("bytes", "lines", "records", "events", "unparsed_lines")},
            "lifetimes": [self._lifetime(one) for one in self._listed_lifetimes()],
            "bursts": [self._burst(one) for one in self.bursts[:BURSTS_MAX]],
            "templates": [self._template(one) for one in self.scan.templates[:TEMPLATES_MAX]],
            "notes": self.notes,
            "complete": self.complete,
            "errors": self._errors(),
        }

    def _errors(self) -> dict[str, Any]:
        counts, first = self.scan.errors.counts, self.first_error()
        return {
            "counts": {kind.name.lower(): counts[kind] for kind in (ErrorKind.FATAL, ErrorKind.ERROR, ErrorKind.EXCEPTION)},
            "first": self._error(first) if first is not None else None,
            "most_frequent": [{**self._error(one), "count": one.total} for one in self.frequent_errors()],
        }

    def _error(self, one: ErrorLine) -> dict[str, Any]:
        where = {"file": self.scan.files[one.file], "offset": one.offset, "line": one.line}
        return {"kind": one.kind.name.lower(), **where, "text": one.text}

    def _template(self, one: LogTemplate) -> dict[str, Any]:
        return {"count": one.count, "file": self.scan.files[one.file], "offset": one.first_offset, "text": one.text}

    def _listed_lifetimes(self) -> list[Lifetime]:
        """Return at most `LIFETIMES_MAX` lifetimes. Those with a known end take precedence."""
        chosen = sorted(self.lifetimes, key=lambda one: one.end_ms is None)[:LIFETIMES_MAX]
        return sorted(chosen, key=lambda one: one.begin_ms)

    def _lifetime(self, one: Lifetime) -> dict[str, Any]:
        return {
            "kind": one.kind,
            "name": one.name,
            "component": one.component,
            "start": format_timestamp(one.begin_ms),
            "end": format_timestamp(one.end_ms) if one.end_ms is not None else None,
            "ended": one.end,
            "restarts": one.restarts,
            "evidence": [self.evidence(one.first.event), self.evidence(one.last.event)],
        }

    def _burst(self, one: Burst) -> dict[str, Any]:
        return {
            "component": one.component,
            "event": one.kind,
            "count": one.count,
            "start": format_timestamp(one.begin_ms),
            "end": format_timestamp(one.end_ms),
            "evidence": [self.evidence(one.first.event)],
        }

    def _diagnosis(self, one: Diagnosis) -> dict[str, Any]:
        document: dict[str, Any] = {
            "signature": one.signature,
            "title": one.title,
            "confidence": round(one.confidence, 2),
            "start": format_timestamp(one.begin_ms),
            "end": format_timestamp(one.end_ms),
            "components": list(one.components),
            "explanation": one.explanation,
            "advice": one.advice,
            "root": one.root,
            "issues": list(one.issues),
            "evidence": [{**self.evidence(occurrence.event), "count": occurrence.count} for occurrence in one.evidence],
            "chain": [
                {
                    "time": format_timestamp(link.occurrence.begin_ms),
                    "component": link.occurrence.component,
                    "event": link.occurrence.event.description,
                    "rule": link.rule,
                    "delay_ms": link.delay_ms,
                }
                for link in one.chain
            ],
        }
        if one.groups:
            document["groups"] = [
                {"onset": format_timestamp(group.onset_ms), "servers": list(group.servers), "spread_ms": group.spread_ms}
                for group in one.groups
            ]
        return document

    def evidence(self, event: LogEvent) -> dict[str, Any]:
        return {"file": self.scan.files[event.file], "offset": event.offset, "line": event.line, "text": event.text}

    def _components(self) -> list[dict[str, Any]]:
        events_of: dict[Component, list[LogEvent]] = {}
        for event in self.scan.events:
            events_of.setdefault(self.components[event.file, event.offset], []).append(event)
        return [
            {
                "name": component.name,
                "kind": component.kind,
                "files": sorted({self.scan.files[event.file] for event in events}),
                "clock_offset_ms": min(self.clocks.offset_ms.get(clock_of(event), 0) for event in events),
                "clock_error_ms": self.clocks.error_ms.get(clock_of(events[0])),
            }
            for component, events in sorted(events_of.items(), key=lambda item: (item[0].kind, item[0].name))
        ]


def format_count(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}"
