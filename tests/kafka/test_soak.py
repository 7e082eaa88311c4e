"""Soak test: traffic through Kafka while brokers are killed, paused and restarted and leaders change at random.

make soak                                                    ten minutes, twenty faults
HOLDFAST_SOAK_S=120 HOLDFAST_SOAK_FAULTS=4 make soak         shorter
HOLDFAST_SOAK_SEED=17 make soak                              the same faults again
"""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.harness.cluster.command import start_cluster
from tests.harness.cluster.jobs import ClusterJobs, poll_until
from tests.harness.cluster.process_observer import kill_leftovers
from tests.harness.kafka.brokers import Brokers, kraft_brokers
from tests.harness.kafka.kafka_job import KafkaJob
from tests.harness.kafka.topic import Topic

pytestmark = [pytest.mark.live, pytest.mark.soak, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(3600)]

DURATION_S = float(os.environ.get("HOLDFAST_SOAK_S", "600"))
FAULTS = int(os.environ.get("HOLDFAST_SOAK_FAULTS", "20"))
SEED = int(os.environ.get("HOLDFAST_SOAK_SEED", str(random.randrange(10**6))))
PARTITIONS = 4
INTERVAL_S = 0.05
DRAIN_S = 300.0


def _is_due(due_at: float) -> bool:
    return time.monotonic() >= due_at


class Traffic:
    """Writer of numbered records. Only records that all in-sync replicas acknowledge count as written."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.written: Counter[str] = Counter()
        self.refused = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="traffic")

    def __enter__(self) -> "Traffic":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        # Idempotent: a record that the client sends again is written once.
        settings = {"bootstrap.servers": self._topic.bootstrap, "enable.idempotence": True, "log_level": 0}
        producer = Producer({**settings, "message.timeout.ms": 300000})
        number = 0
        while not self._stop.wait(INTERVAL_S):
            for partition in range(PARTITIONS):
                producer.produce(self._topic.name, str(number).encode(), partition=partition, on_delivery=self._on_delivery)
                number += 1
            producer.poll(0)
        assert producer.flush(DRAIN_S) == 0, "everything is written or refused in the end"

    def _on_delivery(self, error: object, message: Any) -> None:
        if error is None:
            self.written[message.value().decode()] += 1
        else:
            self.refused += 1


class Faults:
    """Random faults, one at a time: two of three brokers always run."""

    def __init__(self, brokers: Brokers, topic: Topic, rng: random.Random) -> None:
        self._brokers = brokers
        self._topic = topic
        self._rng = rng
        self.done: Counter[str] = Counter()

    def inject_random(self) -> None:
        fault: Callable[[], None] = self._rng.choice([self.kill, self.pause, self.restart, self.move])
        fault()
        self.done[fault.__name__] += 1

    def kill(self) -> None:
        broker = self._rng.choice(self._brokers.brokers)
        broker.kill()
        time.sleep(self._rng.uniform(1, 8))  # the downtime is part of the fault
        self._brokers.restart(broker.id)

    def pause(self) -> None:
        broker = self._rng.choice(self._brokers.brokers)
        broker.pause()
        time.sleep(self._rng.uniform(1, 15))
        broker.resume()

    def restart(self) -> None:
        broker = self._rng.choice(self._brokers.brokers)
        broker.stop()
        self._brokers.restart(broker.id)

    def move(self) -> None:
        """Move leadership back to the preferred replicas, which most partitions lose after a fault."""
        from confluent_kafka import ElectionType, KafkaException, TopicPartition

        partitions = [TopicPartition(self._topic.name, number) for number in range(PARTITIONS)]
        admin = AdminClient({"bootstrap.servers": self._topic.bootstrap, "log_level": 0})
        try:
            admin.elect_leaders(ElectionType.PREFERRED, partitions).result(10)
        except (KafkaException, TimeoutError):
            return  # no election was needed, or none was possible


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[ClusterJobs]:
    try:
        with (
            start_cluster(tmp_path / "c", "--nodes", "1") as cluster,
            ClusterJobs(tmp_path, tmp_path / "c" / "storage", "--dir", str(cluster.directory)) as jobs,
        ):
            yield jobs
    finally:
        kill_leftovers(tmp_path)


def test_sink_has_every_record_exactly_once_under_broker_faults(
    jobs: ClusterJobs, tmp_path: Path, report: Callable[[str], None]
) -> None:
    rng = random.Random(SEED)
    with kraft_brokers(tmp_path / "kraft") as brokers:
        topic = Topic(brokers, **{"min.insync.replicas": "2"})
        topic.create([1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2])
        job = KafkaJob(jobs, topic, "soak")
        faults = Faults(brokers, topic, rng)
        with Traffic(topic) as traffic:
            job.wait_for_records(100)
            began = time.monotonic()
            for number in range(FAULTS):
                faults.inject_random()
                due = began + DURATION_S * (number + 1) / FAULTS
                poll_until(partial(_is_due, due), DURATION_S, "the next fault is due", interval_s=0.5)
        brokers.restore()
        total = sum(traffic.written.values())
        poll_until(
            lambda: sum(job.output_lines().values()) >= total, DRAIN_S, f"all {total} records are in the sink", interval_s=1
        )
        view = job.view
        job.stop()
        report(
            f"soak: seed {SEED}, {sum(faults.done.values())} faults {dict(faults.done)}, {total} records "
            f"({traffic.refused} refused), {view['attempt']} attempts"
        )
        written = job.output_values()
        assert set(written.values()) == {1}, "no record twice"
        missing, more = traffic.written - written, written - traffic.written
        assert not missing, f"{len(missing)} records are missing"
        # A record that the producer gave up on may still have been written.
        assert len(more) <= traffic.refused
        assert view["phase"] == "RUNNING", view
        job.cancel()
