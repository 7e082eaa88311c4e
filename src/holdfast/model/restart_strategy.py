"""When a failed attempt is followed by another. Pure: the same history gives the same answer, on every leader.

Only failures of the job itself count. A lost node or lease is the infrastructure's fault and uses up nothing.
"""

import hashlib
import math
from dataclasses import dataclass

from holdfast.errors import Refused
from holdfast.model.duration import parse_duration

DELAY_S_FIRST = 1.0
DELAY_S_MAX = 300.0
HEALTHY_S = 600.0
"""After a run of this length, earlier failures are forgotten."""
JITTER = 0.2
RECENT_MAX = 101
"""More failures than any `rate` may allow."""


@dataclass(frozen=True, slots=True)
class Never:
    def __str__(self) -> str:
        return "never"


@dataclass(frozen=True, slots=True)
class Fixed:
    """At most `restarts` times in a row, each after the same delay."""

    restarts: int
    delay_s: float

    def __str__(self) -> str:
        return f"fixed:{self.restarts}:{self.delay_s:g}s"


@dataclass(frozen=True, slots=True)
class Exponential:
    """For ever, with delays that double up to a cap. The default."""

    def __str__(self) -> str:
        return "exponential"


@dataclass(frozen=True, slots=True)
class Rate:
    """As long as there were no more than `restarts` failures within the last `period_s`."""

    restarts: int
    period_s: float
    delay_s: float

    def __str__(self) -> str:
        return f"rate:{self.restarts}:{self.period_s:g}s:{self.delay_s:g}s"


Strategy = Never | Fixed | Exponential | Rate


@dataclass(frozen=True, slots=True)
class Again:
    """Another attempt, this much later."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class Enough:
    reason: str


def parse(text: str) -> Strategy:
    match text.split(":"):
        case ["never"]:
            return Never()
        case ["exponential"]:
            return Exponential()
        case ["fixed", restarts, delay]:
            return Fixed(_count(restarts, text), _seconds(delay, text))
        case ["rate", restarts, period, delay]:
            if _count(restarts, text) >= RECENT_MAX:
                raise Refused(f"'{text}' is no restart strategy: a rate counts {RECENT_MAX - 1} restarts at most")
            return Rate(_count(restarts, text), _seconds(period, text), _seconds(delay, text))
        case _:
            raise Refused(f"'{text}' is no restart strategy: never, exponential, fixed:N:DELAY or rate:N:PERIOD:DELAY")


def _count(text: str, whole: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise Refused(f"'{whole}' is no restart strategy: '{text}' is not a number of restarts")
    return int(text)


def _seconds(text: str, whole: str) -> float:
    try:
        return parse_duration(text)
    except Refused as error:
        raise Refused(f"'{whole}' is no restart strategy: {error}") from None


@dataclass(frozen=True, slots=True)
class Failures:
    """What counts against a job."""

    in_a_row: int = 0
    recent: tuple[float, ...] = ()
    """Wall times of the last ones, for `rate`."""

    def with_another(self, *, started: float | None, now: float) -> "Failures":
        """Once an attempt that started at `started` has failed `now`. A long healthy run clears what was before it."""
        healthy = started is not None and now - started >= HEALTHY_S
        return Failures(1 if healthy else self.in_a_row + 1, (*self.recent, now)[-RECENT_MAX:])


def decide(strategy: Strategy, failures: Failures, *, now: float, key: str) -> Again | Enough:
    """What follows a failure, which is counted in `failures` already.

    `key` (job and attempt) spreads the jitter: jobs that failed together do not come back together.
    """
    match strategy:
        case Never():
            return Enough("its restart strategy is 'never'")
        case Fixed(restarts, delay_s):
            if failures.in_a_row > restarts:
                return Enough(f"it failed {failures.in_a_row} times in a row, and '{strategy}' allows {restarts} restarts")
            return Again(delay_s)
        case Rate(restarts, period_s, delay_s):
            recent = sum(at > now - period_s for at in failures.recent)
            if recent > restarts:
                return Enough(f"it failed {recent} times within {period_s:g} s, and '{strategy}' allows {restarts}")
            return Again(delay_s)
        case Exponential():
            doubled_s = DELAY_S_FIRST * math.ldexp(1.0, min(failures.in_a_row - 1, 32))
            return Again(min(doubled_s, DELAY_S_MAX) * (1 + JITTER * _fraction(key)))


def _fraction(key: str) -> float:
    """Between 0 and 1, and always the same for the same key."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") / 2**32
