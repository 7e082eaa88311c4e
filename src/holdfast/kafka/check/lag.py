"""How far a job is behind its topics. Pure."""

from collections.abc import Mapping

from holdfast.kafka.check.broker_snapshot import Sighted
from holdfast.kafka.check.checkpoint_offsets import Saved

PARTITIONS_MAX = 1000

Lag = dict[str, dict[str, int]]
"""By topic and partition, written as Spark writes offsets."""


def lag(saved: Saved, sighted: Sighted) -> Lag:
    """Offsets from the next one to be read to the end of the log, of those that a broker has told of; the largest if many."""
    behind = {
        partition: max(0, seen.latest - position.next)
        for partition, position in saved.items()
        if (topic := sighted.topics.get(partition.topic)) is not None
        and (seen := topic.partitions.get(partition.number)) is not None
        and seen.latest is not None
    }
    kept = sorted(behind, key=lambda partition: (-behind[partition], partition))[:PARTITIONS_MAX]
    found: Lag = {}
    for partition in sorted(kept):
        found.setdefault(partition.topic, {})[str(partition.number)] = behind[partition]
    return found


def total(lag: Mapping[str, Mapping[str, int]]) -> int:
    return sum(sum(partitions.values()) for partitions in lag.values())
