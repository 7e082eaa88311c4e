"""Detectors of ended jobs that run again, jobs that keep restarting, and fatal recoveries. Most are specific to Flink."""

from collections import deque
from collections.abc import Iterator

from holdfast.explain.diagnose.diagnosis import SignatureMatch
from holdfast.explain.diagnose.holdfast_jobs import job_label, name_in_commands, phase_since
from holdfast.explain.timeline.occurrence import Occurrence
from holdfast.explain.timeline.timeline import Timeline

LOOP_RESTARTS = 3
RECOVERY_MS = 60_000
WORKERS_MS = 60_000
"""Time after the loss of a worker in which missing slots are attributed to it."""
LOOP_GAP_MS = 1_800_000
"""Restarts that are farther apart are not a loop: the longest usual restart delays are minutes."""


def detect_resurrected(timeline: Timeline) -> Iterator[SignatureMatch]:
    """Detect a new leader that recovers a job that was not running, in addition to a job that was running."""
    signs = deque(_signs_of_life(timeline))
    alive: set[str] = set()
    for granted in timeline.all("leadership-granted"):
        recovered = timeline.near(granted, 1000, 300_000, "job-recovering")
        while signs and signs[0].begin_ms < granted.begin_ms + 1000:
            alive.add(signs.popleft().value("job"))
        unexpected = [one for one in recovered if one.value("job") not in alive]
        if alive and unexpected and len({one.value("job") for one in recovered}) > 1:
            for recoveries in _by_job(unexpected).values():
                yield _match_resurrected(timeline, granted, recoveries, alive)
            return


def _match_resurrected(
    timeline: Timeline, granted: Occurrence, recoveries: list[Occurrence], alive: set[str]
) -> SignatureMatch:
    without_checkpoint = [
        one for one in timeline.near(recoveries[-1], 0, 60_000, "checkpoints-found") if one.value("count") == "0"
    ]
    facts = {
        "job": recoveries[0].value("job"),
        "leader": granted.component,
        "alive": ", ".join(sorted(alive)[:2]),
        "nothing": " No checkpoint of this job was found." if without_checkpoint else "",
    }
    return SignatureMatch(
        "job-resurrected",
        0.9 if without_checkpoint else 0.7,
        (granted, *recoveries, *without_checkpoint[:1]),
        facts,
        symptom=recoveries[0],
    )


def _signs_of_life(timeline: Timeline) -> list[Occurrence]:
    return [one for one in timeline.all("job-suspended", "checkpoint-completed", "job-state") if one.value("job")]


def detect_starved(timeline: Timeline) -> Iterator[SignatureMatch]:
    restarting = _by_job(timeline.all("job-restarting"))
    recovering = sorted(_by_job(timeline.all("job-recovering")))[:2]
    for job, shortages in _by_job(timeline.all("no-slots")).items():
        restarts = restarting.get(job, [])
        others = [other for other in recovering if other != job]
        if restarts:
            beside = f" Job {others[0]} had been started in addition to it." if others else ""
            facts = {"job": job, "beside": beside}
            lost_workers = timeline.near(shortages[0], WORKERS_MS, 0, "workers-lost")[-1:]
            evidence = (*lost_workers, *shortages, *restarts)
            yield SignatureMatch(
                "slot-starvation-loop", 0.9 if others or lost_workers else 0.7, evidence, facts, symptom=shortages[0]
            )


def detect_restart_loop(timeline: Timeline) -> Iterator[SignatureMatch]:
    starving = _by_job(timeline.all("no-slots"))
    for job, restarts in _by_job(timeline.all("job-restarting")).items():
        loops = [loop for loop in _close_together(restarts) if sum(one.count for one in loop) >= LOOP_RESTARTS]
        if job not in starving and loops:
            yield _match_loop(timeline, loops[-1])


def _close_together(restarts: list[Occurrence]) -> list[list[Occurrence]]:
    groups: list[list[Occurrence]] = []
    for one in restarts:
        if groups and one.begin_ms - max(groups[-1][-1].begin_ms, groups[-1][-1].last_ms) <= LOOP_GAP_MS:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _match_loop(timeline: Timeline, restarts: list[Occurrence]) -> SignatureMatch:
    """Match a restart loop. Holdfast reports why each attempt ended and keeps its output, so the confidence is higher."""
    first, last, times = restarts[0], restarts[-1], sum(one.count for one in restarts)
    is_holdfast = first.event.system == "holdfast"
    facts = {
        "job": job_label(first),
        "count": times,
        "after": f", the last time after attempt {last.value('attempt')}" if is_holdfast else "",
        "why": f" The reason is: {_without_delay(last.value('reason'))}." if is_holdfast else "",
        "since": phase_since(timeline, last) if is_holdfast else "",
        "how": f" 'holdfast logs {name_in_commands(first)}' prints the output of its last attempt." if is_holdfast else "",
    }
    return SignatureMatch("restart-loop", 0.9 if is_holdfast else 0.7, tuple(restarts), facts, symptom=first)


def _without_delay(reason: str) -> str:
    """Remove the delay of the next attempt from a reason, in the wording of this and of earlier versions."""
    return reason.partition("; next attempt in ")[0].partition("; again in ")[0]


def _by_job(occurrences: list[Occurrence]) -> dict[str, list[Occurrence]]:
    groups: dict[str, list[Occurrence]] = {}
    for one in occurrences:
        if one.value("job"):
            groups.setdefault(one.value("job"), []).append(one)
    return groups


def detect_recovery_fatal(timeline: Timeline) -> Iterator[SignatureMatch]:
    fatal = [one for one in timeline.all("recovery-fatal") if one.value("job") or _was_recovering(timeline, one)]
    if fatal:
        jobs = sorted(_by_job(fatal))
        yield SignatureMatch(
            "recovery-fatal", 0.8, tuple(fatal), {"job": f"job {jobs[0]}" if jobs else "one job"}, symptom=fatal[0]
        )


def _was_recovering(timeline: Timeline, fatal: Occurrence) -> bool:
    """Return True if the process was recovering a job. It may exit for other reasons with the same message."""
    before = timeline.near(fatal, RECOVERY_MS, 0, "leadership-granted", "job-recovering")
    return any(one.component == fatal.component for one in before)


DETECTORS = (detect_resurrected, detect_starved, detect_restart_loop, detect_recovery_fatal)
