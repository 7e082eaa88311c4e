"""What each choice would do to the records that are there: arithmetic on offsets.

It counts offsets. In a compacted or transactional topic some offsets have no record, and there a count is the most it can be.
"""

from dataclasses import dataclass, replace

from holdfast.kafka.check.checkpoint_offsets import Position
from holdfast.kafka.check.offset_finding import Consequence, Finding


@dataclass(frozen=True, slots=True)
class Log:
    earliest: int
    latest: int
    unread: int
    """The first offset whose record the job has not read, were it there."""


def going_on(log: Log, start: int) -> Consequence:
    first = max(log.unread, log.earliest)
    skipped = min(start, log.latest) - first
    repeated = min(log.unread, log.latest) - max(start, log.earliest)
    return Consequence(max(0, skipped), max(0, repeated))


def consequences(log: Log, position: Position) -> tuple[Consequence, Consequence, Consequence]:
    """Of keeping the saved offset, of the earliest and of the latest."""
    return going_on(log, position.next), going_on(log, log.earliest), going_on(log, log.latest)


def counted(finding: Finding, position: Position, log: Log) -> Finding:
    """The same finding with the numbers of its row."""
    keep, from_earliest, from_latest = consequences(log, position)
    return replace(
        finding,
        saved=position.next,
        earliest=log.earliest,
        latest=log.latest,
        mends=min(max(log.unread, log.earliest), log.latest),
        keep=keep,
        from_earliest=from_earliest,
        from_latest=from_latest,
    )


def records(count: int) -> str:
    return "1 record" if count == 1 else f"{count:,} records"
