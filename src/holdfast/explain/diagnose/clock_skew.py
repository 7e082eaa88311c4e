"""Detector of clocks that differ."""

from collections.abc import Iterator

from holdfast.explain.diagnose.diagnosis import SignatureMatch, format_duration
from holdfast.explain.timeline.timeline import Timeline

SKEW_MS = 1000


def detect_clock_skew(timeline: Timeline) -> Iterator[SignatureMatch]:
    for one in timeline.skews:
        if abs(one.behind_ms) >= SKEW_MS and abs(one.behind_ms) > 2 * one.error_ms:
            direction = "behind" if one.behind_ms > 0 else "ahead of"
            facts = {
                "component": one.component,
                "apart": f"{format_duration(abs(one.behind_ms))} {direction}",
                "error": one.error_ms,
            }
            yield SignatureMatch("clock-skew", 0.85, one.evidence, facts, symptom=one.evidence[0])


DETECTORS = (detect_clock_skew,)
