"""Detectors of Holdfast jobs that are parked, quarantined or failed, and of leadership that moves between nodes."""

import itertools
from collections.abc import Iterator

from holdfast.explain.diagnose.diagnosis import SignatureMatch
from holdfast.explain.library.timestamp import format_timestamp
from holdfast.explain.timeline.occurrence import Occurrence
from holdfast.explain.timeline.timeline import Timeline

HANDOVER_MS = 120_000
"""Longest time from the start of a leadership to the previous leader's report of its end. Its node may have been frozen."""
GRACEFUL_REASON = "this node stops"
_PHASES = ("job-state", "job-restarting", "job-parked", "job-quarantined", "job-failed")


def detect_parked(timeline: Timeline) -> Iterator[SignatureMatch]:
    yield from _match_last(timeline, "job-parked", "job-parked")


def detect_quarantined(timeline: Timeline) -> Iterator[SignatureMatch]:
    yield from _match_last(timeline, "job-quarantined", "job-quarantined")


def detect_failed(timeline: Timeline) -> Iterator[SignatureMatch]:
    yield from _match_last(timeline, "job-failed", "job-failed")


def _match_last(timeline: Timeline, kind: str, signature: str) -> Iterator[SignatureMatch]:
    """Match the last such event of each job, and state the job's phase since then."""
    last = {one.value("job"): one for one in timeline.all(kind) if one.event.system == "holdfast"}
    for one in last.values():
        facts = {
            "job": job_label(one),
            "name": name_in_commands(one),
            "reason": one.value("reason"),
            "attempt": one.value("attempt"),
            "since": phase_since(timeline, one),
        }
        yield SignatureMatch(signature, 0.95, (one,), facts, symptom=one)


def phase_since(timeline: Timeline, one: Occurrence) -> str:
    """Return a sentence with the job's phase since `one`, or an empty string if it has not changed."""
    last = max(
        timeline.sharing(one, "job", *_PHASES), key=lambda other: (_last_ms(other), other.event.file, other.event.offset)
    )
    if last is one:
        return ""
    return f" It has been {last.value('phase')} since {format_timestamp(_last_ms(last)).replace('T', ' ')[:19]}."


def _last_ms(one: Occurrence) -> int:
    return max(one.begin_ms, one.last_ms)


def name_in_commands(one: Occurrence) -> str:
    return one.value("name") or one.value("job")


def job_label(one: Occurrence) -> str:
    return f"{one.value('name')} ({one.value('job')})" if one.value("name") else one.value("job")


def detect_leadership_moved(timeline: Timeline) -> Iterator[SignatureMatch]:
    grants = [one for one in timeline.all("leadership-granted") if one.event.system == "holdfast"]
    grants.sort(key=lambda one: (int(one.value("epoch") or 0), one.begin_ms))
    for before, after in itertools.pairwise(grants):
        around = timeline.near(after, HANDOVER_MS, HANDOVER_MS, "leadership-revoked", "node-started")
        ends = [one for one in around if _ends_leadership(one, before)]
        revoked = [one for one in ends if one.kind == "leadership-revoked"]
        started = [one for one in ends if one.kind == "node-started"]
        if before.value("epoch") != after.value("epoch") and not any(one.value("reason") == GRACEFUL_REASON for one in revoked):
            yield _match_moved(before, after, revoked[:1] or started[:1])


def _ends_leadership(one: Occurrence, grant: Occurrence) -> bool:
    """Return True if `one` ends the leadership that `grant` began: same node, and same epoch if it names one."""
    return (
        one.component == grant.component and one.value("epoch") in ("", grant.value("epoch")) and one.begin_ms > grant.begin_ms
    )


def _match_moved(before: Occurrence, after: Occurrence, ends: list[Occurrence]) -> SignatureMatch:
    why = f"The logs do not show why {before.component} stopped leading."
    for end in ends:
        reason = end.value("reason") or "its agent ended and was restarted"
        why = f"{before.component}: {reason} ({format_timestamp(end.begin_ms).replace('T', ' ')[:19]})."
    facts = {"before": before.component, "after": after.component, "epoch": after.value("epoch"), "why": why}
    return SignatureMatch("leadership-moved", 0.8, (*ends, after), facts, symptom=(*ends, after)[0])


DETECTORS = (detect_parked, detect_quarantined, detect_failed, detect_leadership_moved)
