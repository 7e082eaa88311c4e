"""From when to when something was: each ZooKeeper session, each job, each time that somebody led. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.explain.timeline.occurrence import Happening

_OPENED = ("client-connected", "zk-session-opened")
_EXPIRED = {"zk-session-expired": "it expired", "client-expired": "it expired"}
_JOB_ENDS = {
    "job-failed": "it failed",
    "job-parked": "it was parked",
    "job-quarantined": "it was set aside",
    "job-suspended": "it was suspended",
}
_FINAL_STATES = {"FINISHED", "FAILED", "CANCELED", "CANCELLED", "SUSPENDED"}


@dataclass(frozen=True, slots=True)
class Life:
    kind: str
    """session, job or leadership"""
    name: str
    component: str
    """Whose it was."""
    begin_ms: int
    end_ms: int | None
    """None if nothing tells of its end."""
    end: str
    first: Happening
    last: Happening
    """Where its beginning and its end are told."""
    restarts: int = 0


def lives(happenings: Iterable[Happening]) -> list[Life]:
    """In the order of their beginnings. `happenings`: in the order of time."""
    in_order = list(happenings)
    found = [*_sessions(in_order), *_jobs(in_order), *_leaderships(in_order)]
    return sorted(found, key=lambda life: (life.begin_ms, life.kind, life.component, life.name))


def _sessions(happenings: list[Happening]) -> Iterator[Life]:
    """A server that tells of one is not the one whose it is."""
    of: dict[str, list[Happening]] = {}
    for one in happenings:
        if one.of("session") and (one.kind in _OPENED or one.kind in _EXPIRED):
            of.setdefault(one.of("session"), []).append(one)
    for session, told in of.items():
        owner = next((one.component for one in told if one.kind == "client-connected"), told[0].component)
        ended = next((one for one in told if one.kind in _EXPIRED), None)
        yield _life("session", session, owner, told, ended, _EXPIRED[ended.kind] if ended is not None else "")


def _jobs(happenings: list[Happening]) -> Iterator[Life]:
    of: dict[str, list[Happening]] = {}
    for one in happenings:
        if one.of("job"):
            of.setdefault(one.of("job"), []).append(one)
    for job, told in of.items():
        last = told[-1]
        state = last.of("state")
        end = _JOB_ENDS.get(last.kind, f"it is {state}" if state in _FINAL_STATES else "")
        restarts = sum(one.count for one in told if one.kind == "job-restarting")
        yield _life("job", job, told[0].component, told, last if end else None, end, restarts)


def _leaderships(happenings: list[Happening]) -> Iterator[Life]:
    """What one and the same component leads at a time: a Flink manager has several, and gets and loses them together."""
    reigning: dict[str, list[Happening]] = {}
    for one in happenings:
        if one.kind == "leadership-granted":
            reigning.setdefault(one.component, []).append(one)
        elif one.kind == "leadership-revoked" and one.component in reigning:
            told = reigning.pop(one.component)
            yield _life("leadership", told[0].of("epoch"), one.component, told, one, "it was given up")
    for component, told in reigning.items():
        yield _life("leadership", told[0].of("epoch"), component, told, None, "")


def _life(
    kind: str, name: str, component: str, told: list[Happening], ended: Happening | None, end: str, restarts: int = 0
) -> Life:
    end_ms = max(ended.begin_ms, ended.last_ms) if ended is not None else None
    return Life(kind, name, component, told[0].begin_ms, end_ms, end, told[0], ended or told[-1], restarts)
