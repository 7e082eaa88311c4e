"""Consumer lag of a job. Pure."""

from holdfast.kafka.check.broker_snapshot import BrokerSnapshot
from holdfast.kafka.check.checkpoint_offsets import SavedOffsets

PARTITIONS_MAX = 1000

Lag = dict[str, dict[str, int]]
"""Lag by topic and partition number, in the layout of Spark's offsets."""


def compute_lag(saved: SavedOffsets, snapshot: BrokerSnapshot) -> Lag:
    """Return the offsets between the next record and the end of the log, for each partition that a broker reported.

    Only the `PARTITIONS_MAX` partitions with the largest lag are included.
    """
    lags = {
        partition: max(0, current.latest - position.next_offset)
        for partition, position in saved.items()
        if (topic := snapshot.topics.get(partition.topic)) is not None
        and (current := topic.partitions.get(partition.number)) is not None
        and current.latest is not None
    }
    largest = sorted(lags, key=lambda partition: (-lags[partition], partition))[:PARTITIONS_MAX]
    by_topic: Lag = {}
    for partition in sorted(largest):
        by_topic.setdefault(partition.topic, {})[str(partition.number)] = lags[partition]
    return by_topic
