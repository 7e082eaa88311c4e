"""Time of one offset check for 1,000 partitions, on three real brokers that share this machine.

One check connects with new clients, fetches the offsets, compares them and updates the last known state. The first series runs
while all leaders are the last known ones. The second runs after every broker was killed and restarted once, so the check
fetches the epoch history of each partition.
"""

import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from bench.spark import format_median
from holdfast.kafka.broker import fetch_snapshot
from holdfast.kafka.check.checkpoint_offsets import Partition, PartitionPosition, SavedOffsets
from holdfast.kafka.check.client_options import ClientOptions, translate_options
from holdfast.kafka.check.last_known import LastKnown, update_last_known
from holdfast.kafka.check.offset_check import check_offsets
from holdfast.kafka.check.offset_finding import FindingKind
from tests.harness.kafka.brokers import Brokers, kraft_brokers
from tests.harness.kafka.topic import SETTLE_S, Topic
from tests.harness.waiting import wait_until

PARTITIONS = 1000
ROUNDS = 7
TARGET_S = 2.0


def main() -> None:
    before_mb = _memory_mb()
    with tempfile.TemporaryDirectory() as directory, kraft_brokers(Path(directory)) as brokers:
        topic = Topic(brokers)
        topic.create(*([1 + number % 3] for number in range(PARTITIONS)))
        client = translate_options({"kafka.bootstrap.servers": brokers.bootstrap})
        saved = {Partition(topic.name, number): PartitionPosition(0, 0) for number in range(PARTITIONS)}
        known, _ = _check(client, topic.name, saved, LastKnown())
        same = _measure(partial(_check, client, topic.name, saved, known))
        _restart_each(brokers, topic)
        moved = _measure(partial(_check, client, topic.name, saved, known))
    print(f"  {PARTITIONS:,} partitions on {len(brokers.brokers)} brokers, median of {ROUNDS} checks (lowest to highest)")
    print(f"    no leader changed        {format_median(same)} s")
    print(f"    every leader changed     {format_median(moved)} s, with the epoch history of each partition")
    print(f"  {'under' if max(median(same), median(moved)) < TARGET_S else 'NOT under'} the target of {TARGET_S:g} s")
    print(f"  memory of the checking process: {before_mb:.0f} MB before, {_memory_mb():.0f} MB at most")


def _check(client: ClientOptions, topic: str, saved: SavedOffsets, known: LastKnown) -> tuple[LastKnown, float]:
    started = time.monotonic()
    snapshot = fetch_snapshot(client, [topic], known.leader_epochs())
    findings = check_offsets(saved, known, snapshot)
    after = update_last_known(known, saved, snapshot, findings)
    seconds = time.monotonic() - started
    assert {finding.kind for finding in findings} <= {FindingKind.NEW_LEADER}, findings[0]
    return after, seconds


def _measure(check: Callable[[], tuple[LastKnown, float]]) -> list[float]:
    return [check()[1] for _ in range(ROUNDS)]


def _restart_each(brokers: Brokers, topic: Topic) -> None:
    for broker in brokers.brokers:
        broker.kill()
        brokers.restore()
        wait_until(lambda: _has_leaders(topic), SETTLE_S, "every partition has a leader")


def _has_leaders(topic: Topic) -> bool:
    found = topic.snapshot().topics.get(topic.name)
    return found is not None and all(partition.latest is not None for partition in found.partitions.values())


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
