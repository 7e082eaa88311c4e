"""Real Spark with real brokers: positions in its checkpoint, and problems that Spark does not notice."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.checkpoint import Query
from holdfast.kafka.check.checkpoint_offsets import Partition, PartitionPosition, read_positions
from holdfast.kafka.check.last_known import LastKnown, update_last_known
from holdfast.kafka.check.offset_check import check_offsets
from holdfast.kafka.check.offset_finding import FindingKind, Severity
from holdfast.storage import Checkpoints
from tests.harness.kafka.brokers import Brokers
from tests.harness.kafka.jars import connector_jars
from tests.harness.kafka.severity import worst_severity
from tests.harness.kafka.topic import Topic

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]
SCRIPT = Path(__file__).parents[1] / "harness" / "kafka" / "scripts" / "read.py"
SPARK_TIMEOUT_S = 280
CONF = {"spark.master": "local[1]", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}


def run_spark(script: Path, *arguments: str) -> str:
    """Run a script with the Kafka connector and return its output."""
    conf = CONF | {"spark.jars": ",".join(str(jar) for jar in connector_jars())}
    words = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": shlex.join([*words, "pyspark-shell"]),
    }
    result = subprocess.run(
        [sys.executable, str(script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SPARK_TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


class KafkaQuery:
    """Query that runs until it has read all records."""

    def __init__(self, topic: Topic, directory: Path) -> None:
        self._topic = topic
        self._checkpoint, self._output = directory / "checkpoint", directory / "out"

    def run(self) -> None:
        run_spark(SCRIPT, self._topic.bootstrap, self._topic.name, str(self._checkpoint), str(self._output))

    def query(self) -> Query:
        (query,) = Checkpoints(str(self._checkpoint)).examine_queries()
        return query

    def starting_offsets(self) -> str:
        """Return the starting offsets that the source recorded."""
        return (self._checkpoint / "sources" / "0" / "0").read_text().removeprefix("\0").split("\n")[1]

    def drop_newest_commit(self) -> None:
        """Delete the newest commit, as if the driver was killed in its last batch."""
        newest = str(self.query().committed)
        for name in (newest, f".{newest}.crc"):
            (self._checkpoint / "commits" / name).unlink()

    def output_lines(self) -> list[str]:
        return [line for file in self._output.glob("*.txt") for line in file.read_text().splitlines()]


def test_recreated_topic_that_spark_does_not_notice_is_found(kraft: Brokers, tmp_path: Path) -> None:
    topic = Topic(kraft)
    topic.create([1, 2], [2, 3])
    topic.write(100, 0)
    topic.write(7, 1)
    stream = KafkaQuery(topic, tmp_path)
    stream.run()
    saved = read_positions(stream.query(), 0, stream.starting_offsets())
    zero, one = Partition(topic.name, 0), Partition(topic.name, 1)
    assert saved == {zero: PartitionPosition(100, 100), one: PartitionPosition(7, 7)}
    snapshot = topic.snapshot()
    last_known = update_last_known(LastKnown(), saved, snapshot, check_offsets(saved, LastKnown(), snapshot))

    topic.delete()
    topic.create([1, 2], [2, 3])
    topic.write(110, 0)
    topic.write(7, 1)
    findings = check_offsets(saved, last_known, topic.snapshot(last_known.leader_epochs()))
    assert [finding.kind for finding in findings] == [FindingKind.TOPIC_RECREATED, FindingKind.TOPIC_RECREATED]
    assert [finding.keep.skipped for finding in findings if finding.keep is not None] == [100, 7]
    # Without the offset check Spark resumes at offset 100 and silently skips exactly these records.
    before = len(stream.output_lines())
    stream.run()
    assert len(stream.output_lines()) - before == 110 + 7 - 100 - 7


def test_planned_batch_has_a_position_with_two_ends(kraft: Brokers, tmp_path: Path) -> None:
    topic = Topic(kraft)
    topic.create([1, 2])
    topic.write(75)
    stream = KafkaQuery(topic, tmp_path)
    stream.run()
    stream.drop_newest_commit()
    query = stream.query()
    assert query.planned is not None and query.committed == query.planned - 1
    saved = read_positions(query, 0, stream.starting_offsets())
    assert saved == {Partition(topic.name, 0): PartitionPosition(60, 75)}
    assert worst_severity(check_offsets(saved, LastKnown(), topic.snapshot())) is Severity.NOTE
    topic.delete_records(61)
    (finding,) = [
        finding
        for finding in check_offsets(saved, LastKnown(), topic.snapshot())
        if finding.kind is not FindingKind.FIRST_CHECK
    ]
    assert (finding.kind, finding.lost) == (FindingKind.RETENTION, 1)


def test_sources_of_a_query_have_the_same_numbers_as_in_spark(kraft: Brokers, tmp_path: Path) -> None:
    first, second = Topic(kraft), Topic(kraft)
    for topic in (first, second):
        topic.create([1, 2])
        topic.write(3)
    texts, checkpoint = tmp_path / "texts", tmp_path / "checkpoint"
    texts.mkdir()
    (texts / "a.txt").write_text("x\n")
    script = SCRIPT.with_name("several.py")
    printed = run_spark(script, first.bootstrap, first.name, second.name, str(texts), str(checkpoint))
    sources = json.loads(next(line for line in printed.splitlines() if line.startswith("SOURCES ")).removeprefix("SOURCES "))
    (query,) = Checkpoints(str(checkpoint)).examine_queries()
    offsets = query.batches[-1].offsets
    topics = {source["number"]: source["options"]["subscribe"] for source in sources}
    saved = {number: list(json.loads(text)) for number, text in enumerate(offsets) if "logOffset" not in text}
    assert {number: [topic] for number, topic in topics.items()} == saved
    folders = {path.name: path / "0" for path in (checkpoint / "sources").iterdir()}
    assert len(folders) == 3, "a source that is used twice has one folder"
    assert all(source["options"]["subscribe"] in folders[str(source["folder"])].read_text() for source in sources)
    assert all(source["options"]["kafka.bootstrap.servers"] == first.bootstrap for source in sources)
