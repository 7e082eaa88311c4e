"""Clocks that differ."""

from collections.abc import Iterator

from holdfast.explain.diagnose.case import Case, Found, seconds

SKEW_MS = 1000


def skew(case: Case) -> Iterator[Found]:
    for one in case.skews:
        if abs(one.behind_ms) >= SKEW_MS and abs(one.behind_ms) > 2 * one.error_ms:
            way = "behind" if one.behind_ms > 0 else "ahead of"
            facts = {"component": one.component, "apart": f"{seconds(abs(one.behind_ms))} {way}", "error": one.error_ms}
            yield Found("clock-skew", 0.85, one.evidence, facts, symptom=one.evidence[0])


SIGNATURES = (skew,)
