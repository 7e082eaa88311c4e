"""From findings to what is done about them: go on, wait, or park. Pure; the clock is whoever asks.

What is certain parks, once a second look has seen it too. What may pass is waited for: an offset that is out of place, for the
grace time; brokers that are away, for as long as it takes, because there is nothing that a person could choose.
"""

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.kafka.check.offset_finding import Finding, Kind, Weight

GRACE_S = 600.0
CONFIRM_S = 3.0
CHECK_S = 30.0
FIRST_S = 1.0
SENTENCE_MAX = 240
AWAY = frozenset({Kind.BROKER_AWAY, Kind.LEADER_AWAY})


class Verdict(enum.StrEnum):
    GO = "go"
    WAIT = "wait"
    PARK = "park"


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    note: str
    """What people have to know; it stays the same as long as the same is wrong."""
    again_s: float
    """When to look again."""
    certain: bool = False
    """Whether only a second look is missing."""


class Patience:
    def __init__(self, *, grace_s: float = GRACE_S, away_s: float = math.inf, check_s: float = CHECK_S) -> None:
        """`away_s` is how long brokers may be away before that parks a job, too."""
        self._grace_s = grace_s
        self._away_s = away_s
        self._check_s = check_s
        self._since: dict[str, float] = {}
        """When each kind of trouble was seen first."""
        self._looks = 0
        self._told: tuple[frozenset[tuple[str, str]], str] = (frozenset(), "")

    def decide(self, findings: Sequence[Finding], now: float) -> Decision:
        certain = [finding for finding in findings if finding.weight is Weight.STOP]
        passing = [finding for finding in findings if finding.weight is Weight.WAIT]
        doubtful = [finding for finding in passing if finding.kind not in AWAY]
        away = [finding for finding in passing if finding.kind in AWAY]
        if (
            self._lasted(bool(certain), "certain", now) >= CONFIRM_S
            or self._lasted(bool(doubtful), "doubtful", now, unknown=bool(away)) >= self._grace_s
            or self._lasted(bool(away), "away", now) >= self._away_s
        ):
            return Decision(Verdict.PARK, self._told_of([*certain, *passing]), self._check_s)
        if certain or passing:
            self._looks += 1
            pause_s = CONFIRM_S if certain else min(FIRST_S * 2.0 ** min(self._looks - 1, 16), self._check_s)
            return Decision(Verdict.WAIT, self._told_of([*certain, *passing]), pause_s, bool(certain))
        self._looks = 0
        return Decision(Verdict.GO, self._told_of(findings), self._check_s)

    def _lasted(self, there: bool, what: str, now: float, *, unknown: bool = False) -> float:
        """How long; below nothing if it is not there. Brokers that say nothing do not say that it has passed."""
        if not there and not unknown:
            self._since.pop(what, None)
        elif there:
            return now - self._since.setdefault(what, now)
        return -1.0

    def _told_of(self, findings: Sequence[Finding]) -> str:
        """The words of brokers differ from look to look; a note does not, while the same is the matter."""
        matter = frozenset((finding.kind.value, finding.topic) for finding in findings)
        if matter != self._told[0]:
            self._told = (matter, remark(findings))
        return self._told[1]


def remark(findings: Sequence[Finding]) -> str:
    """The first of each kind and topic, and how many more there are."""
    groups: dict[tuple[Kind, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.kind, finding.topic), []).append(finding)
    return "; ".join(_of(group) for group in groups.values())


def _of(group: Sequence[Finding]) -> str:
    words = str(group[0])
    words = words if len(words) <= SENTENCE_MAX else f"{words[: SENTENCE_MAX - 1]}…"
    return words if len(group) == 1 else f"{words} (and {len(group) - 1:,} more partitions: {group[0].kind.value})"
