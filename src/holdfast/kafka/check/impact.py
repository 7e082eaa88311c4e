"""Impact of each operator choice on the records in the log: arithmetic on offsets.

Counts are offsets. In a compacted or transactional topic some offsets have no record, so a count is an upper bound.
"""

from dataclasses import dataclass, replace

from holdfast.kafka.check.checkpoint_offsets import PartitionPosition
from holdfast.kafka.check.offset_finding import OffsetFinding, ResumeImpact


@dataclass(frozen=True, slots=True)
class LogRange:
    earliest: int
    latest: int
    first_unread: int
    """First offset that the job has not read. It may lie outside the log."""


def impact_of_resuming_at(log: LogRange, start: int) -> ResumeImpact:
    first = max(log.first_unread, log.earliest)
    skipped = min(start, log.latest) - first
    repeated = min(log.first_unread, log.latest) - max(start, log.earliest)
    return ResumeImpact(max(0, skipped), max(0, repeated))


def with_impacts(finding: OffsetFinding, position: PartitionPosition, log: LogRange) -> OffsetFinding:
    """Return the finding with the offsets of its partition and the impact of each choice."""
    return replace(
        finding,
        saved=position.next_offset,
        earliest=log.earliest,
        latest=log.latest,
        mends=min(max(log.first_unread, log.earliest), log.latest),
        keep=impact_of_resuming_at(log, position.next_offset),
        from_earliest=impact_of_resuming_at(log, log.earliest),
        from_latest=impact_of_resuming_at(log, log.latest),
    )


def format_record_count(count: int) -> str:
    return "1 record" if count == 1 else f"{count:,} records"
