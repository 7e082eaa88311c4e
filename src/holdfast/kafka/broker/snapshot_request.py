"""Snapshot of topics and partitions, requested from the brokers. Blocks.

Each snapshot uses new clients, because cached metadata misleads a client when brokers fail: an admin client of librdkafka 2.16
whose controller was killed found no other controller within 30 s, while a new client finds one at once.

A snapshot costs one request that describes the topics, and two requests to each leader, for the earliest and for the latest
offsets, whatever the number of partitions. Only partitions whose leader epoch has changed cost one further request each, all
sent at once: OffsetForLeaderEpoch. librdkafka has no call for it, but a consumer sends it after a seek with an epoch (KIP-320).
If the sought offset is beyond every log, the answer is in the error message. `tests/kafka/test_broker.py` pins its wording.
"""

import logging
import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from typing import Any

from holdfast.errors import Refused
from holdfast.kafka.check.broker_snapshot import BrokerSnapshot, EpochEndOffset, PartitionSnapshot, TopicSnapshot
from holdfast.kafka.check.checkpoint_offsets import Partition
from holdfast.kafka.check.client_options import ClientOptions

try:
    from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec
except ImportError as error:
    raise Refused('the offset check needs confluent-kafka: install it with: pip install "holdfast[kafka]"') from error

SNAPSHOT_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 3.0
"""Timeout of one request. A slower broker counts as unreachable."""
RETRY_S = 0.01
BEYOND_EVERY_LOG = 2**62
_EPOCH_CONSUMER = {
    "group.id": "holdfast-guard",  # required by librdkafka, never joined
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 10,  # a pending fetch at the end of the log delays the epoch request
}
_EPOCH_END = re.compile(r"broker end offset is (-?\d+) \(offset leader epoch (-?\d+)\)")

_discarding_logger = logging.getLogger("holdfast.kafka.client")
_discarding_logger.addHandler(logging.NullHandler())
_discarding_logger.propagate = False


def fetch_snapshot(
    client: ClientOptions, topics: Collection[str], epochs: Mapping[Partition, int], *, timeout_s: float = SNAPSHOT_TIMEOUT_S
) -> BrokerSnapshot:
    """Return the state of all partitions of these topics. A missing answer becomes a `problem` that names its cause.

    `epochs` are the last known leader epochs. Raise Refused if librdkafka rejects the settings.
    """
    return SnapshotRequest(client, timeout_s).fetch(topics, epochs)


class _LastConnectionError:
    """Last connection error that librdkafka reported. It explains a request that only timed out."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # it follows the real cause and names none
            self.text = error.str()


class SnapshotRequest:
    """Single-use request for one snapshot.

    Its clients, with their threads and sockets, are released with it. So no client may refer back to it: a reference cycle
    would keep them until a garbage collection, which an idle process seldom runs.
    """

    def __init__(self, client: ClientOptions, timeout_s: float) -> None:
        self._client = client
        self._deadline = time.monotonic() + timeout_s
        self._last_error = _LastConnectionError()
        # A snapshot takes seconds, so a failed connection is retried after at most half a second.
        self._settings = {
            **client.settings,
            "client.id": "holdfast-guard",
            "error_cb": self._last_error,
            "reconnect.backoff.max.ms": 500,
            "socket.timeout.ms": int(REQUEST_TIMEOUT_S * 1000),
        }

    def fetch(self, topics: Collection[str], epochs: Mapping[Partition, int]) -> BrokerSnapshot:
        if not topics:
            return BrokerSnapshot()
        self._admin = self._create_client(AdminClient, {})
        described = self._describe_topics(sorted(topics))
        if isinstance(described, str):
            return BrokerSnapshot(problem=described)
        partitions = self._fetch_offsets(
            {
                Partition(name, number): partition
                for name, topic in described.items()
                for number, partition in topic.partitions.items()
            }
        )
        partitions |= self._fetch_epoch_ends(partitions, epochs)
        return BrokerSnapshot(
            {
                name: replace(topic, partitions={number: partitions[Partition(name, number)] for number in topic.partitions})
                for name, topic in described.items()
            }
        )

    def _create_client(self, client_type: type[Any], extra: Mapping[str, Any]) -> Any:
        try:
            return client_type({**self._settings, **extra}, logger=_discarding_logger)
        except KafkaException as error:
            # The error text may repeat a value, and a value may be a password: report only the name of the setting.
            name = next((name for name in self._client.settings if f'"{name}"' in str(error)), "the security settings")
            raise Refused(f"librdkafka rejects {name} of the Kafka source: correct the option in the script") from None

    def _request_timeout_s(self) -> float:
        return max(0.1, min(REQUEST_TIMEOUT_S, self._deadline - time.monotonic()))

    def _reason(self, error: BaseException) -> str:
        return self._with_last_error(error.args[0].str() if isinstance(error, KafkaException) else "no answer in time")

    def _with_last_error(self, text: str) -> str:
        self._admin.poll(0)  # runs error_cb
        return f"{text} ({self._last_error.text})" if self._last_error.text else text

    # Topics

    def _describe_topics(self, topics: list[str]) -> dict[str, TopicSnapshot] | str:
        answers: dict[str, TopicSnapshot] = {}
        futures = self._admin.describe_topics(TopicCollection(topics), request_timeout=self._request_timeout_s())
        for name, future in futures.items():
            try:
                answers[name] = _topic_snapshot(_result(future, self._request_timeout_s()))
            except KafkaException as error:
                code = error.args[0].code()
                if code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    answers[name] = TopicSnapshot(problem=self._reason(error))
                else:
                    answers[name] = TopicSnapshot(exists=False)
            except FutureTimeout as error:
                answers[name] = TopicSnapshot(problem=self._reason(error))
        problems = {topic.problem for topic in answers.values()}
        return problems.pop() if len(problems) == 1 and "" not in problems else answers

    # Offsets

    def _fetch_offsets(self, partitions: Mapping[Partition, PartitionSnapshot]) -> dict[Partition, PartitionSnapshot]:
        """Request the earliest and the latest offsets from each leader, all at the same time.

        A leader that hangs delays only the answers about its own partitions.
        """
        by_leader: dict[int, list[Partition]] = defaultdict(list)
        for partition, current in partitions.items():
            if current.leader is not None:
                by_leader[current.leader].append(partition)
        futures = [
            (led, self._list_offsets(led, OffsetSpec.earliest()), self._list_offsets(led, OffsetSpec.latest()))
            for led in by_leader.values()
        ]
        answers = dict(partitions)
        for led, earliest, latest in futures:
            for partition in led:
                answers[partition] = self._offsets_of(partitions[partition], earliest[partition], latest[partition])
        return answers

    def _list_offsets(self, partitions: Iterable[Partition], spec: Any) -> dict[Partition, "Future[Any]"]:
        level = IsolationLevel.READ_COMMITTED if self._client.read_committed else IsolationLevel.READ_UNCOMMITTED
        specs = {TopicPartition(each.topic, each.number): spec for each in partitions}
        futures = self._admin.list_offsets(specs, isolation_level=level, request_timeout=self._request_timeout_s())
        return {Partition(each.topic, each.partition): future for each, future in futures.items()}

    def _offsets_of(self, current: PartitionSnapshot, earliest: "Future[Any]", latest: "Future[Any]") -> PartitionSnapshot:
        try:
            first, last = _result(earliest, self._request_timeout_s()), _result(latest, self._request_timeout_s())
        except (KafkaException, FutureTimeout) as error:
            return replace(current, problem=self._reason(error))
        if first.offset < 0 or last.offset < 0:
            # librdkafka returns a negative offset if it did not reach this leader but reached others.
            return replace(current, problem=self._with_last_error("no answer"))
        return replace(current, earliest=first.offset, latest=last.offset, epoch=last.leader_epoch)

    # Ends of epochs

    def _fetch_epoch_ends(
        self, partitions: Mapping[Partition, PartitionSnapshot], epochs: Mapping[Partition, int]
    ) -> dict[Partition, PartitionSnapshot]:
        """Return the partitions with a newer leader epoch than the last known one, with their `epoch_end`."""
        requested = {
            partition: epochs[partition]
            for partition, current in partitions.items()
            if partition in epochs and current.epoch is not None and current.epoch > epochs[partition]
        }
        if not requested:
            return {}
        consumer = self._create_client(Consumer, _EPOCH_CONSUMER)
        try:
            # Assign at the end of the log, where there is nothing to fetch, then seek. A seek always sends the epoch request;
            # an assignment sends it only if it is faster than the metadata.
            consumer.assign([TopicPartition(each.topic, each.number, partitions[each].latest) for each in requested])
            for partition, epoch in requested.items():
                self._seek(consumer, TopicPartition(partition.topic, partition.number, BEYOND_EVERY_LOG, leader_epoch=epoch))
            return self._collect_epoch_ends(consumer, partitions, requested)
        finally:
            consumer.close()

    def _seek(self, consumer: Any, beyond: Any) -> None:
        """Seek until the consumer accepts it: before its assignment is active it rejects a seek."""
        while time.monotonic() < self._deadline:
            try:
                consumer.seek(beyond)
                return
            except KafkaException as error:
                if error.args[0].code() != KafkaError._STATE:
                    return
                time.sleep(RETRY_S)

    def _collect_epoch_ends(
        self, consumer: Any, partitions: Mapping[Partition, PartitionSnapshot], requested: Mapping[Partition, int]
    ) -> dict[Partition, PartitionSnapshot]:
        answers = {partition: replace(partitions[partition], problem="no answer in time") for partition in requested}
        pending = set(requested)
        deadline = time.monotonic() + self._request_timeout_s()
        while pending and (left_s := deadline - time.monotonic()) > 0:
            for message in consumer.consume(len(pending), min(left_s, 0.1)):
                partition = Partition(message.topic() or "", message.partition())
                if partition in pending and message.error() is not None:
                    pending.discard(partition)
                    answers[partition] = _with_epoch_end(partitions[partition], requested[partition], message.error().str())
        return answers


def _result(future: "Future[Any]", timeout_s: float) -> Any:
    return future.result(timeout_s)


def _topic_snapshot(described: Any) -> TopicSnapshot:
    return TopicSnapshot(
        id=str(described.topic_id) if described.topic_id is not None else None,
        partitions={each.id: PartitionSnapshot(leader=_leader_id(each.leader)) for each in described.partitions},
    )


def _leader_id(node: Any) -> int | None:
    return node.id if node is not None and node.id >= 0 else None


def _with_epoch_end(current: PartitionSnapshot, epoch: int, text: str) -> PartitionSnapshot:
    answer = _EPOCH_END.search(text)
    if answer is None or int(answer[1]) < 0:
        return replace(current, problem=text)
    return replace(current, epoch_end=EpochEndOffset(epoch, int(answer[1])))
