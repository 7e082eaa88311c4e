"""Detector of long garbage collection pauses."""

from collections.abc import Iterator

from holdfast.explain.diagnose.diagnosis import SignatureMatch, format_duration
from holdfast.explain.timeline.timeline import Timeline

PAUSE_MS = 1000


def detect_gc_pause(timeline: Timeline) -> Iterator[SignatureMatch]:
    pauses = [one for one in timeline.all("gc-pause") if one.event.duration_ms >= PAUSE_MS]
    if pauses:
        worst = max(pauses, key=lambda one: one.event.duration_ms)
        longest = worst.event.duration_ms
        facts = {"component": worst.component, "longest": format_duration(longest), "count": len(pauses)}
        yield SignatureMatch("gc-pause", min(0.9, 0.5 + longest / 20_000), tuple(pauses), facts, symptom=worst)


DETECTORS = (detect_gc_pause,)
