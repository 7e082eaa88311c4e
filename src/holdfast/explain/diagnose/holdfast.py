"""Holdfast's own jobs that stand still: parked, set aside, failed for good."""

from collections.abc import Iterator

from holdfast.explain.diagnose.case import Case, Found
from holdfast.explain.happening import Happening
from holdfast.explain.moment import stamp

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
    mine = [other for other in case.all(*_PHASES) if other.of("job") == one.of("job")]
    last = max(mine, key=lambda other: (_until(other), other.event.file, other.event.offset))
    return f" Since {stamp(_until(last)).replace('T', ' ')[:19]} it is {last.of('phase')}." if last is not one else ""


def _until(one: Happening) -> int:
    return max(one.begin_ms, one.last_ms)


def called(one: Happening) -> str:
    """What a person calls it in a command."""
    return one.of("name") or one.of("job")


def label(one: Happening) -> str:
    return f"{one.of('name')} ({one.of('job')})" if one.of("name") else one.of("job")


SIGNATURES = (parked, quarantined, failed)
