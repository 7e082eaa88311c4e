"""Traffic through Kafka for minutes, while brokers are killed, paused and restarted and partitions change hands at random.

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
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.harness.cluster.command import started
from tests.harness.cluster.jobs import Jobs, until
from tests.harness.cluster.process_witness import sweep
from tests.harness.kafka.brokers import Brokers, kraft_brokers
from tests.harness.kafka.guarded_job import Guarded
from tests.harness.kafka.topic import Topic

pytestmark = [pytest.mark.live, pytest.mark.soak, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(3600)]

LASTS_S = float(os.environ.get("HOLDFAST_SOAK_S", "600"))
FAULTS = int(os.environ.get("HOLDFAST_SOAK_FAULTS", "20"))
SEED = int(os.environ.get("HOLDFAST_SOAK_SEED", str(random.randrange(10**6))))
PARTITIONS = 4
EVERY_S = 0.05
DRAIN_S = 300.0


class Traffic:
    """Numbered records, as fast as brokers take them; only what was acknowledged by all in sync counts as written."""

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
        # Idempotent: what the client sends again after a silence is there once.
        settings = {"bootstrap.servers": self._topic.bootstrap, "enable.idempotence": True, "log_level": 0}
        producer = Producer({**settings, "message.timeout.ms": 300000})
        number = 0
        while not self._stop.wait(EVERY_S):
            for partition in range(PARTITIONS):
                producer.produce(self._topic.name, str(number).encode(), partition=partition, on_delivery=self._told)
                number += 1
            producer.poll(0)
        assert producer.flush(DRAIN_S) == 0, "everything is written or refused in the end"

    def _told(self, error: object, message: object) -> None:
        if error is None:
            self.written[message.value().decode()] += 1  # type: ignore[attr-defined]
        else:
            self.refused += 1


class Faults:
    """One at a time, and each of them over before the next: with two of three brokers everything can go on."""

    def __init__(self, brokers: Brokers, topic: Topic, chance: random.Random) -> None:
        self._brokers = brokers
        self._topic = topic
        self._chance = chance
        self.done: Counter[str] = Counter()

    def strike(self) -> None:
        fault: Callable[[], None] = self._chance.choice([self.kill, self.pause, self.restart, self.move])
        fault()
        self.done[fault.__name__] += 1

    def kill(self) -> None:
        broker = self._chance.choice(self._brokers.brokers)
        broker.kill()
        time.sleep(self._chance.uniform(1, 8))  # for how long it is dead is the fault itself
        self._brokers.restart(broker.id)

    def pause(self) -> None:
        broker = self._chance.choice(self._brokers.brokers)
        broker.pause()
        time.sleep(self._chance.uniform(1, 15))
        broker.resume()

    def restart(self) -> None:
        broker = self._chance.choice(self._brokers.brokers)
        broker.stop()
        self._brokers.restart(broker.id)

    def move(self) -> None:
        """To the replica that is named first, wherever it is not there: after a fault, most of them."""
        from confluent_kafka import ElectionType, KafkaException, TopicPartition

        partitions = [TopicPartition(self._topic.name, number) for number in range(PARTITIONS)]
        admin = AdminClient({"bootstrap.servers": self._topic.bootstrap, "log_level": 0})
        try:
            admin.elect_leaders(ElectionType.PREFERRED, partitions).result(10)
        except (KafkaException, TimeoutError):
            return  # no election was needed, or none was possible


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    try:
        with (
            started(tmp_path / "c", "--nodes", "1") as up,
            Jobs(tmp_path, tmp_path / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield jobs
    finally:
        sweep(tmp_path)


def test_sink_keys_equal_source_keys_whatever_brokers_do(jobs: Jobs, tmp_path: Path, report: Callable[[str], None]) -> None:
    chance = random.Random(SEED)
    with kraft_brokers(tmp_path / "kraft") as brokers:
        topic = Topic(brokers, **{"min.insync.replicas": "2"})
        topic.create([1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2])
        job = Guarded(jobs, topic, "soak")
        faults = Faults(brokers, topic, chance)
        with Traffic(topic) as traffic:
            job.until_written(100)
            began = time.monotonic()
            for number in range(FAULTS):
                faults.strike()
                due = began + LASTS_S * (number + 1) / FAULTS
                until(lambda due=due: time.monotonic() >= due, LASTS_S, "the next fault is due", every_s=0.5)
        brokers.mend()
        total = sum(traffic.written.values())
        until(lambda: sum(job.lines().values()) >= total, DRAIN_S, f"all {total} records are in the sink", every_s=1)
        view = job.view
        job.stop()
        report(
            f"soak: seed {SEED}, {sum(faults.done.values())} faults {dict(faults.done)}, {total} records "
            f"({traffic.refused} refused), {view['attempt']} attempts"
        )
        written = job.values()
        assert set(written.values()) == {1}, "nothing twice"
        missing, more = traffic.written - written, written - traffic.written
        assert not missing, f"{len(missing)} records are missing"
        # What a producer gave up on may be there all the same; nothing else may.
        assert len(more) <= traffic.refused
        assert view["phase"] == "RUNNING", view
        job.end()
