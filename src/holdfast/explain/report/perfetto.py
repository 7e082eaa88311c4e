"""Render the answer as a trace for Perfetto and chrome://tracing, with a track for each component."""

from typing import Any

from holdfast.explain.report.answer import Answer

_DIAGNOSES = 1
_COMPONENTS = 2


def perfetto_trace(answer: Answer) -> dict[str, Any]:
    names = sorted({one.component for one in answer.occurrences})
    tracks = {name: number for number, name in enumerate(names, 1)}
    events: list[dict[str, Any]] = [
        _name("process_name", _DIAGNOSES, 0, "diagnoses"),
        _name("process_name", _COMPONENTS, 0, "logs"),
    ]
    events += [_name("thread_name", _COMPONENTS, number, name) for name, number in tracks.items()]
    for number, one in enumerate(answer.diagnoses, 1):
        events.append(_name("thread_name", _DIAGNOSES, number, one.signature))
        details: dict[str, Any] = {"explanation": one.explanation, "advice": one.advice}
        events.append(_span(one.title, one.signature, _DIAGNOSES, number, one.begin_ms, one.end_ms, details))
    for occurrence in answer.occurrences:
        track = tracks[occurrence.component]
        details = {**answer.evidence(occurrence.event), "count": occurrence.count}
        end_ms = max(occurrence.end_ms, occurrence.last_ms)
        description, kind = occurrence.event.description, occurrence.kind
        events.append(_span(description, kind, _COMPONENTS, track, occurrence.begin_ms, end_ms, details))
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _name(metadata: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": metadata, "pid": process, "tid": thread, "args": {"name": name}}


def _span(
    name: str, kind: str, process: int, thread: int, begin_ms: int, end_ms: int, details: dict[str, Any]
) -> dict[str, Any]:
    """Return a span, or an instant if it has no length. Traces use microseconds."""
    span: dict[str, Any] = {"name": name, "cat": kind, "pid": process, "tid": thread, "ts": begin_ms * 1000, "args": details}
    return {**span, "ph": "X", "dur": (end_ms - begin_ms) * 1000} if end_ms > begin_ms else {**span, "ph": "i", "s": "t"}
