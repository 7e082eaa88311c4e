"""Jobs that run and should not, or do not and should."""

from collections.abc import Iterator

from holdfast.explain.diagnose.case import Case, Diagnosis
from holdfast.explain.happening import Happening

LOOP_MS = 600_000
LOOP_RESTARTS = 3


def resurrected(case: Case) -> Iterator[Diagnosis]:
    """A new leader recovers a job that nobody has seen alive, beside one that was."""
    for granted in case.all("leadership-granted"):
        recovered = case.near(granted, 1000, 300_000, "job-recovering")
        alive = {one.of("job") for one in _signs_of_life(case) if one.begin_ms < granted.begin_ms + 1000}
        strange = [one for one in recovered if one.of("job") not in alive]
        if not alive or not strange or len({one.of("job") for one in recovered}) < 2:
            continue
        for job in dict.fromkeys(one.of("job") for one in strange):
            mine = [one for one in strange if one.of("job") == job]
            nothing = [one for one in case.near(mine[-1], 0, 60_000, "checkpoints-found") if one.of("count") == "0"]
            never = " It had no checkpoint to go on from." if nothing else ""
            yield Diagnosis(
                signature="job-resurrected",
                title=f"job {job} was started again though it had ended",
                explanation=f"{granted.component} became leader and recovered job {job}, of which nothing was seen before, "
                f"beside {', '.join(sorted(alive)[:2])}, which had been running.{never} Its entry in the store had been left over.",
                advice=f"Cancel job {job}, and remove its entry from the job graph store and from the high-availability directory.",
                confidence=0.9 if nothing else 0.7,
                evidence=(granted, *mine, *nothing[:1]),
                symptom=mine[0],
                issues=("FLINK-10011", "FLINK-39704"),
            )
        return


def _signs_of_life(case: Case) -> list[Happening]:
    return [one for one in case.all("job-suspended", "checkpoint-completed", "job-state") if one.of("job")]


def starved(case: Case) -> Iterator[Diagnosis]:
    for job in dict.fromkeys(one.of("job") for one in case.all("no-slots") if one.of("job")):
        mine = [one for one in case.all("no-slots") if one.of("job") == job]
        again = [one for one in case.all("job-restarting") if one.of("job") == job]
        others = sorted({one.of("job") for one in case.all("job-recovering") if one.of("job") not in ("", job)})
        if again:
            beside = f" Job {others[0]} had been started beside it." if others else ""
            yield Diagnosis(
                signature="slot-starvation-loop",
                title=f"job {job} restarts for ever: there are not enough slots for it",
                explanation=f"Job {job} is restarted, finds too few free slots, fails, and is restarted.{beside}",
                advice=f"Make room: cancel {'job ' + others[0] if others else 'what does not belong there'}, or add workers. "
                "A restart does not help.",
                confidence=0.9 if others else 0.7,
                evidence=tuple(sorted((*mine, *again), key=lambda one: one.begin_ms)),
                symptom=mine[0],
                issues=("FLINK-10011",),
            )


def restart_loop(case: Case) -> Iterator[Diagnosis]:
    starving = {one.of("job") for one in case.all("no-slots")}
    for job in dict.fromkeys(one.of("job") for one in case.all("job-restarting") if one.of("job")):
        again = [one for one in case.all("job-restarting") if one.of("job") == job]
        if job not in starving and sum(one.count for one in again) >= LOOP_RESTARTS:
            yield Diagnosis(
                signature="restart-loop",
                title=f"job {job} restarts again and again",
                explanation=f"It was restarted {sum(one.count for one in again)} times.",
                advice="Look at why it fails: the first failure says more than the last.",
                confidence=0.7,
                evidence=tuple(again),
            )


def recovery_fatal(case: Case) -> Iterator[Diagnosis]:
    if fatal := case.all("recovery-fatal"):
        jobs = sorted({one.of("job") for one in fatal if one.of("job")})
        named = f"job {jobs[0]}" if jobs else "one job"
        yield Diagnosis(
            signature="recovery-fatal",
            title=f"a JobManager ended because {named} could not be recovered",
            explanation="What cannot be recovered ends the whole process, and the next leader meets it again.",
            advice=f"Remove {named} from the job graph store (a copy first), then start the JobManagers again. "
            "The other jobs are recovered from their checkpoints.",
            confidence=0.8,
            evidence=tuple(fatal),
            issues=("FLINK-40554",),
        )


SIGNATURES = (resurrected, starved, restart_loop, recovery_fatal)
