"""Park policy: turns findings into a decision to go, wait or park. Pure; the caller passes the time.

A finding of severity STOP parks the job once a second check confirms it. An offset that is out of place parks the job after
the grace period. Unreachable brokers never park a job by default, because there is nothing that an operator could choose.
"""

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.kafka.check.offset_finding import FindingKind, OffsetFinding, Severity

GRACE_S = 600.0
CONFIRM_S = 3.0
CHECK_S = 30.0
FIRST_RETRY_S = 1.0
SENTENCE_MAX = 240
UNREACHABLE_KINDS = frozenset({FindingKind.BROKER_UNREACHABLE, FindingKind.NO_LEADER})


class ParkVerdict(enum.StrEnum):
    GO = "go"
    WAIT = "wait"
    PARK = "park"


@dataclass(frozen=True, slots=True)
class ParkDecision:
    verdict: ParkVerdict
    note: str
    """Summary for people. It does not change while the same kinds of findings persist."""
    next_check_s: float
    """Seconds until the next check."""
    needs_confirmation: bool = False
    """True if a second check with the same result parks the job."""


class ParkPolicy:
    def __init__(self, *, grace_s: float = GRACE_S, away_s: float = math.inf, check_s: float = CHECK_S) -> None:
        """`away_s` is the time after which unreachable brokers park the job."""
        self._grace_s = grace_s
        self._away_s = away_s
        self._check_s = check_s
        self._since: dict[str, float] = {}
        """Start time of each condition that currently holds."""
        self._retries = 0
        self._last_note: tuple[frozenset[tuple[str, str]], str] = (frozenset(), "")

    def decide(self, findings: Sequence[OffsetFinding], now: float) -> ParkDecision:
        final = [finding for finding in findings if finding.weight is Severity.STOP]
        waiting = [finding for finding in findings if finding.weight is Severity.WAIT]
        misplaced = [finding for finding in waiting if finding.kind not in UNREACHABLE_KINDS]
        unreachable = [finding for finding in waiting if finding.kind in UNREACHABLE_KINDS]
        if (
            self._seconds_held("final", bool(final), now) >= CONFIRM_S
            or self._seconds_held("misplaced", bool(misplaced), now, unknown=bool(unreachable)) >= self._grace_s
            or self._seconds_held("unreachable", bool(unreachable), now) >= self._away_s
        ):
            return ParkDecision(ParkVerdict.PARK, self._stable_note([*final, *waiting]), self._check_s)
        if final or waiting:
            self._retries += 1
            pause_s = CONFIRM_S if final else min(FIRST_RETRY_S * 2.0 ** min(self._retries - 1, 16), self._check_s)
            return ParkDecision(ParkVerdict.WAIT, self._stable_note([*final, *waiting]), pause_s, bool(final))
        self._retries = 0
        return ParkDecision(ParkVerdict.GO, self._stable_note(findings), self._check_s)

    def _seconds_held(self, condition: str, holds: bool, now: float, *, unknown: bool = False) -> float:
        """Return the seconds that the condition has lasted, or -1 if it does not hold.

        While it is `unknown` whether it holds, because brokers are unreachable, its start time is kept.
        """
        if not holds and not unknown:
            self._since.pop(condition, None)
        elif holds:
            return now - self._since.setdefault(condition, now)
        return -1.0

    def _stable_note(self, findings: Sequence[OffsetFinding]) -> str:
        """Return the previous note while kinds and topics are the same, although error texts of brokers vary."""
        kinds = frozenset((finding.kind.value, finding.topic) for finding in findings)
        if kinds != self._last_note[0]:
            self._last_note = (kinds, summarize_findings(findings))
        return self._last_note[1]


def summarize_findings(findings: Sequence[OffsetFinding]) -> str:
    """Return the first finding of each kind and topic, with the number of further partitions."""
    groups: dict[tuple[FindingKind, str], list[OffsetFinding]] = {}
    for finding in findings:
        groups.setdefault((finding.kind, finding.topic), []).append(finding)
    return "; ".join(_summarize_group(group) for group in groups.values())


def _summarize_group(group: Sequence[OffsetFinding]) -> str:
    text = str(group[0])
    text = text if len(text) <= SENTENCE_MAX else f"{text[: SENTENCE_MAX - 1]}…"
    return text if len(group) == 1 else f"{text} (and {len(group) - 1:,} more partitions: {group[0].kind.label})"
