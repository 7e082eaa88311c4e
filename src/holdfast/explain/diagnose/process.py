"""Processes that stand still."""

from collections.abc import Iterator

from holdfast.explain.diagnose.case import Case, Diagnosis, seconds

PAUSE_MS = 1000


def gc_pause(case: Case) -> Iterator[Diagnosis]:
    pauses = [one for one in case.all("gc-pause") if one.event.duration_ms >= PAUSE_MS]
    if pauses:
        worst = max(pauses, key=lambda one: one.event.duration_ms)
        yield Diagnosis(
            signature="gc-pause",
            title=f"{worst.component} stood still for {seconds(worst.event.duration_ms)}",
            explanation=f"{len(pauses)} pauses were longer than {seconds(PAUSE_MS)}. Nothing of a process runs meanwhile: it "
            "answers nobody, and its sessions run out.",
            advice="Look at its heap and its collector; or at the machine, if no collection is logged at that time.",
            confidence=min(0.9, 0.5 + worst.event.duration_ms / 20_000),
            evidence=tuple(pauses),
        )


SIGNATURES = (gc_pause,)
