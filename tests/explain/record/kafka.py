"""Two Kafka brokers that are registered in ZooKeeper. One of them is paused until its session has expired."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.zk.embedded import Ensemble
from tests.explain.record.zookeeper import USED_S, Situation, logs_of, three_servers
from tests.kafka.brokers import Brokers, zookeeper_brokers
from tests.kafka.topic import SETTLE_S, Topic
from tests.waiting import eventually

EVERY_S = 1.0


@contextlib.contextmanager
def brokers_on(ensemble: Ensemble, directory: Path) -> Iterator[Brokers]:
    """Ended in order, so that their sessions are closed and do not run out."""
    with zookeeper_brokers(directory / "kafka", ensemble.connect) as brokers:
        yield brokers
        for broker in brokers.brokers:
            broker.stop()


def healthy(directory: Path) -> Mapping[str, Path]:
    with three_servers(directory) as ensemble, brokers_on(ensemble, directory) as brokers:
        _topic(brokers, used_s=USED_S)
        return _logs(ensemble, brokers)


def session_lost(directory: Path) -> Mapping[str, Path]:
    with three_servers(directory) as ensemble, brokers_on(ensemble, directory) as brokers:
        topic = _topic(brokers, used_s=5)
        brokers[1].pause()
        eventually(lambda: topic.leader() == 2, SETTLE_S, "broker 2 leads")
        topic.write(50)
        brokers[1].resume()
        eventually(lambda: b"has expired" in brokers[1].log.read_bytes(), SETTLE_S, "broker 1 hears of it")
        eventually(lambda: topic.in_sync() == {1, 2}, SETTLE_S, "broker 1 follows")
        topic.write(50)
        return _logs(ensemble, brokers)


def _topic(brokers: Brokers, *, used_s: float) -> Topic:
    topic = Topic(brokers)
    topic.create([1, 2])
    eventually(lambda: topic.in_sync() == {1, 2}, SETTLE_S, "both are in sync")
    until = time.monotonic() + used_s
    while time.monotonic() < until:
        topic.write(10)
        time.sleep(EVERY_S)  # so often something is written
    return topic


def _logs(ensemble: Ensemble, brokers: Brokers) -> dict[str, Path]:
    return {**logs_of(ensemble), **{f"kafka-{broker.id}": broker.log for broker in brokers.brokers}}


SITUATIONS: dict[str, Situation] = {"kafka-healthy": healthy, "kafka-session-lost": session_lost}
