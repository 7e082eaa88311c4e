"""Parquet sink: staging directories, renames, and existing files."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.errors import OutputRefused, Refused
from holdfast.sinks import parquet
from holdfast.sinks.batch_directory import CLAIMS_KEPT, BatchDirectory, BatchRecord
from holdfast.sinks.batch_ledger import Owner
from holdfast.sinks.hadoop_files import HadoopFolder
from holdfast.sinks.output_claim import OutputClaim
from tests.sinks.outputs import ParquetOutput
from tests.sinks.streams import SinkStream
from tests.sinks.test_all_sinks import run_refused

pytestmark = [pytest.mark.real, pytest.mark.slow]

ME = Owner("j1", "q1")


def make_claim(number: int, *, nonce: str = "") -> OutputClaim:
    return OutputClaim(number, ME, attempt=number, nonce=nonce or f"n{number}", begins=0)


def batch_record(attempt: int) -> BatchRecord:
    return BatchRecord(ME, attempt, 0, "d0")


class InterruptedHadoopFolder(HadoopFolder):
    """Folder that runs a callback right before a batch is published."""

    def __init__(self, spark: SparkSession, path: Path, *, before: Callable[[], None]) -> None:
        super().__init__(spark, str(path))
        self._before = before

    def rename(self, source: str, target: str) -> bool:
        if target.startswith("batch="):
            self._before()
        return super().rename(source, target)


def stage_batch(spark: SparkSession, directory: BatchDirectory, claim: OutputClaim, value: int) -> None:
    spark.createDataFrame([(value,)], "value bigint").coalesce(1).write.parquet(directory.staging_uri(claim))


def test_driver_superseded_between_check_and_rename_publishes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "out"
    new = BatchDirectory(HadoopFolder(spark, str(path)))
    old = BatchDirectory(InterruptedHadoopFolder(spark, path, before=lambda: acquire(new, make_claim(2))))
    assert old.acquire(make_claim(1))
    stage_batch(spark, old, make_claim(1), 1)
    assert not old.publish(make_claim(1), 0, batch_record(1))
    assert not list(path.glob("batch=*"))

    stage_batch(spark, new, make_claim(2), 2)
    assert new.publish(make_claim(2), 0, batch_record(2))
    assert [row.value for row in spark.read.parquet(str(path)).collect()] == [2]


def acquire(directory: BatchDirectory, claim: OutputClaim) -> None:
    assert directory.acquire(claim)


def test_next_claim_sees_batches_published_before_it(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "out"
    directory = BatchDirectory(HadoopFolder(spark, str(path)))
    assert directory.acquire(make_claim(1))
    stage_batch(spark, directory, make_claim(1), 1)
    assert directory.publish(make_claim(1), 0, batch_record(1))
    assert directory.acquire(make_claim(2))
    state = directory.read_state()
    assert (state.claim, state.last_number, state.last_record, state.next_id) == (make_claim(2), 0, batch_record(1), 1)


def test_one_of_two_claims_with_the_same_number_wins(spark: SparkSession, tmp_path: Path) -> None:
    directory = BatchDirectory(HadoopFolder(spark, str(tmp_path / "out")))
    assert directory.acquire(make_claim(1, nonce="one"))
    assert not directory.acquire(make_claim(1, nonce="two"))
    assert directory.read_state().claim == make_claim(1, nonce="one")


def test_staging_directory_of_a_dead_driver_is_removed(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "out"
    directory = BatchDirectory(HadoopFolder(spark, str(path)))
    assert directory.acquire(make_claim(1))
    stage_batch(spark, directory, make_claim(1), 1)
    assert directory.acquire(make_claim(2))
    assert sorted(file.name for file in (path / "_holdfast").iterdir() if file.is_dir()) == ["claim-1", "claim-2"]


def test_old_claims_are_deleted_and_never_count_as_newest(spark: SparkSession, tmp_path: Path) -> None:
    directory = BatchDirectory(HadoopFolder(spark, str(tmp_path / "out")))
    last = CLAIMS_KEPT + 2
    for number in range(1, last + 1):
        assert directory.acquire(make_claim(number))
    numbers = sorted(int(file.name.removeprefix("claim-")) for file in (tmp_path / "out" / "_holdfast").glob("claim-*"))
    assert numbers == list(range(3, last + 1))
    assert directory.is_newest(make_claim(last)) and not directory.is_newest(make_claim(1))


def test_directory_with_loose_files_is_refused(spark: SparkSession, stream: SinkStream, tmp_path: Path) -> None:
    path = tmp_path / "out"
    spark.createDataFrame([(10,)], "value bigint").coalesce(1).write.parquet(str(path))
    stream.add_batch(1)
    kind, sentence = run_refused(lambda: stream.run(parquet(str(path), adopt="nobody")))
    assert kind == OutputRefused.__name__
    assert "move the files to keep into its folder batch=0" in sentence

    (path / "batch=0").mkdir()
    for file in path.glob("*part-*"):
        file.rename(path / "batch=0" / file.name)
    stream.run(parquet(str(path), adopt="nobody"))
    assert sorted(row.value for row in spark.read.parquet(str(path)).collect()) == [1, 10]


def test_output_without_its_newest_batch_is_refused(spark: SparkSession, stream: SinkStream, tmp_path: Path) -> None:
    output = ParquetOutput(spark, tmp_path)
    stream.add_batch(1)
    stream.add_batch(2)
    stream.run(output.sink())
    (output.path / "batch=1").rename(tmp_path / "taken away")
    stream.add_batch(3)
    kind, sentence = run_refused(lambda: stream.run(output.sink(), attempt=2))
    assert kind == OutputRefused.__name__ and f"{output.path} expects batch 1, but this is batch 2" in sentence


def test_sink_outside_of_foreach_batch_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="works only inside foreachBatch"):
        parquet(str(tmp_path / "out"))(spark.range(1), 0)
    assert not os.path.exists(tmp_path / "out")


def test_column_named_batch_is_refused(stream: SinkStream, tmp_path: Path) -> None:
    sink = parquet(str(tmp_path / "out"))
    stream.add_batch(1)
    kind, sentence = run_refused(lambda: stream.run(lambda frame, batch_id: sink(frame.selectExpr("value AS Batch"), batch_id)))
    assert kind == Refused.__name__ and sentence.startswith("the Parquet sink cannot write a column named 'batch'")
