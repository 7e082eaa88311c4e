"""Snapshots of real brokers: number of requests, answers of librdkafka, and secure connections."""

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
from holdfast.kafka.broker import BEYOND_EVERY_LOG, SnapshotRequest, fetch_snapshot
from holdfast.kafka.check.broker_snapshot import BrokerSnapshot, EpochEndOffset
from holdfast.kafka.check.checkpoint_offsets import Partition
from holdfast.kafka.check.client_options import ClientOptions, translate_options
from holdfast.zk.embedded.ports import LOOPBACK, Ports
from tests.harness.kafka.broker_files import sasl_tls_properties
from tests.harness.kafka.brokers import Brokers, kraft_brokers
from tests.harness.kafka.topic import SETTLE_S, Topic
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.real, pytest.mark.slow]
PASSWORD = "correct-horse"


def test_new_leader_reports_the_end_of_the_known_epoch(kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1, 2])
    topic.write(30)
    kraft[1].kill()
    wait_until(lambda: topic.leader() == 2, SETTLE_S, "broker 2 leads")
    topic.write(12)
    partition = Partition(topic.name, 0)
    now = topic.snapshot({partition: 0}).topics[topic.name].partitions[0]
    assert now.epoch is not None and now.epoch > 0
    assert (now.latest, now.epoch_end) == (42, EpochEndOffset(0, 30))
    assert topic.snapshot({partition: now.epoch}).topics[topic.name].partitions[0].epoch_end is None


def test_librdkafka_reports_the_end_of_the_epoch_in_the_expected_error_text(kraft: Brokers) -> None:
    """librdkafka has no other interface for it. If this test fails, adapt the pattern in `kafka.broker` to the new text."""
    topic = Topic(kraft)
    topic.create([1])
    topic.write(9)
    consumer = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": "t", "auto.offset.reset": "error"})
    try:
        consumer.list_topics(topic.name)  # load the metadata first: then an assignment sends no epoch request
        consumer.assign([TopicPartition(topic.name, 0, 9)])
        consumer.seek(TopicPartition(topic.name, 0, BEYOND_EVERY_LOG, leader_epoch=0))
        message = wait_until(lambda: consumer.poll(0.1), SETTLE_S, "an answer")
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


def test_snapshot_sends_two_offset_requests_to_each_leader_for_any_number_of_partitions(kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create(*([1 + number % 3] for number in range(60)))
    statistics: dict[str, Any] = {}
    settings: dict[str, Any] = {
        "bootstrap.servers": topic.bootstrap,
        "statistics.interval.ms": 20,
        "stats_cb": lambda text: statistics.update(json.loads(text)),
    }
    request = SnapshotRequest(ClientOptions(settings), 10)
    snapshot = request.fetch([topic.name], {})
    assert all(partition.latest == 0 for partition in snapshot.topics[topic.name].partitions.values())
    answered = time.time()

    def later_requests() -> list[Counter[str]]:
        request._admin.poll(0.05)
        brokers = statistics["brokers"].values() if statistics.get("time", 0) > answered else ()
        return [Counter(broker["req"]) for broker in brokers if broker["nodeid"] > 0]

    requests = wait_until(later_requests, SETTLE_S, "later statistics")
    assert [each["ListOffsets"] for each in requests] == [2, 2, 2]
    # librdkafka requests metadata once from each broker when it connects; describing the topics is one more request.
    assert sum(each["Metadata"] for each in requests) <= 5


def test_missing_topic_is_reported_beside_an_existing_one(kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1], [2])
    snapshot = fetch_snapshot(translate_options({"kafka.bootstrap.servers": topic.bootstrap}), [topic.name, "not-there"], {})
    assert not snapshot.topics["not-there"].exists
    assert snapshot.topics[topic.name].exists and len(snapshot.topics[topic.name].partitions) == 2


def test_silent_leader_does_not_affect_answers_of_other_leaders(kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1], [2], [3])
    kraft[2].pause()

    def described_snapshot() -> BrokerSnapshot | None:
        snapshot = topic.snapshot()
        return snapshot if not snapshot.problem and not snapshot.topics[topic.name].problem else None

    partitions = wait_until(described_snapshot, SETTLE_S, "the topic is is_described").topics[topic.name].partitions
    assert [partitions[number].latest for number in (0, 2)] == [0, 0]
    assert partitions[1].latest is None


def test_unreachable_servers_are_a_problem_with_its_cause() -> None:
    port = Ports.pick().client
    client = translate_options({"kafka.bootstrap.servers": f"{LOOPBACK}:{port}"})
    wait_until(
        lambda: "Connection refused" in fetch_snapshot(client, ["t"], {}, timeout_s=2).problem,
        SETTLE_S,
        "the problem names its cause",
    )


def test_snapshot_leaves_no_threads_without_garbage_collection(kraft: Brokers) -> None:
    topic = Topic(kraft)
    topic.create([1])
    client = ClientOptions({"bootstrap.servers": topic.bootstrap})

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    gc.collect()
    gc.disable()
    try:
        fetch_snapshot(client, [topic.name], {})  # creates process-wide threads once
        before = threads()
        for _ in range(5):
            assert not fetch_snapshot(client, [topic.name], {}).problem
        wait_until(lambda: threads() <= before, SETTLE_S, "as many threads as before")
    finally:
        gc.enable()


def test_refusal_of_invalid_settings_hides_their_values() -> None:
    client = ClientOptions({"bootstrap.servers": "b:1", "security.protocol": "ssl", "ssl.key.pem": PASSWORD})
    with pytest.raises(Refused) as refused:
        fetch_snapshot(client, ["t"], {})
    assert PASSWORD not in str(refused.value)


def test_broker_with_tls_and_sasl_is_reached_with_the_options_of_the_job(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert(LOOPBACK)
    store, trusted = tmp_path / "broker.pem", tmp_path / "ca.pem"
    store.write_bytes(_private_key_pkcs8(certificate) + certificate.cert_chain_pems[0].bytes())
    authority.cert_pem.write_to_path(trusted)

    def secure_properties(ports: Ports) -> dict[str, str]:
        return sasl_tls_properties(ports, user="ann", password=PASSWORD, key_store=str(store))

    with kraft_brokers(tmp_path / "brokers", size=1, extra=secure_properties) as brokers:
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
        assert fetch_snapshot(translate_options(right), [topic.name], {}).topics[topic.name].partitions[0].latest == 3
        problem = fetch_snapshot(translate_options(wrong), [topic.name], {}).problem
        assert "uthentication failed" in problem
        printed = capfd.readouterr()
        assert PASSWORD not in problem + printed.out + printed.err


def _login(password: str) -> str:
    return f'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="{password}";'


def _private_key_pkcs8(certificate: trustme.LeafCert) -> bytes:
    """Return the key in PKCS #8, the only PEM key format that Kafka reads."""
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
