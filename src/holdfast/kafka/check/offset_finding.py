"""Finding of the offset check: a problem or a notable change of a topic or of one of its partitions."""

import enum
from dataclasses import dataclass

from holdfast.kafka.check.checkpoint_offsets import Partition


class FindingKind(enum.StrEnum):
    """Kinds of findings. Their values are stored beside checkpoints and are part of the JSON output: never change one."""

    RETENTION = "retention overtook"
    TRUNCATED = "truncated"
    REGROWN = "truncated and regrown"
    TRUNCATED_AHEAD = "truncated ahead"
    TOPIC_DELETED = "topic deleted"
    TOPIC_RECREATED = "topic re-created"
    PARTITION_ADDED = "partition added"
    PARTITION_MISSING = "partition gone"
    BEYOND_END = "beyond the end"
    STALE_LEADER = "stale leader"
    HISTORY_UNKNOWN = "history unknown"
    NO_LEADER = "no leader"
    BROKER_UNREACHABLE = "broker away"
    FIRST_CHECK = "first sight"
    NEW_LEADER = "new leader"

    @property
    def label(self) -> str:
        """Name of the kind in tables and messages."""
        return _LABELS.get(self, self.value)


_LABELS = {
    FindingKind.RETENTION: "deleted by retention",
    FindingKind.TRUNCATED_AHEAD: "unread records truncated",
    FindingKind.PARTITION_MISSING: "partition missing",
    FindingKind.BEYOND_END: "beyond end of log",
    FindingKind.HISTORY_UNKNOWN: "log not confirmed",
    FindingKind.BROKER_UNREACHABLE: "broker unreachable",
    FindingKind.FIRST_CHECK: "first check",
}


class Severity(enum.IntEnum):
    NOTE = 1
    """The job continues."""
    WAIT = 2
    """The condition may pass without intervention."""
    STOP = 3
    """An operator has to choose."""


@dataclass(frozen=True, slots=True)
class ResumeImpact:
    """Effect of resuming from some offset on the records that are in the log now."""

    skipped: int
    """Records that the job never reads, neither before nor after."""
    repeated: int
    """Records that the job reads a second time."""


@dataclass(frozen=True, slots=True)
class OffsetFinding:
    """One finding. The field names are those of the JSON output and of the record beside the checkpoint."""

    kind: FindingKind
    weight: Severity
    topic: str
    sentence: str
    partition: int | None = None
    """None if the finding is about the whole topic."""
    saved: int | None = None
    earliest: int | None = None
    latest: int | None = None
    lost: int | None = None
    """Records that are gone and that the job never read; None if the number is unknown."""
    lost_more: bool = False
    """True if `lost` is a lower bound."""
    vanished: int | None = None
    """Records that the job has read and that the log no longer has; None if the number is unknown."""
    vanished_more: bool = False
    """True if `vanished` is a lower bound."""
    mends: int | None = None
    """Offset from which the job reads every unread record and none twice; None if unknown."""
    keep: ResumeImpact | None = None
    """Impact of resuming from the saved offset. Like the two fields below, None if unknown."""
    from_earliest: ResumeImpact | None = None
    from_latest: ResumeImpact | None = None

    @property
    def subject(self) -> str:
        return self.topic if self.partition is None else str(Partition(self.topic, self.partition))

    def __str__(self) -> str:
        return f"{self.subject}: {self.sentence}"
