"""The process beside a driver, as a driver talks to it: real brokers, and a checkpoint as Spark writes it."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.kafka.check.checkpoint_offsets import positions
from holdfast.kafka.check.operator_choice import Choice, choose, encoded, lost_in
from holdfast.storage import KAFKA_CHOICE, KAFKA_LOST, Checkpoints, Claims
from tests.harness.kafka.brokers import Brokers
from tests.harness.kafka.topic import SETTLE_S, Topic
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]

SAID_S = 30.0


class Place:
    """A job's checkpoint with one query in it, and its control directory."""

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

    def next(self, topic: Topic) -> dict[int, int]:
        standing = Checkpoints(str(self.checkpoint)).standing()
        assert standing is not None
        saved = positions(standing.query, 0, standing.first(0)) or {}
        return {partition.number: position.next for partition, position in saved.items() if partition.topic == topic.name}

    def words(self) -> dict[str, Any]:
        file = self.control / "kafka.json"
        return json.loads(file.read_text()) if file.exists() else {}

    @property
    def claims(self) -> Claims:
        return Claims(str(self.checkpoint))


class Talk:
    def __init__(self, place: Place, **variables: str) -> None:
        told = {
            "HOLDFAST_JOB": "j1",
            "HOLDFAST_STORAGE": str(place.storage),
            "HOLDFAST_CHECKPOINT": str(place.checkpoint),
            "HOLDFAST_CONTROL": str(place.control),
            "HOLDFAST_KAFKA_CHECK": "1s",
            **variables,
        }
        self._place = place
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "holdfast.kafka.monitor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **told},
        )

    def say(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def guard(self, topic: Topic, *, gate: bool = True, **options: str) -> None:
        own = {"kafka.bootstrap.servers": topic.bootstrap, "subscribe": topic.name, **options}
        query = {"location": str(self._place.checkpoint), "label": "q", "sources": [{"number": 0, "folder": 0, "options": own}]}
        self.say(guard=query, gate=gate)

    def hear(self, within_s: float = SAID_S) -> dict[str, Any]:
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], within_s)[0], "it says something"
        heard: dict[str, Any] = json.loads(self.process.stdout.readline())
        return heard

    def silent(self, for_s: float) -> bool:
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


Start = Callable[..., Talk]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def talk(place: Place) -> Iterator[Start]:
    started: list[Talk] = []

    def begin(**variables: str) -> Talk:
        started.append(talk := Talk(place, **variables))
        return talk

    yield begin
    for each in started:
        each.end()


def written(brokers: Brokers, count: int) -> Topic:
    topic = Topic(brokers)
    topic.create([1, 2])
    topic.write(count)
    return topic


def test_a_query_without_a_checkpoint_may_start_and_is_watched_from_then_on(kraft: Brokers, place: Place, talk: Start) -> None:
    topic = written(kraft, 100)
    sentry = talk()
    sentry.guard(topic)
    assert sentry.hear() == {"go": str(place.checkpoint)}
    place.commit(0, {topic.name: {"0": 60}})
    eventually(lambda: place.words().get("lag") == [{topic.name: {"0": 40}}], SAID_S, "its lag is told")
    assert place.words()["note"] == "", "what it has begun itself is no first sight"
    topic.delete_records(80)
    parked = sentry.hear()
    assert parked["park"] == str(place.checkpoint)
    assert "20 records deleted before the job read them" in parked["sentence"]


def test_offsets_in_order_may_start_and_what_is_wrong_is_told_to_the_record(kraft: Brokers, place: Place, talk: Start) -> None:
    topic = written(kraft, 100)
    place.commit(0, {topic.name: {"0": 60}})
    sentry = talk()
    sentry.guard(topic)
    assert "go" in sentry.hear()
    sentry.end()
    topic.delete_records(70)
    again = talk()
    again.guard(topic)
    assert "10 records deleted" in again.hear()["sentence"]
    lost = lost_in(place.claims.note(KAFKA_LOST))
    assert lost is not None
    (finding,) = lost.findings
    assert (finding.saved, finding.earliest, finding.latest, finding.lost) == (60, 70, 100, 10)


def test_what_a_person_chose_takes_effect_before_the_query_starts_and_is_told(
    kraft: Brokers, place: Place, talk: Start
) -> None:
    topic = written(kraft, 100)
    place.commit(0, {topic.name: {"0": 30}})
    place.commit(1, {topic.name: {"0": 60}}, committed=False)
    topic.delete_records(70)
    first = talk()
    first.guard(topic)
    assert "park" in first.hear()
    lost = lost_in(place.claims.note(KAFKA_LOST))
    standing = Checkpoints(str(place.checkpoint)).standing()
    assert lost is not None and standing is not None
    chosen = choose(lost.sources[0], positions(standing.query, 0, standing.first(0)) or {}, "earliest")
    place.claims.leave_note(KAFKA_CHOICE, encoded(Choice("ann@host", "earliest", 0.0, "s1", (chosen,))))
    first.end()
    (place.checkpoint / "offsets" / ".0.crc").write_text("of what it was")
    again = talk()
    again.guard(topic)
    assert "go" in again.hear()
    assert place.next(topic) == {0: 70}
    assert not (place.checkpoint / "offsets" / ".0.crc").exists()
    assert json.loads((place.checkpoint / "offsets" / "1").read_text().split("\n")[2]) == {topic.name: {"0": 70}}
    eventually(lambda: "ann@host chose 'earliest'" in place.words().get("note", ""), SAID_S, "it is told")
    assert place.claims.note(KAFKA_CHOICE) is None and place.claims.note(KAFKA_LOST) is None


def test_a_choice_for_offsets_that_have_moved_since_is_refused(kraft: Brokers, place: Place, talk: Start) -> None:
    topic = written(kraft, 100)
    place.commit(0, {topic.name: {"0": 30}})
    topic.delete_records(70)
    first = talk()
    first.guard(topic)
    assert "park" in first.hear()
    lost = lost_in(place.claims.note(KAFKA_LOST))
    standing = Checkpoints(str(place.checkpoint)).standing()
    assert lost is not None and standing is not None
    chosen = choose(lost.sources[0], positions(standing.query, 0, standing.first(0)) or {}, "earliest")
    place.claims.leave_note(KAFKA_CHOICE, encoded(Choice("ann@host", "earliest", 0.0, "s1", (chosen,))))
    place.commit(1, {topic.name: {"0": 40}})
    again = talk()
    again.guard(topic)
    assert "choose again" in again.hear()["sentence"]


def test_brokers_that_are_away_are_waited_for_and_the_note_stays_the_same(kraft: Brokers, place: Place, talk: Start) -> None:
    topic = written(kraft, 10)
    place.commit(0, {topic.name: {"0": 10}})
    for broker in kraft.brokers:
        broker.kill()
    sentry = talk()
    sentry.guard(topic)
    note = eventually(lambda: place.words().get("note"), SAID_S, "it says what it waits for")
    assert note.startswith("it waits for Kafka before it starts: ")
    seen = {note}
    until = time.monotonic() + 5
    while time.monotonic() < until:
        seen.add(place.words()["note"])
        time.sleep(0.1)
    assert seen == {note} and sentry.silent(0)
    sentry.say(why=True)
    assert sentry.hear()["why"]["verdict"] == "wait"
    kraft.mend()
    assert "go" in sentry.hear(SETTLE_S)
    eventually(
        lambda: place.words()["note"].startswith("Kafka is in order again, after: "), SAID_S, "that it has passed is told"
    )


def test_an_offset_beyond_the_end_parks_when_the_grace_time_is_over(kraft: Brokers, place: Place, talk: Start) -> None:
    topic = written(kraft, 10)
    place.commit(0, {topic.name: {"0": 25}})
    sentry = talk(HOLDFAST_KAFKA_GRACE="3s")
    sentry.guard(topic)
    assert "15 records beyond the end" in sentry.hear()["sentence"]


def test_options_that_the_guard_cannot_live_with_are_refused_and_no_value_is_told(
    kraft: Brokers, place: Place, talk: Start
) -> None:
    topic = written(kraft, 1)
    sentry = talk()
    sentry.guard(topic, failOnDataLoss="false")
    assert "failOnDataLoss=false" in sentry.hear()["sentence"]
    secret = "org.apache.kafka.common.security.plain.PlainLoginModule required username='u' password='hush';"
    sentry.guard(
        topic, **{"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "GSSAPI", "kafka.sasl.jaas.config": secret}
    )
    told = sentry.hear()
    assert "kafka.sasl.mechanism" in told["sentence"] and "hush" not in json.dumps(told)


def test_a_choice_that_is_noise_is_refused(kraft: Brokers, place: Place, talk: Start) -> None:
    topic = written(kraft, 10)
    place.commit(0, {topic.name: {"0": 10}})
    place.claims.leave_note(KAFKA_CHOICE, b"noise")
    sentry = talk()
    sentry.guard(topic)
    assert "choose again" in sentry.hear()["sentence"]
