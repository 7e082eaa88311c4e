"""What brokers say at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class History:
    """A leader's answer to: up to where is your log that of the leaders up to this epoch?"""

    epoch: int
    """The epoch that was asked about."""
    end: int
    """The first offset that a later leader has written, or the end of the log."""


@dataclass(frozen=True, slots=True)
class SightedPartition:
    earliest: int | None = None
    latest: int | None = None
    """Where the next record will be. With `read_committed`, up to where transactions have ended."""
    leader: int | None = None
    """The broker's number; None if there is none at the moment."""
    epoch: int | None = None
    """The number of the leader's reign, from the same answer as `latest`."""
    history: History | None = None
    """Only asked if the epoch is another one than is remembered: within one epoch nothing is truncated."""
    problem: str = ""
    """Why something above was not answered."""


@dataclass(frozen=True, slots=True)
class SightedTopic:
    id: str | None = None
    """Given anew each time that a topic is created. None if the brokers are too old to tell."""
    partitions: Mapping[int, SightedPartition] = field(default_factory=lambda: MappingProxyType({}))
    exists: bool = True
    problem: str = ""
    """Why nothing is known of it."""


@dataclass(frozen=True, slots=True)
class Sighted:
    topics: Mapping[str, SightedTopic] = field(default_factory=lambda: MappingProxyType({}))
    problem: str = ""
    """Why nothing was answered at all."""
