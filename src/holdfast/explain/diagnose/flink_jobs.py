"""Jobs that run and should not, or do not and should."""

from collections import deque
from collections.abc import Iterator

from holdfast.explain.diagnose.case import Case, Found
from holdfast.explain.diagnose.holdfast_jobs import called, label, since
from holdfast.explain.timeline.occurrence import Happening

LOOP_RESTARTS = 3
RECOVERY_MS = 60_000
WORKERS_MS = 60_000
"""Workers that were lost so long ago may be why there are too few."""
LOOP_GAP_MS = 1_800_000
"""Restarts that are farther apart are no loop. The longest delays that anybody waits between two are minutes."""


def resurrected(case: Case) -> Iterator[Found]:
    """A new leader recovers a job that nobody has seen alive, beside one that was."""
    signs = deque(_signs_of_life(case))
    alive: set[str] = set()
    for granted in case.all("leadership-granted"):
        recovered = case.near(granted, 1000, 300_000, "job-recovering")
        while signs and signs[0].begin_ms < granted.begin_ms + 1000:
            alive.add(signs.popleft().of("job"))
        strange = [one for one in recovered if one.of("job") not in alive]
        if alive and strange and len({one.of("job") for one in recovered}) > 1:
            for mine in _by_job(strange).values():
                yield _resurrected(case, granted, mine, alive)
            return


def _resurrected(case: Case, granted: Happening, mine: list[Happening], alive: set[str]) -> Found:
    nothing = [one for one in case.near(mine[-1], 0, 60_000, "checkpoints-found") if one.of("count") == "0"]
    facts = {
        "job": mine[0].of("job"),
        "leader": granted.component,
        "alive": ", ".join(sorted(alive)[:2]),
        "nothing": " It had no checkpoint to go on from." if nothing else "",
    }
    return Found("job-resurrected", 0.9 if nothing else 0.7, (granted, *mine, *nothing[:1]), facts, symptom=mine[0])


def _signs_of_life(case: Case) -> list[Happening]:
    return [one for one in case.all("job-suspended", "checkpoint-completed", "job-state") if one.of("job")]


def starved(case: Case) -> Iterator[Found]:
    restarting = _by_job(case.all("job-restarting"))
    recovering = sorted(_by_job(case.all("job-recovering")))[:2]
    for job, mine in _by_job(case.all("no-slots")).items():
        again = restarting.get(job, [])
        others = [other for other in recovering if other != job]
        if again:
            beside = f" Job {others[0]} had been started beside it." if others else ""
            facts = {"job": job, "beside": beside}
            gone = case.near(mine[0], WORKERS_MS, 0, "workers-lost")[-1:]
            evidence = (*gone, *mine, *again)
            yield Found("slot-starvation-loop", 0.9 if others or gone else 0.7, evidence, facts, symptom=mine[0])


def restart_loop(case: Case) -> Iterator[Found]:
    starving = _by_job(case.all("no-slots"))
    for job, again in _by_job(case.all("job-restarting")).items():
        loops = [loop for loop in _close_together(again) if sum(one.count for one in loop) >= LOOP_RESTARTS]
        if job not in starving and loops:
            yield _loop(case, loops[-1])


def _close_together(again: list[Happening]) -> list[list[Happening]]:
    groups: list[list[Happening]] = []
    for one in again:
        if groups and one.begin_ms - max(groups[-1][-1].begin_ms, groups[-1][-1].last_ms) <= LOOP_GAP_MS:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _loop(case: Case, again: list[Happening]) -> Found:
    """Holdfast says why each attempt ended, and has kept what it printed. Then it is as good as proven."""
    first, last, times = again[0], again[-1], sum(one.count for one in again)
    ours = first.event.system == "holdfast"
    facts = {
        "job": label(first),
        "count": times,
        "after": f", the last time after attempt {last.of('attempt')}" if ours else "",
        "why": f" It says: {last.of('reason').partition('; again in ')[0]}." if ours else "",
        "since": since(case, last) if ours else "",
        "how": f" 'holdfast logs {called(first)}' prints what its last attempt said." if ours else "",
    }
    return Found("restart-loop", 0.9 if ours else 0.7, tuple(again), facts, symptom=first)


def _by_job(happenings: list[Happening]) -> dict[str, list[Happening]]:
    found: dict[str, list[Happening]] = {}
    for one in happenings:
        if one.of("job"):
            found.setdefault(one.of("job"), []).append(one)
    return found


def recovery_fatal(case: Case) -> Iterator[Found]:
    fatal = [one for one in case.all("recovery-fatal") if one.of("job") or _recovers(case, one)]
    if fatal:
        jobs = sorted(_by_job(fatal))
        yield Found("recovery-fatal", 0.8, tuple(fatal), {"job": f"job {jobs[0]}" if jobs else "one job"}, symptom=fatal[0])


def _recovers(case: Case, fatal: Happening) -> bool:
    """Whether it was about to. A process may end for other reasons, with the same words."""
    before = case.near(fatal, RECOVERY_MS, 0, "leadership-granted", "job-recovering")
    return any(one.component == fatal.component for one in before)


SIGNATURES = (resurrected, starved, restart_loop, recovery_fatal)
