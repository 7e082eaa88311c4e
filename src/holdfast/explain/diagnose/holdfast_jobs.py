"""Holdfast's own jobs that stand still: parked, set aside, failed for good."""

import itertools
from collections.abc import Iterator

from holdfast.explain.diagnose.case import Case, Found
from holdfast.explain.library.timestamp import stamp
from holdfast.explain.timeline.occurrence import Happening

MOVED_MS = 120_000
"""A reign ends at most so long before or after the next one begins, as its own node tells it: it may have been frozen."""
ORDERLY = "this node stops"
_PHASES = ("job-state", "job-restarting", "job-parked", "job-quarantined", "job-failed")


def parked(case: Case) -> Iterator[Found]:
    yield from _standing(case, "job-parked", "job-parked")


def quarantined(case: Case) -> Iterator[Found]:
    yield from _standing(case, "job-quarantined", "job-quarantined")


def failed(case: Case) -> Iterator[Found]:
    yield from _standing(case, "job-failed", "job-failed")


def _standing(case: Case, kind: str, signature: str) -> Iterator[Found]:
    """The last time for each job, and what has become of it since."""
    last = {one.of("job"): one for one in case.all(kind) if one.event.system == "holdfast"}
    for one in last.values():
        facts = {
            "job": label(one),
            "name": called(one),
            "reason": one.of("reason"),
            "attempt": one.of("attempt"),
            "since": since(case, one),
        }
        yield Found(signature, 0.95, (one,), facts, symptom=one)


def since(case: Case, one: Happening) -> str:
    """How the job stands, if it is another way by now."""
    last = max(case.same(one, "job", *_PHASES), key=lambda other: (_until(other), other.event.file, other.event.offset))
    return f" Since {stamp(_until(last)).replace('T', ' ')[:19]} it is {last.of('phase')}." if last is not one else ""


def _until(one: Happening) -> int:
    return max(one.begin_ms, one.last_ms)


def called(one: Happening) -> str:
    """What a person calls it in a command."""
    return one.of("name") or one.of("job")


def label(one: Happening) -> str:
    return f"{one.of('name')} ({one.of('job')})" if one.of("name") else one.of("job")


def leadership_moved(case: Case) -> Iterator[Found]:
    grants = [one for one in case.all("leadership-granted") if one.event.system == "holdfast"]
    grants.sort(key=lambda one: (int(one.of("epoch") or 0), one.begin_ms))
    for before, after in itertools.pairwise(grants):
        given_up = [one for one in case.near(after, MOVED_MS, MOVED_MS, "leadership-revoked") if _of(one, before)]
        started = [one for one in case.near(after, MOVED_MS, MOVED_MS, "node-started") if _of(one, before)]
        if before.of("epoch") != after.of("epoch") and not any(one.of("reason") == ORDERLY for one in given_up):
            yield _moved(before, after, given_up[:1] or started[:1])


def _of(one: Happening, grant: Happening) -> bool:
    """The end of that reign: the same node, and of what names an epoch, the same."""
    return one.component == grant.component and one.of("epoch") in ("", grant.of("epoch")) and one.begin_ms > grant.begin_ms


def _moved(before: Happening, after: Happening, ends: list[Happening]) -> Found:
    why = f"Nothing here says why {before.component} did not go on."
    for end in ends:
        reason = end.of("reason") or "its agent ended, and was started again"
        why = f"{before.component}: {reason} ({stamp(end.begin_ms).replace('T', ' ')[:19]})."
    facts = {"before": before.component, "after": after.component, "epoch": after.of("epoch"), "why": why}
    return Found("leadership-moved", 0.8, (*ends, after), facts, symptom=(*ends, after)[0])


SIGNATURES = (parked, quarantined, failed, leadership_moved)
