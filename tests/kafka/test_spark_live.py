"""A real Spark that reads from real brokers: what its checkpoint says, and what it does not notice."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.checkpoint import Query
from holdfast.kafka import Kind, Memory, Partition, Position, judge, positions, remember, verdict
from holdfast.storage import Checkpoints
from tests.harness.kafka.brokers import Brokers
from tests.harness.kafka.jars import connector_jars
from tests.harness.kafka.topic import Topic

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]
SCRIPT = Path(__file__).parents[1] / "harness" / "kafka" / "scripts" / "read.py"
SPARK_S = 280
CONF = {"spark.master": "local[1]", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}


def spark(script: Path, *arguments: str) -> str:
    """What it printed."""
    conf = CONF | {"spark.jars": ",".join(str(jar) for jar in connector_jars())}
    words = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": shlex.join([*words, "pyspark-shell"]),
    }
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SPARK_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


class Stream:
    """One query, run to the end of what is there."""

    def __init__(self, topic: Topic, directory: Path) -> None:
        self._topic = topic
        self._checkpoint, self._output = directory / "checkpoint", directory / "out"

    def run(self) -> None:
        spark(SCRIPT, self._topic.bootstrap, self._topic.name, str(self._checkpoint), str(self._output))

    def query(self) -> Query:
        (query,) = Checkpoints(str(self._checkpoint)).queries()
        return query

    def first(self) -> str:
        """What the source itself has noted."""
        return (self._checkpoint / "sources" / "0" / "0").read_text().removeprefix("\0").split("\n")[1]

    def lose_the_newest_commit(self) -> None:
        """As a driver leaves it that was killed within its last batch."""
        newest = str(self.query().committed)
        for name in (newest, f".{newest}.crc"):
            (self._checkpoint / "commits" / name).unlink()

    def written(self) -> list[str]:
        return [line for file in self._output.glob("*.txt") for line in file.read_text().splitlines()]


def test_positions_come_from_a_real_checkpoint_and_a_topic_that_spark_takes_for_the_old_one_is_found(
    kraft: Brokers, tmp_path: Path
) -> None:
    topic = Topic(kraft)
    topic.create([1, 2], [2, 3])
    topic.write(100, 0)
    topic.write(7, 1)
    stream = Stream(topic, tmp_path)
    stream.run()
    saved = positions(stream.query(), 0, stream.first())
    zero, one = Partition(topic.name, 0), Partition(topic.name, 1)
    assert saved == {zero: Position(100, 100), one: Position(7, 7)}
    sighted = topic.sight()
    memory = remember(Memory(), saved, sighted, judge(saved, Memory(), sighted))

    topic.delete()
    topic.create([1, 2], [2, 3])
    topic.write(110, 0)
    topic.write(7, 1)
    findings = judge(saved, memory, topic.sight(memory.epochs()))
    assert [finding.kind for finding in findings] == [Kind.RECREATED, Kind.RECREATED]
    assert [finding.keep.skipped for finding in findings if finding.keep is not None] == [100, 7]
    # Without the guard: Spark goes on from 100, says nothing, and skips exactly those.
    before = len(stream.written())
    stream.run()
    assert len(stream.written()) - before == 110 + 7 - 100 - 7


def test_a_batch_that_was_begun_is_a_position_with_two_ends(kraft: Brokers, tmp_path: Path) -> None:
    topic = Topic(kraft)
    topic.create([1, 2])
    topic.write(75)
    stream = Stream(topic, tmp_path)
    stream.run()
    stream.lose_the_newest_commit()
    query = stream.query()
    assert query.planned is not None and query.committed == query.planned - 1
    saved = positions(query, 0, stream.first())
    assert saved == {Partition(topic.name, 0): Position(60, 75)}
    assert verdict(judge(saved, Memory(), topic.sight())) == 1
    topic.delete_records(61)
    (finding,) = [finding for finding in judge(saved, Memory(), topic.sight()) if finding.kind is not Kind.FIRST_SIGHT]
    assert (finding.kind, finding.lost) == (Kind.RETENTION, 1)


def test_the_guard_numbers_the_sources_of_a_query_as_spark_does(kraft: Brokers, tmp_path: Path) -> None:
    first, second = Topic(kraft), Topic(kraft)
    for topic in (first, second):
        topic.create([1, 2])
        topic.write(3)
    texts, checkpoint = tmp_path / "texts", tmp_path / "checkpoint"
    texts.mkdir()
    (texts / "a.txt").write_text("x\n")
    script = SCRIPT.with_name("several.py")
    said = spark(script, first.bootstrap, first.name, second.name, str(texts), str(checkpoint))
    sources = json.loads(next(line for line in said.splitlines() if line.startswith("SOURCES ")).removeprefix("SOURCES "))
    (query,) = Checkpoints(str(checkpoint)).queries()
    offsets = query.batches[-1].offsets
    told = {source["number"]: source["options"]["subscribe"] for source in sources}
    saved = {number: list(json.loads(text)) for number, text in enumerate(offsets) if "logOffset" not in text}
    assert {number: [topic] for number, topic in told.items()} == saved
    folders = {path.name: path / "0" for path in (checkpoint / "sources").iterdir()}
    assert len(folders) == 3, "a source that is used twice has one folder"
    assert all(source["options"]["subscribe"] in folders[str(source["folder"])].read_text() for source in sources)
    assert all(source["options"]["kafka.bootstrap.servers"] == first.bootstrap for source in sources)
