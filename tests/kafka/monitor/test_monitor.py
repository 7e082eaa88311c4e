"""Kafka monitor process with real brokers and a checkpoint in Spark's format. The test plays the driver."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.kafka.check.checkpoint_offsets import Partition, PartitionPosition, read_positions
from holdfast.kafka.check.operator_choice import OffsetChoice, choose_for_source, decode_park_findings, encode_record
from holdfast.storage import KAFKA_CHOICE_FILE, KAFKA_PARK_FINDINGS_FILE, Checkpoints, Claims
from tests.harness.kafka.brokers import Brokers
from tests.harness.kafka.topic import SETTLE_S, Topic
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.real, pytest.mark.slow]

ANSWER_TIMEOUT_S = 30.0


class JobFolder:
    """Checkpoint of a job with one query, and its control directory."""

    def __init__(self, directory: Path) -> None:
        self.storage = directory
        self.checkpoint = directory / "checkpoints" / "j1"
        self.control = directory / "control"
        self.control.mkdir()

    def commit(self, batch: int, offsets: dict[str, dict[str, int]], *, committed: bool = True) -> None:
        for folder in ("offsets", "commits", "sources/0"):
            (self.checkpoint / folder).mkdir(parents=True, exist_ok=True)
        text = json.dumps(offsets, separators=(",", ":"))
        (self.checkpoint / "metadata").write_text('{"id":"6f8e4cc1-4813-4ffd-a5e1-6afaee6d0502"}')
        (self.checkpoint / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":1}}\n{text}')
        if batch == 0:
            (self.checkpoint / "sources" / "0" / "0").write_text(f"\0v1\n{text}")
        if committed:
            (self.checkpoint / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')

    def positions(self) -> dict[Partition, PartitionPosition]:
        query = Checkpoints(str(self.checkpoint)).read_position()
        assert query is not None
        return read_positions(query.query, 0, query.starting_offsets("0")) or {}

    def next_offsets(self, topic: Topic) -> dict[int, int]:
        return {
            partition.number: position.next_offset
            for partition, position in self.positions().items()
            if partition.topic == topic.name
        }

    def choose_earliest(self) -> None:
        """Record the operator's choice "earliest" for the findings that parked the job."""
        parked = decode_park_findings(self.claims.read_metadata(KAFKA_PARK_FINDINGS_FILE))
        assert parked is not None
        chosen = choose_for_source(parked.sources[0], self.positions(), "earliest")
        self.claims.write_metadata(KAFKA_CHOICE_FILE, encode_record(OffsetChoice("ann@host", "earliest", 0.0, "s1", (chosen,))))

    def status(self) -> dict[str, Any]:
        file = self.control / "kafka.json"
        status: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return status

    @property
    def claims(self) -> Claims:
        return Claims(str(self.checkpoint))


class MonitorProcess:
    def __init__(self, folder: JobFolder, **variables: str) -> None:
        environment = {
            "HOLDFAST_JOB": "j1",
            "HOLDFAST_STORAGE": str(folder.storage),
            "HOLDFAST_CHECKPOINT": str(folder.checkpoint),
            "HOLDFAST_CONTROL": str(folder.control),
            "HOLDFAST_KAFKA_CHECK": "1s",
            **variables,
        }
        self._folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "holdfast.kafka.monitor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
        )

    def send(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def watch(self, topic: Topic, options: Mapping[str, str] | None = None) -> None:
        source_options = {"kafka.bootstrap.servers": topic.bootstrap, "subscribe": topic.name, **(options or {})}
        query = {
            "location": str(self._folder.checkpoint),
            "label": "q",
            "sources": [{"number": 0, "folder": 0, "options": source_options}],
        }
        self.send(guard=query, gate=True)

    def receive(self, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], timeout_s)[0], "an answer within the timeout"
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def is_silent(self, for_s: float) -> bool:
        assert self.process.stdout is not None
        return not select.select([self.process.stdout], [], [], for_s)[0]

    def end(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            assert self.process.wait(30) == 0
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


StartMonitor = Callable[..., MonitorProcess]


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path)


@pytest.fixture
def start_monitor(folder: JobFolder) -> Iterator[StartMonitor]:
    started: list[MonitorProcess] = []

    def start(**variables: str) -> MonitorProcess:
        started.append(MonitorProcess(folder, **variables))
        return started[-1]

    yield start
    for each in started:
        each.end()


def create_topic(brokers: Brokers, count: int) -> Topic:
    topic = Topic(brokers)
    topic.create([1, 2])
    topic.write(count)
    return topic


def test_query_without_a_checkpoint_starts_and_is_checked_later(
    kraft: Brokers, folder: JobFolder, start_monitor: StartMonitor
) -> None:
    topic = create_topic(kraft, 100)
    monitor = start_monitor()
    monitor.watch(topic)
    assert monitor.receive() == {"go": str(folder.checkpoint)}
    folder.commit(0, {topic.name: {"0": 60}})
    wait_until(lambda: folder.status().get("lag") == [{topic.name: {"0": 40}}], ANSWER_TIMEOUT_S, "the lag is reported")
    assert folder.status()["note"] == "", "a query that this attempt started has no FIRST_CHECK note"
    topic.delete_records(80)
    parked = monitor.receive()
    assert parked["park"] == str(folder.checkpoint)
    assert "20 records deleted before the job read them" in parked["sentence"]


def test_valid_offsets_start_and_invalid_offsets_are_counted_exactly(
    kraft: Brokers, folder: JobFolder, start_monitor: StartMonitor
) -> None:
    topic = create_topic(kraft, 100)
    folder.commit(0, {topic.name: {"0": 60}})
    monitor = start_monitor()
    monitor.watch(topic)
    assert "go" in monitor.receive()
    monitor.end()
    topic.delete_records(70)
    again = start_monitor()
    again.watch(topic)
    assert "10 records deleted" in again.receive()["sentence"]
    parked_findings = decode_park_findings(folder.claims.read_metadata(KAFKA_PARK_FINDINGS_FILE))
    assert parked_findings is not None
    (finding,) = parked_findings.all_findings
    assert (finding.saved, finding.earliest, finding.latest, finding.lost) == (60, 70, 100, 10)


def test_choice_is_applied_and_reported_before_the_query_starts(
    kraft: Brokers, folder: JobFolder, start_monitor: StartMonitor
) -> None:
    topic = create_topic(kraft, 100)
    folder.commit(0, {topic.name: {"0": 30}})
    folder.commit(1, {topic.name: {"0": 60}}, committed=False)
    topic.delete_records(70)
    first = start_monitor()
    first.watch(topic)
    assert "park" in first.receive()
    folder.choose_earliest()
    first.end()
    (folder.checkpoint / "offsets" / ".0.crc").write_text("outdated")
    again = start_monitor()
    again.watch(topic)
    assert "go" in again.receive()
    assert folder.next_offsets(topic) == {0: 70}
    assert not (folder.checkpoint / "offsets" / ".0.crc").exists()
    assert json.loads((folder.checkpoint / "offsets" / "1").read_text().split("\n")[2]) == {topic.name: {"0": 70}}
    wait_until(
        lambda: "ann@host chose 'earliest'" in folder.status().get("note", ""), ANSWER_TIMEOUT_S, "the choice is reported"
    )
    assert (
        folder.claims.read_metadata(KAFKA_CHOICE_FILE) is None and folder.claims.read_metadata(KAFKA_PARK_FINDINGS_FILE) is None
    )


def test_outdated_choice_is_refused(kraft: Brokers, folder: JobFolder, start_monitor: StartMonitor) -> None:
    topic = create_topic(kraft, 100)
    folder.commit(0, {topic.name: {"0": 30}})
    topic.delete_records(70)
    first = start_monitor()
    first.watch(topic)
    assert "park" in first.receive()
    folder.choose_earliest()
    folder.commit(1, {topic.name: {"0": 40}})
    again = start_monitor()
    again.watch(topic)
    assert "choose again" in again.receive()["sentence"]


def test_unreachable_brokers_wait_with_an_unchanged_note(
    kraft: Brokers, folder: JobFolder, start_monitor: StartMonitor
) -> None:
    topic = create_topic(kraft, 10)
    folder.commit(0, {topic.name: {"0": 10}})
    for broker in kraft.brokers:
        broker.kill()
    monitor = start_monitor()
    monitor.watch(topic)
    note = wait_until(lambda: folder.status().get("note"), ANSWER_TIMEOUT_S, "the note names the reason")
    assert note.startswith("waiting for Kafka before the query starts: ")
    notes = {note}
    until = time.monotonic() + 5
    while time.monotonic() < until:
        notes.add(folder.status()["note"])
        time.sleep(0.1)
    assert notes == {note} and monitor.is_silent(0)
    monitor.send(why=True)
    assert monitor.receive()["why"]["verdict"] == "wait"
    kraft.restore()
    assert "go" in monitor.receive(SETTLE_S)
    wait_until(
        lambda: folder.status()["note"].startswith("Kafka is healthy again, after: "),
        ANSWER_TIMEOUT_S,
        "the note says that Kafka is healthy again",
    )


def test_offset_beyond_the_end_parks_after_the_grace_period(
    kraft: Brokers, folder: JobFolder, start_monitor: StartMonitor
) -> None:
    topic = create_topic(kraft, 10)
    folder.commit(0, {topic.name: {"0": 25}})
    monitor = start_monitor(HOLDFAST_KAFKA_GRACE="3s")
    monitor.watch(topic)
    assert "15 records beyond the end" in monitor.receive()["sentence"]


def test_unsafe_options_are_refused_without_their_values(
    kraft: Brokers, folder: JobFolder, start_monitor: StartMonitor
) -> None:
    topic = create_topic(kraft, 1)
    monitor = start_monitor()
    monitor.watch(topic, {"failOnDataLoss": "false"})
    assert "failOnDataLoss=false" in monitor.receive()["sentence"]
    secret = "org.apache.kafka.common.security.plain.PlainLoginModule required username='u' password='hush';"
    monitor.watch(
        topic, {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "GSSAPI", "kafka.sasl.jaas.config": secret}
    )
    answer = monitor.receive()
    assert "kafka.sasl.mechanism" in answer["sentence"] and "hush" not in json.dumps(answer)


def test_unreadable_choice_is_refused(kraft: Brokers, folder: JobFolder, start_monitor: StartMonitor) -> None:
    topic = create_topic(kraft, 10)
    folder.commit(0, {topic.name: {"0": 10}})
    folder.claims.write_metadata(KAFKA_CHOICE_FILE, b"noise")
    monitor = start_monitor()
    monitor.watch(topic)
    assert "choose again" in monitor.receive()["sentence"]
