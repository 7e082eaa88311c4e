"""Asking brokers. Blocks; joins no group, commits nothing, and keeps nothing from one look to the next.

Each look has clients of its own, because what a client knows from before is what misleads it when brokers fail: an admin client
of librdkafka 2.16 whose controller was killed found no other within half a minute, while a new one does at once.

A look costs one request that describes the topics, then one for the earliest and one for the latest offsets to each leader,
whatever the number of partitions. Only partitions whose leader is another one than is remembered are asked for their history:
one request each, all at once. There is no call for that question, but a consumer asks it when it is moved to an offset with an
epoch (KIP-320), and if the offset is beyond every log the answer stands in its error. `tests/kafka/test_broker.py` holds the
words of that error.
"""

import logging
import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import replace
from typing import Any

from holdfast.errors import Refused
from holdfast.kafka.check.broker_snapshot import History, Sighted, SightedPartition, SightedTopic
from holdfast.kafka.check.checkpoint_offsets import Partition
from holdfast.kafka.check.client_options import Client

try:
    from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec
except ImportError as error:
    raise Refused('the offset guard needs confluent-kafka: install it with: pip install "holdfast[kafka]"') from error

WITHIN_S = 10.0
ANSWER_S = 3.0
"""For one request. A broker that needs longer counts as away."""
RETRY_S = 0.01
BEYOND_EVERY_LOG = 2**62
_ASKING_FOR_HISTORY = {
    "group.id": "holdfast-guard",  # must be named, and is never joined
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 10,  # a fetch at the end of a log is in the way of the question until it is answered
}
_ANSWER = re.compile(r"broker end offset is (-?\d+) \(offset leader epoch (-?\d+)\)")

_silent = logging.getLogger("holdfast.kafka.client")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


def look(client: Client, topics: Collection[str], epochs: Mapping[Partition, int], *, within_s: float = WITHIN_S) -> Sighted:
    """What brokers say of all partitions of these topics. Whatever is not answered in time is a problem, told with its cause.

    `epochs` are the remembered ones. Raises Refused if librdkafka does not take the client's settings.
    """
    return Look(client, within_s).sight(topics, epochs)


class _Complaint:
    """What librdkafka said last about a connection: why, where an unanswered request only says that."""

    def __init__(self) -> None:
        self.words = ""

    def __call__(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # which comes after the reason, and tells none
            self.words = error.str()


class Look:
    """Once: it is made, asked, and thrown away.

    Its clients end with it, and their threads and sockets with them. So they must not know it: two that know each other stay
    until Python looks for such pairs, which a process that does little does seldom.
    """

    def __init__(self, client: Client, within_s: float) -> None:
        self._client = client
        self._deadline = time.monotonic() + within_s
        self._complaint = _Complaint()
        # A wrong address is tried again and again; the silence in between need not be long in a look of seconds.
        self._settings = {
            **client.settings,
            "client.id": "holdfast-guard",
            "error_cb": self._complaint,
            "reconnect.backoff.max.ms": 500,
            "socket.timeout.ms": int(ANSWER_S * 1000),
        }

    def sight(self, topics: Collection[str], epochs: Mapping[Partition, int]) -> Sighted:
        if not topics:
            return Sighted()
        self._admin = self._made(AdminClient, {})
        described = self._describe(sorted(topics))
        if isinstance(described, str):
            return Sighted(problem=described)
        partitions = self._offsets(
            {
                Partition(name, number): partition
                for name, topic in described.items()
                for number, partition in topic.partitions.items()
            }
        )
        partitions |= self._histories(partitions, epochs)
        return Sighted(
            {
                name: replace(topic, partitions={number: partitions[Partition(name, number)] for number in topic.partitions})
                for name, topic in described.items()
            }
        )

    def _made(self, kind: type[Any], more: Mapping[str, Any]) -> Any:
        try:
            return kind({**self._settings, **more}, logger=_silent)
        except KafkaException as error:
            # Its text may repeat a value, and a value may be a password; the name of the setting is enough.
            name = next((name for name in self._client.settings if f'"{name}"' in str(error)), "its security settings")
            raise Refused(f"librdkafka does not take {name} of the source's options") from None

    def _left_s(self) -> float:
        return max(0.1, min(ANSWER_S, self._deadline - time.monotonic()))

    def _why(self, error: BaseException) -> str:
        return self._complained(error.args[0].str() if isinstance(error, KafkaException) else "no answer in time")

    def _complained(self, words: str) -> str:
        self._admin.poll(0)  # hands out what there is to complain about
        return f"{words} ({self._complaint.words})" if self._complaint.words else words

    # Topics

    def _describe(self, topics: list[str]) -> dict[str, SightedTopic] | str:
        found: dict[str, SightedTopic] = {}
        asked = self._admin.describe_topics(TopicCollection(topics), request_timeout=self._left_s())
        for name, future in asked.items():
            try:
                found[name] = _topic(_result(future, self._left_s()))
            except KafkaException as error:
                code = error.args[0].code()
                if code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    found[name] = SightedTopic(problem=self._why(error))
                else:
                    found[name] = SightedTopic(exists=False)
            except NotInTime as error:
                found[name] = SightedTopic(problem=self._why(error))
        problems = {topic.problem for topic in found.values()}
        return problems.pop() if len(problems) == 1 and "" not in problems else found

    # Offsets

    def _offsets(self, partitions: Mapping[Partition, SightedPartition]) -> dict[Partition, SightedPartition]:
        """One request for the earliest and one for the latest to each leader, all at the same time: a leader that hangs delays
        only what is said of its own partitions.
        """
        led: dict[int, list[Partition]] = defaultdict(list)
        for partition, seen in partitions.items():
            if seen.leader is not None:
                led[seen.leader].append(partition)
        asked = [
            (own, self._list_offsets(own, OffsetSpec.earliest()), self._list_offsets(own, OffsetSpec.latest()))
            for own in led.values()
        ]
        found = dict(partitions)
        for own, earliest, latest in asked:
            for partition in own:
                found[partition] = self._answered(partitions[partition], earliest[partition], latest[partition])
        return found

    def _list_offsets(self, partitions: Iterable[Partition], spec: Any) -> dict[Partition, "Future[Any]"]:
        level = IsolationLevel.READ_COMMITTED if self._client.read_committed else IsolationLevel.READ_UNCOMMITTED
        wanted = {TopicPartition(each.topic, each.number): spec for each in partitions}
        asked = self._admin.list_offsets(wanted, isolation_level=level, request_timeout=self._left_s())
        return {Partition(each.topic, each.partition): future for each, future in asked.items()}

    def _answered(self, seen: SightedPartition, earliest: "Future[Any]", latest: "Future[Any]") -> SightedPartition:
        try:
            first, last = _result(earliest, self._left_s()), _result(latest, self._left_s())
        except (KafkaException, NotInTime) as error:
            return replace(seen, problem=self._why(error))
        if first.offset < 0 or last.offset < 0:
            # librdkafka's way to say that this leader was not reached, while others were.
            return replace(seen, problem=self._complained("no answer"))
        return replace(seen, earliest=first.offset, latest=last.offset, epoch=last.leader_epoch)

    # Histories

    def _histories(
        self, partitions: Mapping[Partition, SightedPartition], epochs: Mapping[Partition, int]
    ) -> dict[Partition, SightedPartition]:
        """Of those whose leader is a later one than the remembered."""
        questions = {
            partition: epochs[partition]
            for partition, seen in partitions.items()
            if partition in epochs and seen.epoch is not None and seen.epoch > epochs[partition]
        }
        if not questions:
            return {}
        consumer = self._made(Consumer, _ASKING_FOR_HISTORY)
        try:
            # Assigned at the end, where there is nothing to fetch, and moved from there: a seek always asks the question, an
            # assignment only if it is faster than the metadata.
            consumer.assign([TopicPartition(each.topic, each.number, partitions[each].latest) for each in questions])
            for partition, epoch in questions.items():
                self._question(
                    consumer, TopicPartition(partition.topic, partition.number, BEYOND_EVERY_LOG, leader_epoch=epoch)
                )
            return self._heard(consumer, partitions, questions)
        finally:
            consumer.close()

    def _question(self, consumer: Any, beyond: Any) -> None:
        """A consumer that has not come to its assignment yet refuses to be moved. One that never does will not answer."""
        while time.monotonic() < self._deadline:
            try:
                consumer.seek(beyond)
                return
            except KafkaException as error:
                if error.args[0].code() != KafkaError._STATE:
                    return
                time.sleep(RETRY_S)

    def _heard(
        self, consumer: Any, partitions: Mapping[Partition, SightedPartition], questions: Mapping[Partition, int]
    ) -> dict[Partition, SightedPartition]:
        answers = {partition: replace(partitions[partition], problem="no answer in time") for partition in questions}
        awaited = set(questions)
        until = time.monotonic() + self._left_s()
        while awaited and (left_s := until - time.monotonic()) > 0:
            for message in consumer.consume(len(awaited), min(left_s, 0.1)):
                partition = Partition(message.topic() or "", message.partition())
                if partition in awaited and message.error() is not None:
                    awaited.discard(partition)
                    answers[partition] = _with_history(partitions[partition], questions[partition], message.error().str())
        return answers


def _result(future: "Future[Any]", timeout_s: float) -> Any:
    return future.result(timeout_s)


def _topic(described: Any) -> SightedTopic:
    return SightedTopic(
        id=str(described.topic_id) if described.topic_id is not None else None,
        partitions={each.id: SightedPartition(leader=_leader(each.leader)) for each in described.partitions},
    )


def _leader(node: Any) -> int | None:
    return node.id if node is not None and node.id >= 0 else None


def _with_history(seen: SightedPartition, epoch: int, words: str) -> SightedPartition:
    answer = _ANSWER.search(words)
    if answer is None or int(answer[1]) < 0:
        return replace(seen, problem=words)
    return replace(seen, history=History(epoch, int(answer[1])))
