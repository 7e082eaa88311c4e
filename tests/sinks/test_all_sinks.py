"""Guarantees of every sink, with real Spark: each row once, and no writes to foreign outputs."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from holdfast.driver.failure_message import describe_failure
from tests.sinks.outputs import SinkOutput
from tests.sinks.streams import SinkStream

pytestmark = [pytest.mark.real, pytest.mark.slow]


def run_refused(run: Callable[[], None]) -> tuple[str, str]:
    """Run a stream that must fail. Return the exception type and the message."""
    with pytest.raises(StreamingQueryException) as caught:
        run()
    failure = describe_failure(caught.value, "/nowhere/script.py")
    return failure.exception, failure.reason


def test_each_row_is_written_once_and_batches_are_contiguous(stream: SinkStream, output: SinkOutput) -> None:
    for values in ((1, 2), (-1,), (3,)):
        stream.add_batch(*values)
    stream.run(output.sink())
    assert (output.values(), output.batches()) == ([1, 2, 3], [0, 1, 2]), "a batch without rows is recorded, too"


def test_batch_written_before_a_crash_is_not_written_again(stream: SinkStream, output: SinkOutput) -> None:
    stream.add_batch(1, 2)
    stream.add_batch(3)
    stream.run(output.sink())
    stream.remove_commit(1)
    stream.add_batch(4)
    stream.run(output.sink(), attempt=2)
    assert (output.values(), output.batches()) == ([1, 2, 3, 4], [0, 1, 2])


def test_skipped_batch_still_updates_the_state_of_the_query(stream: SinkStream, output: SinkOutput) -> None:
    stream.stateful = True
    stream.add_batch(1, 11)
    stream.add_batch(1, 2)
    stream.run(output.sink())
    stream.remove_commit(1)
    stream.add_batch(1, 2)
    stream.run(output.sink(), attempt=2)
    assert (output.values(), output.batches()) == ([1002, 1003, 1004, 2001, 2002], [0, 1, 2])


def test_failed_batch_leaves_no_rows(stream: SinkStream, output: SinkOutput) -> None:
    stream.add_batch(1)
    stream.run(output.sink())
    stream.add_batch(2, 3)
    sink = output.sink()

    def half(frame: DataFrame, batch_id: int) -> None:
        sink(frame.selectExpr("value div (value - 3) AS value"), batch_id)

    kind, _ = run_refused(lambda: stream.run(half, attempt=2))
    assert kind not in ("OutputRefused", "Superseded")
    assert (output.values(), output.batches()) == ([1], [0])
    stream.run(output.sink(), attempt=3)
    assert (output.values(), output.batches()) == ([1, 2, 3], [0, 1])


def test_superseded_attempt_writes_nothing(stream: SinkStream, output: SinkOutput) -> None:
    stream.add_batch(1)
    early = output.sink()
    stream.run(early, attempt=1)
    stream.add_batch(2)
    stream.run(output.sink(), attempt=2)
    stream.add_batch(3)
    for late in (early, output.sink()):
        kind, sentence = run_refused(lambda late=late: stream.run(late, attempt=1))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        assert kind == "Superseded"
        assert sentence.endswith(f"has taken over {output.label}, so attempt 1 no longer writes to it")
    assert output.values() == [1, 2]
    stream.run(output.sink(), attempt=3)
    assert (output.values(), output.batches()) == ([1, 2, 3], [0, 1, 2])


def test_foreign_output_is_refused_unless_adopted(spark: SparkSession, tmp_path: Path, output: SinkOutput) -> None:
    mine, other = SinkStream(spark, tmp_path, job="j1"), SinkStream(spark, tmp_path, job="j2")
    mine.add_batch(1)
    other.run(output.sink(), attempt=7)
    assert run_refused(lambda: mine.run(output.sink())) == (
        "OutputRefused",
        f"{output.label} belongs to the query {other.query} of the job j2: choose another output, or continue this one with "
        f"adopt='{other.owner}'",
    )
    assert output.values() == [1]

    mine.run(output.sink(adopt=other.owner))
    mine.add_batch(2)
    mine.run(output.sink(adopt=other.owner), attempt=2)
    assert output.values() == [1, 1, 2]
    assert run_refused(lambda: other.run(output.sink(), attempt=8))[0] == "OutputRefused", (
        "the output no longer belongs to the other query"
    )
    assert output.values() == [1, 1, 2]


def test_output_without_owner_is_refused_unless_adopted(stream: SinkStream, output: SinkOutput) -> None:
    output.add_foreign_row(10)
    stream.add_batch(1)
    kind, sentence = run_refused(lambda: stream.run(output.sink()))
    assert kind == "OutputRefused"
    assert sentence.startswith(f"{output.label} already contains data without a recorded owner: choose another output, or")
    assert output.values() == [10]
    stream.run(output.sink(adopt="nobody"))
    stream.add_batch(2)
    stream.run(output.sink(adopt="nobody"), attempt=2)
    assert output.values() == [1, 2, 10]


def test_new_checkpoint_is_refused_for_an_existing_output(spark: SparkSession, tmp_path: Path, output: SinkOutput) -> None:
    before = SinkStream(spark, tmp_path)
    before.add_batch(1)
    before.run(output.sink())
    before.checkpoint.rename(tmp_path / "gone")
    kind, sentence = run_refused(lambda: before.run(output.sink(), attempt=2))
    assert kind == "OutputRefused" and f"{output.label} belongs to the query" in sentence
    assert output.values() == [1]


def test_repeated_batch_with_different_offsets_is_refused(stream: SinkStream, output: SinkOutput) -> None:
    stream.add_batch(1)
    stream.run(output.sink())
    stream.remove_commit(0)
    stream.tamper_with_offsets(0)
    kind, sentence = run_refused(lambda: stream.run(output.sink(), attempt=2))
    assert kind == "OutputRefused"
    assert sentence.startswith(f"{output.label} already contains batch 0, made from different input")


def test_new_output_for_a_later_batch_is_refused_unless_adopted(stream: SinkStream, output: SinkOutput, tmp_path: Path) -> None:
    stream.add_batch(1)
    stream.run(lambda frame, batch_id: None)
    stream.add_batch(2)
    kind, sentence = run_refused(lambda: stream.run(output.sink()))
    assert kind == "OutputRefused" and sentence.startswith(f"{output.label} is new, but this is batch 1")
    stream.run(output.sink(adopt="nobody"))
    assert output.values() == [2]


def test_query_without_a_job_owns_its_output(spark: SparkSession, tmp_path: Path, output: SinkOutput) -> None:
    stream = SinkStream(spark, tmp_path, job="")
    stream.add_batch(1)
    stream.run(output.sink())
    stream.remove_commit(0)
    stream.add_batch(2)
    stream.run(output.sink())
    assert (output.values(), output.batches()) == ([1, 2], [0, 1])
    other_job = SinkStream(spark, tmp_path, job="j1")
    _, sentence = run_refused(lambda: other_job.run(output.sink()))
    assert f"belongs to the query {stream.query}, which ran without Holdfast" in sentence
