"""One thing that is wrong, or worth knowing, of a topic or one of its partitions."""

import enum
from dataclasses import dataclass

from holdfast.kafka.check.checkpoint_offsets import Partition


class Kind(enum.StrEnum):
    RETENTION = "retention overtook"
    TRUNCATED = "truncated"
    REGROWN = "truncated and regrown"
    TRUNCATED_AHEAD = "truncated ahead"
    DELETED = "topic deleted"
    RECREATED = "topic re-created"
    ADDED = "partition added"
    GONE = "partition gone"
    BEYOND_END = "beyond the end"
    STALE_LEADER = "stale leader"
    UNANSWERED = "history unknown"
    LEADER_AWAY = "no leader"
    BROKER_AWAY = "broker away"
    FIRST_SIGHT = "first sight"
    MOVED = "new leader"


class Weight(enum.IntEnum):
    NOTE = 1
    """The job goes on."""
    WAIT = 2
    """It may pass by itself."""
    STOP = 3
    """A person has to choose."""


@dataclass(frozen=True, slots=True)
class Consequence:
    """What going on from some offset does to the records that are in the log now."""

    skipped: int
    """Never read by this job, neither before nor after."""
    repeated: int
    """Read a second time."""


@dataclass(frozen=True, slots=True)
class Finding:
    kind: Kind
    weight: Weight
    topic: str
    sentence: str
    partition: int | None = None
    """None if it is about the whole topic."""
    saved: int | None = None
    earliest: int | None = None
    latest: int | None = None
    lost: int | None = None
    """Records that are gone and that the job never read; None if nobody can know how many."""
    lost_more: bool = False
    """Whether there may have been more than those that are certain."""
    vanished: int | None = None
    """Records that the job has read and that the log does not have any more; None if nobody can know how many."""
    vanished_more: bool = False
    mends: int | None = None
    """The offset from which the job would read all that is there and was not read, and nothing twice. None if nobody knows."""
    keep: Consequence | None = None
    """Of going on from the saved offset; like the two below None where nobody can know."""
    from_earliest: Consequence | None = None
    from_latest: Consequence | None = None

    @property
    def where(self) -> str:
        return self.topic if self.partition is None else str(Partition(self.topic, self.partition))

    def __str__(self) -> str:
        return f"{self.where}: {self.sentence}"
