"""Outcomes of a leader's write. The caller must distinguish all of them, so they are types instead of a bool."""

from dataclasses import dataclass

from holdfast.zk.session.client import Stat


@dataclass(frozen=True, slots=True)
class WriteCommitted:
    results: tuple[str | Stat | None, ...]


@dataclass(frozen=True, slots=True)
class WriteConflict:
    """A znode that the decision was based on has changed. Nothing was written; read again and decide again."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """A later epoch has begun, or the session has ended. No further write of this leadership can succeed."""

    reason: str


@dataclass(frozen=True, slots=True)
class WriteRefused:
    """ZooKeeper refuses this write and would refuse it again. An operator has to act."""

    reason: str


@dataclass(frozen=True, slots=True)
class WriteUnknown:
    """The reply was lost: the write may or may not have taken effect. Read before the next write."""

    reason: str


@dataclass(frozen=True, slots=True)
class WriteNotSent:
    """There was no connection and nothing was sent. Decide again after the reconnection."""

    reason: str


WriteOutcome = WriteCommitted | WriteConflict | LeadershipLost | WriteRefused | WriteUnknown | WriteNotSent
