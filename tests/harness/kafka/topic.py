"""Test topic with unique records, and a reader whose offsets are checked: lost records can be counted exactly."""

import itertools
import secrets
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from holdfast.kafka.broker import fetch_snapshot
from holdfast.kafka.check.broker_snapshot import BrokerSnapshot, PartitionSnapshot
from holdfast.kafka.check.checkpoint_offsets import Partition, PartitionPosition
from holdfast.kafka.check.client_options import translate_options
from holdfast.kafka.check.last_known import LastKnown, update_last_known
from holdfast.kafka.check.offset_check import check_offsets
from holdfast.kafka.check.offset_finding import OffsetFinding, Severity
from tests.harness.kafka.broker_process import Broker
from tests.harness.kafka.brokers import Brokers
from tests.harness.kafka.severity import worst_severity
from tests.harness.waiting import wait_until

REQUEST_TIMEOUT_S = 5.0
SETTLE_S = 60.0


class Topic:
    def __init__(self, brokers: Brokers, **config: str) -> None:
        self.name = f"t-{secrets.token_hex(4)}"
        self.bootstrap = brokers.bootstrap
        self._brokers = brokers
        self._config = config
        self._numbers = itertools.count()

    def create(self, *replicas: list[int]) -> None:
        """Create one partition for each list of replicas. The first replica of a list is its leader."""
        topic = NewTopic(self.name, len(replicas), replica_assignment=list(replicas), config=self._config)

        def created() -> bool:
            try:
                admin = self._admin()
                admin.create_topics([topic])[self.name].result(REQUEST_TIMEOUT_S)
            except KafkaException as error:
                # A topic of the same name that is still being deleted exists for a moment.
                assert error.args[0].code() in (KafkaError.TOPIC_ALREADY_EXISTS, KafkaError._TIMED_OUT), error
                return False
            return True

        wait_until(created, SETTLE_S, f"{self.name} is created")
        self._wait_until_known(len(replicas))

    def delete(self) -> None:
        admin = self._admin()
        admin.delete_topics([self.name])[self.name].result(REQUEST_TIMEOUT_S)
        self._wait_until_known(0)

    def add_partitions(self, total: int) -> None:
        admin = self._admin()
        admin.create_partitions([NewPartitions(self.name, total)])[self.name].result(REQUEST_TIMEOUT_S)
        self._wait_until_known(total)

    def delete_records(self, before: int, number: int = 0) -> None:
        admin = self._admin()
        for future in admin.delete_records([TopicPartition(self.name, number, before)]).values():
            future.result(REQUEST_TIMEOUT_S)

    def write(self, count: int, number: int = 0, *, to: str = "") -> None:
        """Write records that all in-sync replicas acknowledge."""
        producer = Producer(
            {"bootstrap.servers": to or self.bootstrap, "acks": "all", "log_level": 0, "message.timeout.ms": 30000}
        )
        failed: list[object] = []
        for _ in range(count):
            value = str(next(self._numbers)).encode()
            producer.produce(
                self.name, value, partition=number, on_delivery=lambda error, _: failed.append(error) if error else None
            )
        assert producer.flush(SETTLE_S) == 0 and not failed, failed[:3]

    def records(self, number: int = 0) -> dict[int, bytes]:
        """Return the records of a partition by offset."""
        current = self.partition(number)
        earliest, latest = current.earliest, current.latest
        assert earliest is not None and latest is not None
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "t", "auto.offset.reset": "error", "enable.auto.commit": False}
        )
        records: dict[int, bytes] = {}

        def all_read() -> bool:
            for message in consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                records[message.offset()] = message.value()
            return len(records) >= latest - earliest

        try:
            consumer.assign([TopicPartition(self.name, number, earliest)])
            wait_until(all_read, SETTLE_S, f"{current} is read")
        finally:
            consumer.close()
        return records

    def snapshot(self, epochs: Mapping[Partition, int] | None = None) -> BrokerSnapshot:
        return fetch_snapshot(translate_options({"kafka.bootstrap.servers": self.bootstrap}), [self.name], epochs or {})

    def partition(self, number: int = 0) -> PartitionSnapshot:
        """Return the state of a partition as soon as its leader answers."""

        def answered() -> PartitionSnapshot | None:
            topic = self.snapshot().topics.get(self.name)
            current = topic.partitions.get(number) if topic is not None else None
            return current if current is not None and current.latest is not None else None

        return wait_until(answered, SETTLE_S, f"the leader of {self.name}-{number} answers")

    def in_sync_replicas(self, number: int = 0) -> set[int]:
        admin = self._admin()
        try:
            described = admin.describe_topics(TopicCollection([self.name]), request_timeout=REQUEST_TIMEOUT_S)[
                self.name
            ].result()
        except KafkaException:
            return set()
        return {broker.id for broker in described.partitions[number].isr}

    def leader(self, number: int = 0) -> int | None:
        """Return the leader if it answers as leader itself, or None."""
        topic = self.snapshot().topics.get(self.name)
        current = topic.partitions.get(number) if topic is not None else None
        return current.leader if current is not None and current.latest is not None else None

    def _leaders_known_to(self, broker: Broker) -> list[int] | None:
        """Return the leaders that this broker reports, or None without an answer. Uses a new client for each call."""
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        try:
            partitions = admin.list_topics(self.name, timeout=REQUEST_TIMEOUT_S).topics[self.name].partitions
        except KafkaException:
            return None
        return [partitions[number].leader for number in sorted(partitions)]

    def _wait_until_known(self, count: int) -> None:
        """Wait until every running broker knows this number of partitions. Brokers learn of a change one after another."""
        for broker in self._brokers.brokers:
            if broker.running:
                wait_until(
                    partial(self._has_partitions, broker, count), SETTLE_S, f"broker {broker.id} knows {count} partitions"
                )

        if count:
            wait_until(self._leaders_answer, SETTLE_S, f"the leaders of {self.name} answer")

    def _leaders_answer(self) -> bool:
        """Return True if all leaders answer. A new leader may first have to open its log."""
        topic = self.snapshot().topics.get(self.name)
        return topic is not None and bool(topic.partitions) and all(p.latest is not None for p in topic.partitions.values())

    def _has_partitions(self, broker: Broker, count: int) -> bool:
        leaders = self._leaders_known_to(broker)
        return leaders is not None and len(leaders) == count and all(leader > 0 for leader in leaders)

    def _admin(self) -> AdminClient:
        """Return a new client. The caller must keep it until its requests are answered: they end with the client."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})


class CheckedReader:
    """Reader of a topic whose positions are checked like those of a Spark job."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.saved: dict[Partition, PartitionPosition] = {}
        self.read: dict[Partition, dict[int, bytes]] = {}
        self.last_known = LastKnown()

    def read_up_to(self, until: int, number: int = 0) -> None:
        partition = Partition(self.topic.name, number)
        records = self.topic.records(number)
        self.read[partition] = {offset: value for offset, value in records.items() if offset < until}
        self.saved[partition] = PartitionPosition(until, until)

    def plan_up_to(self, until: int, number: int = 0) -> None:
        """Plan a batch that is not committed."""
        partition = Partition(self.topic.name, number)
        self.saved[partition] = replace(self.saved[partition], planned_end=until)

    def check(self) -> tuple[OffsetFinding, ...]:
        """Run one offset check and update the last known state."""
        snapshot = self.topic.snapshot(self.last_known.leader_epochs())
        findings = check_offsets(self.saved, self.last_known, snapshot)
        self.last_known = update_last_known(self.last_known, self.saved, snapshot, findings)
        return findings

    def wait_until_settled(self) -> tuple[OffsetFinding, ...]:
        """Return the findings of the first check without a finding of severity WAIT."""

        def settled_findings() -> list[tuple[OffsetFinding, ...]]:
            findings = self.check()
            return [] if worst_severity(findings) is Severity.WAIT else [findings]

        return wait_until(settled_findings, SETTLE_S, "no finding of severity WAIT")[0]

    def actual_counts(self, number: int = 0) -> "ActualCounts":
        partition = Partition(self.topic.name, number)
        return ActualCounts(self.read[partition], self.topic.records(number))


class ActualCounts:
    """Exact counts, from the records that were read and the records in the log."""

    def __init__(self, read: Mapping[int, bytes], present: Mapping[int, bytes]) -> None:
        self._read, self._present = set(read.values()), present

    @property
    def vanished(self) -> int:
        return len(self._read - set(self._present.values()))

    def skipped_from(self, start: int) -> int:
        return sum(1 for offset, value in self._present.items() if offset < start and value not in self._read)

    def repeated_from(self, start: int) -> int:
        return sum(1 for offset, value in self._present.items() if offset >= start and value in self._read)
