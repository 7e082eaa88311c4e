"""Asking real brokers: what it costs, what librdkafka answers, and how a broker is reached with a job's own options."""

import gc
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka import Consumer, TopicPartition

from holdfast.errors import Refused
from holdfast.kafka import Client, Partition, client_of
from holdfast.kafka.broker import BEYOND_EVERY_LOG, Look, look
from holdfast.kafka.check.broker_snapshot import History, Sighted
from holdfast.zk.embedded.ports import LOOPBACK, Ports
from tests.harness.kafka.broker_files import with_password_and_tls
from tests.harness.kafka.brokers import Brokers, kraft_brokers
from tests.harness.kafka.topic import SETTLE_S, Topic
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]
PASSWORD = "correct-horse"


def test_the_history_of_a_log_is_told_by_the_leader(kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1, 2])
    topic.write(30)
    kraft[1].kill()
    eventually(lambda: topic.leader() == 2, SETTLE_S, "broker 2 leads")
    topic.write(12)
    here = Partition(topic.name, 0)
    now = topic.sight({here: 0}).topics[topic.name].partitions[0]
    assert now.epoch is not None and now.epoch > 0
    assert (now.latest, now.history) == (42, History(0, 30))
    assert topic.sight({here: now.epoch}).topics[topic.name].partitions[0].history is None


def test_an_offset_beyond_every_log_is_answered_with_the_end_of_the_epoch_and_in_these_words(kraft: Brokers) -> None:
    """The only way to hear it from librdkafka. If this fails, its words have changed: `broker.py` reads them."""
    topic = Topic(kraft)
    topic.create([1])
    topic.write(9)
    consumer = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": "t", "auto.offset.reset": "error"})
    try:
        consumer.list_topics(topic.name)  # so that it knows its leader already: then an assignment asks nothing
        consumer.assign([TopicPartition(topic.name, 0, 9)])
        consumer.seek(TopicPartition(topic.name, 0, BEYOND_EVERY_LOG, leader_epoch=0))
        message = eventually(lambda: consumer.poll(0.1), SETTLE_S, "an answer")
    finally:
        consumer.close()
    assert (
        message.error()
        .str()
        .startswith(
            f"Partition log truncation detected at offset {BEYOND_EVERY_LOG} (leader epoch 0): "
            "broker end offset is 9 (offset leader epoch 0)."
        )
    )


def test_a_look_asks_each_leader_once_for_the_earliest_and_once_for_the_latest_however_many_partitions(kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create(*([1 + number % 3] for number in range(60)))
    asked: dict[str, Any] = {}
    counting = {"statistics.interval.ms": 20, "stats_cb": lambda text: asked.update(json.loads(text))}
    asking = Look(Client({"bootstrap.servers": topic.bootstrap, **counting}), 10)
    sighted = asking.sight([topic.name], {})
    assert all(partition.latest == 0 for partition in sighted.topics[topic.name].partitions.values())
    answered = time.time()

    def afterwards() -> list[Counter[str]]:
        asking._admin.poll(0.05)
        brokers = asked["brokers"].values() if asked.get("time", 0) > answered else ()
        return [Counter(broker["req"]) for broker in brokers if broker["nodeid"] > 0]

    requests = eventually(afterwards, SETTLE_S, "statistics of a second later")
    assert [each["ListOffsets"] for each in requests] == [2, 2, 2]
    # librdkafka asks each broker once for metadata when it connects; describing the topics is one more.
    assert sum(each["Metadata"] for each in requests) <= 5


def test_a_topic_that_is_not_there_is_told_beside_one_that_is(kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1], [2])
    sighted = look(client_of({"kafka.bootstrap.servers": topic.bootstrap}), [topic.name, "not-there"], {})
    assert not sighted.topics["not-there"].exists
    assert sighted.topics[topic.name].exists and len(sighted.topics[topic.name].partitions) == 2


def test_one_leader_that_does_not_answer_leaves_the_others_answers(kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1], [2], [3])
    kraft[2].pause()

    def told() -> Sighted | None:
        sighted = topic.sight()
        return sighted if not sighted.problem and not sighted.topics[topic.name].problem else None

    partitions = eventually(told, SETTLE_S, "an answer about the topic").topics[topic.name].partitions
    assert [partitions[number].latest for number in (0, 2)] == [0, 0]
    assert partitions[1].latest is None


def test_servers_that_are_not_there_are_a_problem_that_says_why() -> None:
    port = Ports.pick().client
    client = client_of({"kafka.bootstrap.servers": f"{LOOPBACK}:{port}"})
    eventually(lambda: "Connection refused" in look(client, ["t"], {}, within_s=2).problem, SETTLE_S, "it says why")


def test_a_look_leaves_no_thread_behind_though_nobody_collects_garbage(kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1])
    client = Client({"bootstrap.servers": topic.bootstrap})

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    gc.collect()
    gc.disable()
    try:
        look(client, [topic.name], {})  # whatever is made once for all
        before = threads()
        for _ in range(5):
            assert not look(client, [topic.name], {}).problem
        eventually(lambda: threads() <= before, SETTLE_S, "as many threads as before")
    finally:
        gc.enable()


def test_settings_that_librdkafka_does_not_take_are_refused_without_their_values() -> None:
    client = Client({"bootstrap.servers": "b:1", "security.protocol": "ssl", "ssl.key.pem": PASSWORD})
    with pytest.raises(Refused) as refused:
        look(client, ["t"], {})
    assert PASSWORD not in str(refused.value)


def test_a_broker_with_tls_and_passwords_is_asked_with_the_jobs_own_options(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert(LOOPBACK)
    store, trusted = tmp_path / "broker.pem", tmp_path / "ca.pem"
    store.write_bytes(_in_pkcs8(certificate) + certificate.cert_chain_pems[0].bytes())
    authority.cert_pem.write_to_path(trusted)

    def secured(ports: Ports) -> dict[str, str]:
        return with_password_and_tls(ports, user="ann", password=PASSWORD, key_store=str(store))

    with kraft_brokers(tmp_path / "brokers", size=1, extra=secured) as brokers:
        topic = Topic(brokers)
        topic.create([1])
        topic.write(3)
        options = {
            "kafka.bootstrap.servers": brokers[1].secure_address,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(trusted),
        }
        right, wrong = (options | {"kafka.sasl.jaas.config": _login(word)} for word in (PASSWORD, f"not-{PASSWORD}"))
        assert look(client_of(right), [topic.name], {}).topics[topic.name].partitions[0].latest == 3
        problem = look(client_of(wrong), [topic.name], {}).problem
        assert "uthentication failed" in problem
        printed = capfd.readouterr()
        assert PASSWORD not in problem + printed.out + printed.err


def _login(password: str) -> str:
    return f'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="{password}";'


def _in_pkcs8(certificate: trustme.LeafCert) -> bytes:
    """The only form of a key that Kafka reads from PEM."""
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
