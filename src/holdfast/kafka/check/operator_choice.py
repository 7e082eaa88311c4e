"""Records for a parked job: the findings, and the offsets that an operator chose. Pure.

The operator's command only writes the choice, as one file beside the checkpoint. The next attempt applies it while it holds
the checkpoint claim. So a checkpoint has one writer, and a choice takes effect completely or not at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from holdfast.checkpoint.metadata_files import KAFKA_CHOICE_FILE, KAFKA_PARK_FINDINGS_FILE
from holdfast.errors import Refused
from holdfast.kafka.check.checkpoint_offsets import Partition, SavedOffsets
from holdfast.kafka.check.offset_finding import OffsetFinding
from holdfast.kafka.check.offset_rewrite import OffsetMove, affected_partitions, plan_moves
from holdfast.model import codec

PARTITIONS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class SourceFindings:
    """Findings about one source of one query."""

    location: str
    """Location of the query's checkpoint, as Spark spells it."""
    number: int
    """Index of the source in `offsets/N`."""
    findings: tuple[OffsetFinding, ...]
    folder: int = 0
    """Number of the source's folder in `sources/`."""
    name: str = ""
    """Name that the script gave the source, which is also its folder; empty if it has none."""


@dataclass(frozen=True, slots=True)
class ParkFindings:
    """Content of `_holdfast/kafka-lost.json`: the findings that parked the job."""

    wall: float
    sources: tuple[SourceFindings, ...]

    @property
    def all_findings(self) -> tuple[OffsetFinding, ...]:
        return tuple(finding for source in self.sources for finding in source.findings)


@dataclass(frozen=True, slots=True)
class PartitionChoice:
    topic: str
    partition: int
    saved: int | None
    """Offset that the operator saw. None if the checkpoint did not have the partition."""
    to: int | None
    """New offset. None removes the partition from the checkpoint."""
    moved: bool = True
    """False if the saved offset is kept; then only the last known state of the partition is dropped."""

    @property
    def topic_partition(self) -> Partition:
        return Partition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class SourceChoice:
    location: str
    number: int
    partitions: tuple[PartitionChoice, ...]
    folder: int = 0
    name: str = ""

    def moves(self) -> tuple[OffsetMove, ...]:
        return tuple(OffsetMove(each.topic_partition, each.to) for each in self.partitions if each.moved)

    def first_outdated_partition(self, saved: SavedOffsets) -> Partition | None:
        """Return the first partition whose saved offset has changed since the choice, or None."""
        current = {partition: position.next_offset for partition, position in saved.items()}
        return next((each.topic_partition for each in self.partitions if current.get(each.topic_partition) != each.saved), None)


@dataclass(frozen=True, slots=True)
class OffsetChoice:
    """Content of `_holdfast/kafka-choice.json`."""

    by: str
    word: str
    """`keep`, `earliest`, `latest`, or the name of the operator's file."""
    wall: float
    savepoint: str
    """Savepoint of the checkpoint before the choice."""
    sources: tuple[SourceChoice, ...]

    def for_location(self, location: str) -> tuple[SourceChoice, ...]:
        return tuple(source for source in self.sources if source.location == location)

    def without_location(self, location: str) -> "OffsetChoice":
        return replace(self, sources=tuple(source for source in self.sources if source.location != location))

    def describe(self) -> str:
        """Return a sentence for an event: who chose which offsets for which partitions."""
        partitions = [each for source in self.sources for each in source.partitions]
        shown = ", ".join(_describe_partition(each) for each in partitions[:PARTITIONS_SHOWN])
        more = f" and {len(partitions) - PARTITIONS_SHOWN:,} more" if len(partitions) > PARTITIONS_SHOWN else ""
        return (
            f"{self.by or 'an operator'} chose '{self.word}' for {shown}{more}; savepoint before the change: {self.savepoint}"
        )


def _describe_partition(choice: PartitionChoice) -> str:
    if not choice.moved:
        return f"{choice.topic_partition} (kept at {choice.saved})"
    before, after = ("none" if offset is None else offset for offset in (choice.saved, choice.to))
    return f"{choice.topic_partition} ({before} → {after})"


def choose_for_source(source: SourceFindings, saved: SavedOffsets, choice: str | Mapping[Partition, int]) -> SourceChoice:
    """Build the choice for exactly the affected partitions of a source. Raise Refused if it is not possible."""
    offsets = {move.partition: move.offset for move in plan_moves(saved, source.findings, choice)}
    partitions = tuple(
        PartitionChoice(
            partition.topic,
            partition.number,
            saved[partition].next_offset if partition in saved else None,
            offsets.get(partition),
            moved=partition in offsets,
        )
        for partition in sorted(affected_partitions(saved, source.findings))
    )
    return SourceChoice(source.location, source.number, partitions, source.folder, source.name)


def split_by_source(parked: ParkFindings, offsets: Mapping[Partition, int]) -> list[dict[Partition, int]]:
    """Return the chosen offsets of each source. Sources that share an affected partition get the same offset.

    Raise Refused if a partition is in no findings table.
    """
    affected = [
        {Partition(each.topic, each.partition) for each in source.findings if each.partition is not None}
        for source in parked.sources
    ]
    parts = [{partition: offset for partition, offset in offsets.items() if partition in own} for own in affected]
    for partition in offsets:
        if not any(partition in part for part in parts):
            raise Refused(f"cannot move {partition}: only partitions in the findings table can be moved")
    return parts


def encode_record(record: ParkFindings | OffsetChoice) -> bytes:
    return codec.encode(record)


def decode_park_findings(data: bytes | None) -> ParkFindings | None:
    """Decode `kafka-lost.json`. Return None if it is missing or unreadable."""
    try:
        return codec.decode(ParkFindings, data, where=KAFKA_PARK_FINDINGS_FILE) if data is not None else None
    except (codec.MalformedRecord, codec.NewerSchema):
        return None


def decode_choice(data: bytes | None) -> OffsetChoice | None:
    """Decode `kafka-choice.json`. Raise MalformedRecord or NewerSchema: a choice is never ignored."""
    return codec.decode(OffsetChoice, data, where=KAFKA_CHOICE_FILE) if data is not None else None
