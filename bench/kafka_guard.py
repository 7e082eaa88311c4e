"""How long the offset guard takes for 1,000 partitions, on three real brokers that share this machine.

One check is everything: asking with new clients, judging, and what would be remembered. First with the leaders that are
remembered; then after every broker was killed and started once, so that each partition has to be asked for its history.
"""

import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from bench.spark import figure
from holdfast.kafka import Client, Kind, Memory, Partition, Position, client_of, judge, remember
from holdfast.kafka.broker import look
from holdfast.kafka.check.checkpoint_offsets import Saved
from tests.harness.kafka.brokers import Brokers, kraft_brokers
from tests.harness.kafka.topic import SETTLE_S, Topic
from tests.harness.waiting import eventually

PARTITIONS = 1000
ROUNDS = 7
TARGET_S = 2.0


def main() -> None:
    before_mb = _memory_mb()
    with tempfile.TemporaryDirectory() as directory, kraft_brokers(Path(directory)) as brokers:
        topic = Topic(brokers)
        topic.create(*([1 + number % 3] for number in range(PARTITIONS)))
        client = client_of({"kafka.bootstrap.servers": brokers.bootstrap})
        saved = {Partition(topic.name, number): Position(0, 0) for number in range(PARTITIONS)}
        memory, _ = _check(client, topic.name, saved, Memory())
        same = _measured(partial(_check, client, topic.name, saved, memory))
        _restart_each(brokers, topic)
        moved = _measured(partial(_check, client, topic.name, saved, memory))
    print(f"  {PARTITIONS:,} partitions on {len(brokers.brokers)} brokers, median of {ROUNDS} checks (best to worst)")
    print(f"    no leader has changed    {figure(same)} s")
    print(f"    every leader has         {figure(moved)} s, with the history of each partition")
    print(f"  {'under' if max(median(same), median(moved)) < TARGET_S else 'NOT under'} the target of {TARGET_S:g} s")
    print(f"  memory of the process that asks: {before_mb:.0f} MB before, {_memory_mb():.0f} MB at most")


def _check(client: Client, topic: str, saved: Saved, memory: Memory) -> tuple[Memory, float]:
    began = time.monotonic()
    sighted = look(client, [topic], memory.epochs())
    findings = judge(saved, memory, sighted)
    after = remember(memory, saved, sighted, findings)
    seconds = time.monotonic() - began
    assert {finding.kind for finding in findings} <= {Kind.MOVED}, findings[0]
    return after, seconds


def _measured(check: Callable[[], tuple[Memory, float]]) -> list[float]:
    return [check()[1] for _ in range(ROUNDS)]


def _restart_each(brokers: Brokers, topic: Topic) -> None:
    for broker in brokers.brokers:
        broker.kill()
        brokers.mend()
        eventually(lambda: _led(topic), SETTLE_S, "every partition is led")


def _led(topic: Topic) -> bool:
    seen = topic.sight().topics.get(topic.name)
    return seen is not None and all(partition.latest is not None for partition in seen.partitions.values())


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
