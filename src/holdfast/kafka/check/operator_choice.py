"""What the guard found when it parked a job, and what a person chose then. Records beside the checkpoint. Pure.

The person's command writes the choice only, as one file. Whoever runs the next attempt acts on it, under its own claim: so a
checkpoint has one writer, and a choice takes effect as a whole or not at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from holdfast.errors import Refused
from holdfast.kafka.check.checkpoint_offsets import Partition, Saved
from holdfast.kafka.check.offset_finding import Finding
from holdfast.kafka.check.offset_rewrite import Move, moves, wrong_ones
from holdfast.model import codec

SHOWN = 3


@dataclass(frozen=True, slots=True)
class Loss:
    """Of one source of one query."""

    location: str
    """Of the query's checkpoint, as Spark spells it."""
    number: int
    """Of its line in a file of offsets."""
    findings: tuple[Finding, ...]
    folder: int = 0
    """Of its own notes, in `sources`."""


@dataclass(frozen=True, slots=True)
class Lost:
    wall: float
    sources: tuple[Loss, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for source in self.sources for finding in source.findings)


@dataclass(frozen=True, slots=True)
class Chosen:
    topic: str
    partition: int
    saved: int | None
    """What the person saw. None if the checkpoint did not know it."""
    to: int | None
    """None if the job is not to know of it any more."""
    moved: bool = True
    """False if the saved offset stays; then only what is remembered of the partition is forgotten."""

    @property
    def name(self) -> Partition:
        return Partition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class SourceChoice:
    location: str
    number: int
    partitions: tuple[Chosen, ...]
    folder: int = 0

    def moves(self) -> tuple[Move, ...]:
        return tuple(Move(each.name, each.to) for each in self.partitions if each.moved)

    def outdated(self, saved: Saved) -> Partition | None:
        """The first partition that is not where it was when the person chose."""
        known = {partition: position.next for partition, position in saved.items()}
        return next((each.name for each in self.partitions if known.get(each.name) != each.saved), None)


@dataclass(frozen=True, slots=True)
class Choice:
    by: str
    word: str
    """keep, earliest, latest, or the name of a file."""
    wall: float
    savepoint: str
    """The checkpoint as it was before."""
    sources: tuple[SourceChoice, ...]

    def at(self, location: str) -> tuple[SourceChoice, ...]:
        return tuple(source for source in self.sources if source.location == location)

    def without(self, location: str) -> "Choice":
        return replace(self, sources=tuple(source for source in self.sources if source.location != location))

    def told(self) -> str:
        """For an event: who chose what for which partitions."""
        named = [each for source in self.sources for each in source.partitions]
        shown = ", ".join(_told(each) for each in named[:SHOWN])
        more = f" and {len(named) - SHOWN:,} more" if len(named) > SHOWN else ""
        return f"{self.by or 'somebody'} chose '{self.word}' for {shown}{more}; the checkpoint before is {self.savepoint}"


def _told(chosen: Chosen) -> str:
    if not chosen.moved:
        return f"{chosen.name} (stays at {chosen.saved})"
    before = "nothing" if chosen.saved is None else str(chosen.saved)
    return f"{chosen.name} ({before} → {'nothing' if chosen.to is None else chosen.to})"


def choose(loss: Loss, saved: Saved, word: str | Mapping[Partition, int]) -> SourceChoice:
    """For exactly the partitions that something is wrong with. Raises Refused."""
    wrong = wrong_ones(saved, loss.findings)
    moved = {move.partition: move.to for move in moves(saved, loss.findings, word)}
    partitions = tuple(
        Chosen(
            partition.topic,
            partition.number,
            saved[partition].next if partition in saved else None,
            moved.get(partition),
            moved=partition in moved,
        )
        for partition in sorted(wrong)
    )
    return SourceChoice(loss.location, loss.number, partitions, loss.folder)


def divided(lost: Lost, offsets: Mapping[Partition, int]) -> list[dict[Partition, int]]:
    """What a file says, for each source in turn: all that read a partition, and lost it, go on from the same place.

    Raises Refused if it names what is in no table.
    """
    named = [{Partition(f.topic, f.partition) for f in s.findings if f.partition is not None} for s in lost.sources]
    parts = [{partition: offset for partition, offset in offsets.items() if partition in own} for own in named]
    for partition in offsets:
        if not any(partition in part for part in parts):
            raise Refused(f"{partition} cannot be given an offset: only what the table names can be moved")
    return parts


def encoded(record: Lost | Choice) -> bytes:
    return codec.encode(record)


def lost_in(data: bytes | None) -> Lost | None:
    """None if there is none, or nothing that can be read."""
    try:
        return codec.decode(Lost, data, where="kafka-lost.json") if data is not None else None
    except (codec.Garbage, codec.NewerSchema):
        return None


def choice_in(data: bytes | None) -> Choice | None:
    """Raises Garbage and NewerSchema: a person's word is not passed over."""
    return codec.decode(Choice, data, where="kafka-choice.json") if data is not None else None


def worst(findings: Iterable[Finding]) -> Finding | None:
    """The one that a reason names."""
    return max(findings, key=lambda finding: finding.weight, default=None)
