"""Last known healthy state of each topic, stored beside the checkpoint as `_holdfast/kafka.json`.

Spark's offsets are plain numbers: they name neither the id of the topic nor the leader epoch of the log. These records do.
`holdfast.storage` writes them atomically. Their field names are part of the file format.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from holdfast.checkpoint.metadata_files import KAFKA_LAST_KNOWN_FILE
from holdfast.kafka.check.broker_snapshot import BrokerSnapshot, TopicSnapshot
from holdfast.kafka.check.checkpoint_offsets import Partition, SavedOffsets
from holdfast.kafka.check.offset_finding import OffsetFinding, Severity
from holdfast.model import codec


@dataclass(frozen=True, slots=True)
class LastKnownPartition:
    number: int
    until: int
    """Offset after the last record that the job had read or planned to read."""
    latest: int
    """Offset after the last record of the log."""
    epoch: int | None
    """Leader epoch of that log."""


@dataclass(frozen=True, slots=True)
class LastKnownTopic:
    name: str
    id: str | None
    partitions: tuple[LastKnownPartition, ...]
    count: int = 0
    """Number of partitions of the topic, including those that the job has not read; 0 if unknown."""

    def partition(self, number: int) -> LastKnownPartition | None:
        return next((each for each in self.partitions if each.number == number), None)


@dataclass(frozen=True, slots=True)
class LastKnown:
    topics: tuple[LastKnownTopic, ...] = ()

    def topic(self, name: str) -> LastKnownTopic | None:
        return next((each for each in self.topics if each.name == name), None)

    def leader_epochs(self) -> dict[Partition, int]:
        """Return the leader epoch of each partition, for the OffsetForLeaderEpoch request after a leader change."""
        return {
            Partition(topic.name, each.number): each.epoch
            for topic in self.topics
            for each in topic.partitions
            if each.epoch is not None
        }

    def without_partitions(self, partitions: Collection[Partition]) -> "LastKnown":
        """Drop partitions for which an operator chose an offset: their next check counts as the first."""
        topics = (
            replace(
                topic,
                partitions=tuple(each for each in topic.partitions if Partition(topic.name, each.number) not in partitions),
            )
            for topic in self.topics
        )
        return LastKnown(tuple(topic for topic in topics if topic.partitions))


@dataclass(frozen=True, slots=True)
class LastKnownSource:
    """State for one source of one query: two sources may read the same topic at different positions."""

    location: str
    """Location of the query's checkpoint, as Spark spells it."""
    number: int
    """Index of the source in `offsets/N`."""
    memory: LastKnown
    name: str = ""
    """Name that the script gave the source. A source with a name keeps its state when its position changes."""

    def is_of(self, location: str, number: int, name: str) -> bool:
        return (self.location, self.name) == (location, name) and (bool(name) or self.number == number)


@dataclass(frozen=True, slots=True)
class JobLastKnown:
    """Content of `_holdfast/kafka.json`: the last known state for every source of a job."""

    sources: tuple[LastKnownSource, ...] = ()

    def last_known_of(self, location: str, number: int, name: str = "") -> LastKnown:
        return next((each.memory for each in self.sources if each.is_of(location, number, name)), LastKnown())

    def with_source(self, location: str, number: int, memory: LastKnown, name: str = "") -> "JobLastKnown":
        others = tuple(each for each in self.sources if not each.is_of(location, number, name))
        return JobLastKnown((*others, LastKnownSource(location, number, memory, name)))

    def encode(self) -> bytes:
        return codec.encode(self)


def decode_last_known(data: bytes | None) -> JobLastKnown:
    """Decode `kafka.json`. A missing or unreadable file counts as empty: the next check is then the first."""
    try:
        return codec.decode(JobLastKnown, data, where=KAFKA_LAST_KNOWN_FILE) if data is not None else JobLastKnown()
    except (codec.MalformedRecord, codec.NewerSchema):
        return JobLastKnown()


def update_last_known(
    before: LastKnown, saved: SavedOffsets, snapshot: BrokerSnapshot, findings: Iterable[OffsetFinding]
) -> LastKnown:
    """Record the current state of healthy partitions, and keep the previous record of all others."""
    affected = {(finding.topic, finding.partition) for finding in findings if finding.weight > Severity.NOTE}
    topics = {topic.name: topic for topic in before.topics}
    for name in sorted({partition.topic for partition in saved}):
        current = snapshot.topics.get(name)
        if current is not None and current.exists and not current.problem and (name, None) not in affected:
            partitions = {each.number: each for each in topics[name].partitions} if name in topics else {}
            partitions |= _healthy_partitions(name, saved, current, affected)
            if partitions:
                ordered = tuple(partitions[number] for number in sorted(partitions))
                topics[name] = LastKnownTopic(name, _topic_id(topics.get(name), current), ordered, len(current.partitions))
    return LastKnown(tuple(topics[name] for name in sorted(topics)))


def _topic_id(before: LastKnownTopic | None, current: TopicSnapshot) -> str | None:
    """Return the recorded id if there is one: only an operator's choice replaces it, by dropping the record."""
    return before.id if before is not None and before.id is not None else current.id


def _healthy_partitions(
    topic: str, saved: SavedOffsets, current: TopicSnapshot, affected: Collection[tuple[str, int | None]]
) -> dict[int, LastKnownPartition]:
    healthy: dict[int, LastKnownPartition] = {}
    for number, partition in current.partitions.items():
        position = saved.get(Partition(topic, number))
        if position is not None and (topic, number) not in affected and partition.latest is not None:
            healthy[number] = LastKnownPartition(number, position.planned_end, partition.latest, partition.epoch)
    return healthy
