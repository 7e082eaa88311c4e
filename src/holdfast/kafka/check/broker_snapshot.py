"""State of topics and partitions as the brokers report it at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class EpochEndOffset:
    """Answer of a leader to Kafka's OffsetForLeaderEpoch request: the end of the log up to an epoch."""

    epoch: int
    """Requested epoch."""
    end: int
    """First offset that a leader of a later epoch wrote, or the end of the log."""


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    earliest: int | None = None
    latest: int | None = None
    """Offset of the next record. With `read_committed`, the last stable offset."""
    leader: int | None = None
    """Broker id; None if the partition has no leader."""
    epoch: int | None = None
    """Leader epoch, from the same response as `latest`."""
    epoch_end: EpochEndOffset | None = None
    """Requested only if the epoch differs from the last known one: a log is never truncated within one epoch."""
    problem: str = ""
    """Reason why one of the values above is missing."""


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    id: str | None = None
    """Unique for each creation of a topic. None if the brokers are too old to report it."""
    partitions: Mapping[int, PartitionSnapshot] = field(default_factory=lambda: MappingProxyType({}))
    exists: bool = True
    problem: str = ""
    """Reason why the topic could not be described."""


@dataclass(frozen=True, slots=True)
class BrokerSnapshot:
    topics: Mapping[str, TopicSnapshot] = field(default_factory=lambda: MappingProxyType({}))
    problem: str = ""
    """Reason why no broker answered."""
