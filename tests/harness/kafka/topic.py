"""A topic of a test, and the job that reads it: every record is unlike every other, so that what is lost can be counted."""

import itertools
import secrets
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from holdfast.kafka import Finding, Memory, Partition, Position, Weight, client_of, judge, remember, verdict
from holdfast.kafka.broker import look
from holdfast.kafka.check.broker_snapshot import Sighted, SightedPartition
from tests.harness.kafka.broker_process import Broker
from tests.harness.kafka.brokers import Brokers
from tests.harness.waiting import eventually

ASK_S = 5.0
SETTLE_S = 60.0


class Topic:
    def __init__(self, brokers: Brokers, **config: str) -> None:
        self.name = f"t-{secrets.token_hex(4)}"
        self.bootstrap = brokers.bootstrap
        self._brokers = brokers
        self._config = config
        self._numbers = itertools.count()

    def create(self, *replicas: list[int]) -> None:
        """A partition for each list of brokers, the first of which leads it."""
        topic = NewTopic(self.name, len(replicas), replica_assignment=list(replicas), config=self._config)

        def created() -> bool:
            try:
                admin = self._admin()
                admin.create_topics([topic])[self.name].result(ASK_S)
            except KafkaException as error:
                # One that is being deleted is in the way for a moment.
                assert error.args[0].code() in (KafkaError.TOPIC_ALREADY_EXISTS, KafkaError._TIMED_OUT), error
                return False
            return True

        eventually(created, SETTLE_S, f"{self.name} is created")
        self._until_known(len(replicas))

    def delete(self) -> None:
        admin = self._admin()
        admin.delete_topics([self.name])[self.name].result(ASK_S)
        self._until_known(0)

    def add_partitions(self, total: int) -> None:
        admin = self._admin()
        admin.create_partitions([NewPartitions(self.name, total)])[self.name].result(ASK_S)
        self._until_known(total)

    def delete_records(self, before: int, number: int = 0) -> None:
        admin = self._admin()
        for future in admin.delete_records([TopicPartition(self.name, number, before)]).values():
            future.result(ASK_S)

    def write(self, count: int, number: int = 0, *, to: str = "") -> None:
        """Each acknowledged by every replica that is in sync."""
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
        """All that are there now, by their offsets."""
        seen = self.partition(number)
        assert seen.earliest is not None and seen.latest is not None
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "t", "auto.offset.reset": "error", "enable.auto.commit": False}
        )
        found: dict[int, bytes] = {}

        def read() -> bool:
            for message in consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                found[message.offset()] = message.value()
            return len(found) >= seen.latest - seen.earliest

        try:
            consumer.assign([TopicPartition(self.name, number, seen.earliest)])
            eventually(read, SETTLE_S, f"{seen} is read")
        finally:
            consumer.close()
        return found

    def sight(self, epochs: Mapping[Partition, int] | None = None) -> Sighted:
        return look(client_of({"kafka.bootstrap.servers": self.bootstrap}), [self.name], epochs or {})

    def partition(self, number: int = 0) -> SightedPartition:
        """As soon as its leader answers."""

        def answered() -> SightedPartition | None:
            topic = self.sight().topics.get(self.name)
            seen = topic.partitions.get(number) if topic is not None else None
            return seen if seen is not None and seen.latest is not None else None

        return eventually(answered, SETTLE_S, f"the leader of {self.name}-{number} answers")

    def in_sync(self, number: int = 0) -> set[int]:
        admin = self._admin()
        try:
            described = admin.describe_topics(TopicCollection([self.name]), request_timeout=ASK_S)[self.name].result()
        except KafkaException:
            return set()
        return {broker.id for broker in described.partitions[number].isr}

    def leader(self, number: int = 0) -> int | None:
        """The broker that leads and says so itself."""
        topic = self.sight().topics.get(self.name)
        seen = topic.partitions.get(number) if topic is not None else None
        return seen.leader if seen is not None and seen.latest is not None else None

    def _leaders_told_by(self, broker: Broker) -> list[int] | None:
        """By a client that knows no other broker yet; it may learn of others while it asks. None without an answer."""
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        try:
            partitions = admin.list_topics(self.name, timeout=ASK_S).topics[self.name].partitions
        except KafkaException:
            return None
        return [partitions[number].leader for number in sorted(partitions)]

    def _until_known(self, count: int) -> None:
        """By each broker that runs: they learn it one after the other, and until then tell of what was."""
        for broker in self._brokers.brokers:
            if broker.running:
                eventually(partial(self._known_to, broker, count), SETTLE_S, f"broker {broker.id} knows {count} partitions")

        if count:
            eventually(self._answered_for, SETTLE_S, f"the leaders of {self.name} answer")

    def _answered_for(self) -> bool:
        """A leader that knows it is one may still have to open its log."""
        topic = self.sight().topics.get(self.name)
        return topic is not None and bool(topic.partitions) and all(p.latest is not None for p in topic.partitions.values())

    def _known_to(self, broker: Broker, count: int) -> bool:
        leaders = self._leaders_told_by(broker)
        return leaders is not None and len(leaders) == count and all(leader > 0 for leader in leaders)

    def _admin(self) -> AdminClient:
        """Whoever asks it something holds it until the answer is there: what it was asked ends with it."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})


class Job:
    """Reads partitions of a topic as Spark does, and is looked after by the guard."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.saved: dict[Partition, Position] = {}
        self.read: dict[Partition, dict[int, bytes]] = {}
        self.memory = Memory()
        self.sighted = Sighted()

    def read_up_to(self, until: int, number: int = 0) -> None:
        partition = Partition(self.topic.name, number)
        records = self.topic.records(number)
        self.read[partition] = {offset: value for offset, value in records.items() if offset < until}
        self.saved[partition] = Position(until, until)

    def plan_up_to(self, until: int, number: int = 0) -> None:
        """A batch that is begun and not committed."""
        partition = Partition(self.topic.name, number)
        self.saved[partition] = replace(self.saved[partition], until=until)

    def check(self) -> tuple[Finding, ...]:
        """One look of the guard: what is in order is remembered."""
        self.sighted = self.topic.sight(self.memory.epochs())
        findings = judge(self.saved, self.memory, self.sighted)
        self.memory = remember(self.memory, self.saved, self.sighted, findings)
        return findings

    def settled(self) -> tuple[Finding, ...]:
        """The first look in which nothing is found that may pass."""

        def found() -> list[tuple[Finding, ...]]:
            findings = self.check()
            return [] if verdict(findings) is Weight.WAIT else [findings]

        return eventually(found, SETTLE_S, "nothing that may pass")[0]

    def truth(self, number: int = 0) -> "Truth":
        partition = Partition(self.topic.name, number)
        return Truth(self.saved[partition].next, self.read[partition], self.topic.records(number))


class Truth:
    """Counted record by record."""

    def __init__(self, saved: int, read: Mapping[int, bytes], there: Mapping[int, bytes]) -> None:
        self._saved, self._read, self._there = saved, set(read.values()), there

    @property
    def vanished(self) -> int:
        return len(self._read - set(self._there.values()))

    def skipped_from(self, start: int) -> int:
        return sum(1 for offset, value in self._there.items() if offset < start and value not in self._read)

    def repeated_from(self, start: int) -> int:
        return sum(1 for offset, value in self._there.items() if offset >= start and value in self._read)
