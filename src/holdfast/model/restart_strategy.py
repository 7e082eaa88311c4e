"""Restart strategies: whether and when a failed attempt is followed by another one.

The decision is a pure function of the failure history, so every leader decides the same. Only failures of the job itself
count; the loss of a node or a lease does not.
"""

import hashlib
import math
from dataclasses import dataclass

from holdfast.errors import Refused
from holdfast.model.duration import parse_duration
from holdfast.model.failure_history import RECENT_MAX, FailureHistory
from holdfast.model.plural import format_count

DEFAULT_STRATEGY = "exponential"
DELAY_S_FIRST = 1.0
DELAY_S_MAX = 300.0
JITTER = 0.2


@dataclass(frozen=True, slots=True)
class NeverRestart:
    def __str__(self) -> str:
        return "never"


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """At most `restarts` consecutive restarts, each after the same delay."""

    restarts: int
    delay_s: float

    def __str__(self) -> str:
        return f"fixed:{self.restarts}:{self.delay_s:g}s"


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Unlimited restarts with a delay that doubles up to a maximum. The default."""

    def __str__(self) -> str:
        return "exponential"


@dataclass(frozen=True, slots=True)
class FailureRate:
    """Restarts as long as no more than `restarts` failures occurred in the last `period_s` seconds."""

    restarts: int
    period_s: float
    delay_s: float

    def __str__(self) -> str:
        return f"rate:{self.restarts}:{self.period_s:g}s:{self.delay_s:g}s"


Strategy = NeverRestart | FixedDelay | ExponentialBackoff | FailureRate


@dataclass(frozen=True, slots=True)
class RestartAfter:
    """Decision to start another attempt after `delay_s` seconds."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Decision to fail the job."""

    reason: str


def parse_strategy(text: str) -> Strategy:
    match text.split(":"):
        case ["never"]:
            return NeverRestart()
        case ["exponential"]:
            return ExponentialBackoff()
        case ["fixed", restarts, delay]:
            return FixedDelay(_parse_count(restarts, text), _parse_seconds(delay, text))
        case ["rate", restarts, period, delay]:
            if _parse_count(restarts, text) >= RECENT_MAX:
                raise Refused(f"'{text}' is not a restart strategy: a rate allows at most {RECENT_MAX - 1} restarts")
            return FailureRate(_parse_count(restarts, text), _parse_seconds(period, text), _parse_seconds(delay, text))
        case _:
            raise Refused(f"'{text}' is not a restart strategy: use never, exponential, fixed:N:DELAY or rate:N:PERIOD:DELAY")


def _parse_count(text: str, strategy: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise Refused(f"'{strategy}' is not a restart strategy: '{text}' is not a number of restarts")
    return int(text)


def _parse_seconds(text: str, strategy: str) -> float:
    try:
        return parse_duration(text)
    except Refused as error:
        raise Refused(f"'{strategy}' is not a restart strategy: {error}") from None


def decide_restart(strategy: Strategy, failures: FailureHistory, *, now: float, key: str) -> RestartAfter | GiveUp:
    """Decide what follows a failure that `failures` already contains.

    The jitter is derived from `key` (job and attempt), so that jobs that failed together do not restart together.
    """
    match strategy:
        case NeverRestart():
            return GiveUp("the restart strategy is 'never'")
        case FixedDelay(restarts, delay_s):
            if failures.in_a_row > restarts:
                times, allowed = format_count(failures.in_a_row, "time"), format_count(restarts, "restart")
                return GiveUp(f"the job failed {times} in a row, and '{strategy}' allows {allowed}")
            return RestartAfter(delay_s)
        case FailureRate(restarts, period_s, delay_s):
            recent = sum(at > now - period_s for at in failures.recent)
            if recent > restarts:
                times = format_count(recent, "time")
                return GiveUp(f"the job failed {times} within {period_s:g} s, and '{strategy}' allows {restarts}")
            return RestartAfter(delay_s)
        case ExponentialBackoff():
            doubled_s = DELAY_S_FIRST * math.ldexp(1.0, min(failures.in_a_row - 1, 32))
            return RestartAfter(min(doubled_s, DELAY_S_MAX) * (1 + JITTER * _jitter_fraction(key)))


def _jitter_fraction(key: str) -> float:
    """Return a number between 0 and 1 that depends only on the key."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") / 2**32
