"""The answer as a trace, for viewers of traces (Perfetto, chrome://tracing): a track for each component."""

from typing import Any

from holdfast.explain.report.answer import Answer

_DIAGNOSES = 1
_COMPONENTS = 2


def trace(answer: Answer) -> dict[str, Any]:
    names = sorted({one.component for one in answer.happenings})
    tracks = {name: number for number, name in enumerate(names, 1)}
    events: list[dict[str, Any]] = [
        _named("process_name", _DIAGNOSES, 0, "diagnoses"),
        _named("process_name", _COMPONENTS, 0, "logs"),
    ]
    events += [_named("thread_name", _COMPONENTS, number, name) for name, number in tracks.items()]
    for number, one in enumerate(answer.diagnoses, 1):
        events.append(_named("thread_name", _DIAGNOSES, number, one.signature))
        told: dict[str, Any] = {"explanation": one.explanation, "advice": one.advice}
        events.append(_span(one.title, one.signature, _DIAGNOSES, number, one.begin_ms, one.end_ms, told))
    for happening in answer.happenings:
        track = tracks[happening.component]
        told = {**answer.evidence(happening.event), "count": happening.count}
        end_ms = max(happening.end_ms, happening.last_ms)
        events.append(_span(happening.event.says, happening.kind, _COMPONENTS, track, happening.begin_ms, end_ms, told))
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _span(name: str, kind: str, process: int, thread: int, begin_ms: int, end_ms: int, told: dict[str, Any]) -> dict[str, Any]:
    """Microseconds. What has no length is drawn as an instant."""
    span: dict[str, Any] = {"name": name, "cat": kind, "pid": process, "tid": thread, "ts": begin_ms * 1000, "args": told}
    return {**span, "ph": "X", "dur": (end_ms - begin_ms) * 1000} if end_ms > begin_ms else {**span, "ph": "i", "s": "t"}
