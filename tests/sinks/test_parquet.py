"""What only a directory can go wrong with: staging, renames, and what lies there already."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.errors import OutputRefused, Refused
from holdfast.sinks import parquet
from holdfast.sinks.batch_directory import CLAIMS_KEPT, Directory, Written
from holdfast.sinks.batch_ledger import Owner
from holdfast.sinks.hadoop_files import Folder
from holdfast.sinks.output_claim import Claim
from tests.sinks.outputs import ParquetOutput
from tests.sinks.streams import Stream
from tests.sinks.test_sinks import refusal

pytestmark = [pytest.mark.real, pytest.mark.slow]

ME = Owner("j1", "q1")


def claim(number: int, *, nonce: str = "") -> Claim:
    return Claim(number, ME, attempt=number, nonce=nonce or f"n{number}", begins=0)


def written(attempt: int) -> Written:
    return Written(ME, attempt, 0, "d0")


class Interrupted(Folder):
    """A file system with somebody else at work exactly before one rename."""

    def __init__(self, spark: SparkSession, path: Path, *, before: Callable[[], None]) -> None:
        super().__init__(spark, str(path))
        self._before = before

    def rename(self, source: str, target: str) -> bool:
        if target.startswith("batch="):
            self._before()
        return super().rename(source, target)


def stage(spark: SparkSession, directory: Directory, claim: Claim, value: int) -> None:
    spark.createDataFrame([(value,)], "value bigint").coalesce(1).write.parquet(directory.staging(claim))


def test_a_driver_that_is_superseded_between_its_last_look_and_its_rename_publishes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    new = Directory(Folder(spark, str(path)))
    old = Directory(Interrupted(spark, path, before=lambda: assert_taken(new, claim(2))))
    assert old.take(claim(1))
    stage(spark, old, claim(1), 1)
    assert not old.publish(claim(1), 0, written(1))
    assert not list(path.glob("batch=*"))

    stage(spark, new, claim(2), 2)
    assert new.publish(claim(2), 0, written(2))
    assert [row.value for row in spark.read.parquet(str(path)).collect()] == [2]


def assert_taken(directory: Directory, claim: Claim) -> None:
    assert directory.take(claim)


def test_what_was_published_before_the_output_was_taken_is_seen_by_the_next(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "out"
    directory = Directory(Folder(spark, str(path)))
    assert directory.take(claim(1))
    stage(spark, directory, claim(1), 1)
    assert directory.publish(claim(1), 0, written(1))
    assert directory.take(claim(2))
    look = directory.look()
    assert (look.claim, look.last, look.written, look.next_id) == (claim(2), 0, written(1), 1)


def test_of_two_with_the_same_claim_number_one_wins(spark: SparkSession, tmp_path: Path) -> None:
    directory = Directory(Folder(spark, str(tmp_path / "out")))
    assert directory.take(claim(1, nonce="one"))
    assert not directory.take(claim(1, nonce="two"))
    assert directory.look().claim == claim(1, nonce="one")


def test_what_a_dead_driver_had_staged_is_cleared_away(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "out"
    directory = Directory(Folder(spark, str(path)))
    assert directory.take(claim(1))
    stage(spark, directory, claim(1), 1)
    assert directory.take(claim(2))
    assert sorted(file.name for file in (path / "_holdfast").iterdir() if file.is_dir()) == ["claim-1", "claim-2"]


def test_old_claims_are_forgotten_and_still_do_not_count_as_newest(spark: SparkSession, tmp_path: Path) -> None:
    directory = Directory(Folder(spark, str(tmp_path / "out")))
    last = CLAIMS_KEPT + 2
    for number in range(1, last + 1):
        assert directory.take(claim(number))
    kept = sorted(int(file.name.removeprefix("claim-")) for file in (tmp_path / "out" / "_holdfast").glob("claim-*"))
    assert kept == list(range(3, last + 1))
    assert directory.is_newest(claim(last)) and not directory.is_newest(claim(1))


def test_loose_files_are_not_hidden_behind_batches(spark: SparkSession, stream: Stream, tmp_path: Path) -> None:
    path = tmp_path / "out"
    spark.createDataFrame([(10,)], "value bigint").coalesce(1).write.parquet(str(path))
    stream.add(1)
    kind, sentence = refusal(lambda: stream.run(parquet(str(path), adopt="nobody")))
    assert kind == OutputRefused.__name__
    assert f"move what is to be kept into {path}/batch=0" in sentence

    (path / "batch=0").mkdir()
    for file in path.glob("*part-*"):
        file.rename(path / "batch=0" / file.name)
    stream.run(parquet(str(path), adopt="nobody"))
    assert sorted(row.value for row in spark.read.parquet(str(path)).collect()) == [1, 10]


def test_an_output_that_lost_its_newest_batch_is_not_continued(spark: SparkSession, stream: Stream, tmp_path: Path) -> None:
    output = ParquetOutput(spark, tmp_path)
    stream.add(1)
    stream.add(2)
    stream.run(output.sink())
    (output.path / "batch=1").rename(tmp_path / "taken away")
    stream.add(3)
    kind, sentence = refusal(lambda: stream.run(output.sink(), attempt=2))
    assert kind == OutputRefused.__name__ and f"{output.path} waits for batch 1, but this is batch 2" in sentence


def test_a_sink_outside_of_a_stream_says_so(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="other than foreachBatch"):
        parquet(str(tmp_path / "out"))(spark.range(1), 0)
    assert not os.path.exists(tmp_path / "out")


def test_a_column_that_readers_could_not_tell_from_the_batch_is_refused(stream: Stream, tmp_path: Path) -> None:
    sink = parquet(str(tmp_path / "out"))
    stream.add(1)
    kind, sentence = refusal(lambda: stream.run(lambda frame, batch_id: sink(frame.selectExpr("value AS Batch"), batch_id)))
    assert kind == Refused.__name__ and sentence.startswith("a column named 'batch' cannot be written")
