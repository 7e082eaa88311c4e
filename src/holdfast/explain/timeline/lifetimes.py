"""Lifetimes of ZooKeeper sessions, jobs and leaderships: their start, their end and the cause of the end."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.explain.timeline.occurrence import Occurrence

_OPENED = ("client-connected", "zk-session-opened")
_EXPIRED = {"zk-session-expired": "it expired", "client-expired": "it expired"}
_JOB_ENDS = {
    "job-failed": "it failed",
    "job-parked": "it was parked",
    "job-quarantined": "it was quarantined",
    "job-suspended": "it was suspended",
}
_FINAL_STATES = {"FINISHED", "FAILED", "CANCELED", "CANCELLED", "SUSPENDED"}


@dataclass(frozen=True, slots=True)
class Lifetime:
    kind: str
    """session, job or leadership"""
    name: str
    component: str
    """Owner of the session or leadership; for a job, the component that first reports it."""
    begin_ms: int
    end_ms: int | None
    """None if no event reports its end."""
    end: str
    """Kind of its end; empty if no event reports one."""
    first: Occurrence
    last: Occurrence
    """Occurrence that reports its end, or the newest one; `first` reports its start."""
    restarts: int = 0


def find_lifetimes(occurrences: Iterable[Occurrence]) -> list[Lifetime]:
    """Return the lifetimes in order of their begin. `occurrences` are in order of time."""
    ordered = list(occurrences)
    lifetimes = [*_sessions(ordered), *_jobs(ordered), *_leaderships(ordered)]
    return sorted(lifetimes, key=lambda one: (one.begin_ms, one.kind, one.component, one.name))


def _sessions(occurrences: list[Occurrence]) -> Iterator[Lifetime]:
    """Yield the lifetimes of sessions. A session belongs to its client, although servers report it, too."""
    by_session: dict[str, list[Occurrence]] = {}
    for one in occurrences:
        if one.value("session") and (one.kind in _OPENED or one.kind in _EXPIRED):
            by_session.setdefault(one.value("session"), []).append(one)
    for session, reports in by_session.items():
        owner = next((one.component for one in reports if one.kind == "client-connected"), reports[0].component)
        ended = next((one for one in reports if one.kind in _EXPIRED), None)
        yield _lifetime("session", session, owner, reports, ended, _EXPIRED[ended.kind] if ended is not None else "")


def _jobs(occurrences: list[Occurrence]) -> Iterator[Lifetime]:
    by_job: dict[str, list[Occurrence]] = {}
    for one in occurrences:
        if one.value("job"):
            by_job.setdefault(one.value("job"), []).append(one)
    for job, reports in by_job.items():
        last = reports[-1]
        state = last.value("state")
        end = _JOB_ENDS.get(last.kind, f"it is {state}" if state in _FINAL_STATES else "")
        restarts = sum(one.count for one in reports if one.kind == "job-restarting")
        yield _lifetime("job", job, reports[0].component, reports, last if end else None, end, restarts)


def _leaderships(occurrences: list[Occurrence]) -> Iterator[Lifetime]:
    """Yield the leaderships, one per component at a time: a Flink JobManager gains and loses several together."""
    leading: dict[str, list[Occurrence]] = {}
    for one in occurrences:
        if one.kind == "leadership-granted":
            leading.setdefault(one.component, []).append(one)
        elif one.kind == "leadership-revoked" and one.component in leading:
            grants = leading.pop(one.component)
            yield _lifetime("leadership", grants[0].value("epoch"), one.component, grants, one, "it ended")
    for component, grants in leading.items():
        yield _lifetime("leadership", grants[0].value("epoch"), component, grants, None, "")


def _lifetime(
    kind: str, name: str, component: str, reports: list[Occurrence], ended: Occurrence | None, end: str, restarts: int = 0
) -> Lifetime:
    end_ms = max(ended.begin_ms, ended.last_ms) if ended is not None else None
    return Lifetime(kind, name, component, reports[0].begin_ms, end_ms, end, reports[0], ended or reports[-1], restarts)
