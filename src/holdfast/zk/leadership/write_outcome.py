"""What became of a leader's write. A value to be inspected, never a bool."""

from dataclasses import dataclass

from holdfast.zk.session.client import Stat


@dataclass(frozen=True, slots=True)
class Done:
    results: tuple[str | Stat | None, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Something that the decision was based on has changed. Look again."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """Another epoch has begun, or the session is over. Nothing of this reign can land any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class Final:
    """It will be refused every time. Tell a person."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The reply was lost. Look before doing anything else."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unsent:
    """There is no connection, and nothing was sent. Decide again when there is one."""

    reason: str


Outcome = Done | Conflict | LeadershipLost | Final | Unknown | Unsent
