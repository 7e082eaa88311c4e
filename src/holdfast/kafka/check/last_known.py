"""What was true of a topic when it was last found in order. Kept beside the checkpoint, as `_holdfast/kafka.json`.

Spark's offsets are bare numbers: they do not say of which topic, nor of which of its histories, they are. These records do.
`holdfast.storage` writes them, whole or not at all.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from holdfast.kafka.check.broker_snapshot import Sighted, SightedPartition, SightedTopic
from holdfast.kafka.check.checkpoint_offsets import Partition, Position, Saved
from holdfast.kafka.check.offset_finding import Finding, Weight
from holdfast.model import codec


@dataclass(frozen=True, slots=True)
class RememberedPartition:
    number: int
    until: int
    """How far the job had read, or planned to read."""
    latest: int
    """How far the log went."""
    epoch: int | None
    """Of the leader whose log that was."""


@dataclass(frozen=True, slots=True)
class RememberedTopic:
    name: str
    id: str | None
    partitions: tuple[RememberedPartition, ...]
    count: int = 0
    """How many partitions it had, whether or not the job knew of them; 0 if nobody looked."""

    def partition(self, number: int) -> RememberedPartition | None:
        return next((each for each in self.partitions if each.number == number), None)


@dataclass(frozen=True, slots=True)
class Memory:
    topics: tuple[RememberedTopic, ...] = ()

    def topic(self, name: str) -> RememberedTopic | None:
        return next((each for each in self.topics if each.name == name), None)

    def epochs(self) -> dict[Partition, int]:
        """What brokers are asked about when a partition has another leader than then."""
        return {
            Partition(topic.name, each.number): each.epoch
            for topic in self.topics
            for each in topic.partitions
            if each.epoch is not None
        }

    def without(self, partitions: Collection[Partition]) -> "Memory":
        """After a person has chosen for these: the next look is their first."""
        topics = (
            replace(
                topic,
                partitions=tuple(each for each in topic.partitions if Partition(topic.name, each.number) not in partitions),
            )
            for topic in self.topics
        )
        return Memory(tuple(topic for topic in topics if topic.partitions))


@dataclass(frozen=True, slots=True)
class Source:
    """One source of one query: two of them may read the same topic, and be at different places in it."""

    location: str
    """Of the query's checkpoint, as Spark spells it."""
    number: int
    """As in `offsets/N`, whose lines are the sources in this order."""
    memory: Memory


@dataclass(frozen=True, slots=True)
class Kept:
    """All that is remembered for a job."""

    sources: tuple[Source, ...] = ()

    def memory(self, location: str, number: int) -> Memory:
        return next((each.memory for each in self.sources if (each.location, each.number) == (location, number)), Memory())

    def with_another(self, location: str, number: int, memory: Memory) -> "Kept":
        others = tuple(each for each in self.sources if (each.location, each.number) != (location, number))
        return Kept((*others, Source(location, number, memory)))

    def encoded(self) -> bytes:
        return codec.encode(self)


def kept_in(data: bytes | None) -> tuple[Kept, str]:
    """What was kept; and a sentence if there is something that cannot be read. That counts as nothing: the next look is the
    first, and says what it cannot know.
    """
    try:
        return (codec.decode(Kept, data, where="kafka.json") if data is not None else Kept()), ""
    except (codec.Garbage, codec.NewerSchema) as error:
        return Kept(), str(error)


def remember(before: Memory, saved: Saved, sighted: Sighted, findings: Iterable[Finding]) -> Memory:
    """What is in order now takes the place of what was; of everything else nothing is forgotten, least of all its cause."""
    wrong = {(finding.topic, finding.partition) for finding in findings if finding.weight > Weight.NOTE}
    topics = {topic.name: topic for topic in before.topics}
    for name in sorted({partition.topic for partition in saved}):
        seen = sighted.topics.get(name)
        if seen is not None and seen.exists and not seen.problem and (name, None) not in wrong:
            known = {each.number: each for each in topics[name].partitions} if name in topics else {}
            known |= _in_order(name, saved, seen, wrong)
            if known:
                partitions = tuple(known[number] for number in sorted(known))
                topics[name] = RememberedTopic(name, _id(topics.get(name), seen), partitions, len(seen.partitions))
    return Memory(tuple(topics[name] for name in sorted(topics)))


def _id(before: RememberedTopic | None, seen: SightedTopic) -> str | None:
    """One that was known stays: whoever accepts another topic under its name forgets this one first."""
    return before.id if before is not None and before.id is not None else seen.id


def _in_order(
    topic: str, saved: Saved, seen: SightedTopic, wrong: Collection[tuple[str, int | None]]
) -> dict[int, RememberedPartition]:
    found: dict[int, RememberedPartition] = {}
    for number, partition in seen.partitions.items():
        position = saved.get(Partition(topic, number))
        if position is not None and (topic, number) not in wrong and partition.latest is not None:
            found[number] = _remembered(number, position, partition, partition.latest)
    return found


def _remembered(number: int, position: Position, partition: SightedPartition, latest: int) -> RememberedPartition:
    return RememberedPartition(number, position.until, latest, partition.epoch)
