"""Processes that stand still."""

from collections.abc import Iterator

from holdfast.explain.diagnose.case import Case, Found, seconds

PAUSE_MS = 1000


def gc_pause(case: Case) -> Iterator[Found]:
    pauses = [one for one in case.all("gc-pause") if one.event.duration_ms >= PAUSE_MS]
    if pauses:
        worst = max(pauses, key=lambda one: one.event.duration_ms)
        longest = worst.event.duration_ms
        facts = {"component": worst.component, "longest": seconds(longest), "count": len(pauses)}
        yield Found("gc-pause", min(0.9, 0.5 + longest / 20_000), tuple(pauses), facts, symptom=worst)


SIGNATURES = (gc_pause,)
