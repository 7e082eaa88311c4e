"""What every sink promises, with a real Spark: each row once, whoever repeats what, and nothing into what is another's."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from holdfast.driver.failure_message import describe
from tests.sinks.outputs import Output
from tests.sinks.streams import Stream

pytestmark = [pytest.mark.real, pytest.mark.slow]


def refusal(run: Callable[[], None]) -> tuple[str, str]:
    """The kind of the error, and the sentence that a person reads."""
    with pytest.raises(StreamingQueryException) as caught:
        run()
    failure = describe(caught.value, "/nowhere/script.py")
    return failure.exception, failure.reason


def test_each_row_is_there_once_and_batches_are_contiguous(stream: Stream, output: Output) -> None:
    for values in ((1, 2), (-1,), (3,)):
        stream.add(*values)
    stream.run(output.sink())
    assert (output.values(), output.batches()) == ([1, 2, 3], [0, 1, 2]), "a batch without rows counts as well"


def test_a_batch_that_took_effect_before_a_crash_is_not_written_again(stream: Stream, output: Output) -> None:
    stream.add(1, 2)
    stream.add(3)
    stream.run(output.sink())
    stream.forget_commit(1)
    stream.add(4)
    stream.run(output.sink(), attempt=2)
    assert (output.values(), output.batches()) == ([1, 2, 3, 4], [0, 1, 2])


def test_a_batch_with_state_that_took_effect_before_a_crash_counts_in_the_state(stream: Stream, output: Output) -> None:
    stream.stateful = True
    stream.add(1, 11)
    stream.add(1, 2)
    stream.run(output.sink())
    stream.forget_commit(1)
    stream.add(1, 2)
    stream.run(output.sink(), attempt=2)
    assert (output.values(), output.batches()) == ([1002, 1003, 1004, 2001, 2002], [0, 1, 2])


def test_a_driver_that_dies_within_a_batch_leaves_nothing_of_it(stream: Stream, output: Output) -> None:
    stream.add(1)
    stream.run(output.sink())
    stream.add(2, 3)
    sink = output.sink()

    def half(frame: DataFrame, batch_id: int) -> None:
        sink(frame.selectExpr("value div (value - 3) AS value"), batch_id)

    kind, _ = refusal(lambda: stream.run(half, attempt=2))
    assert kind not in ("OutputRefused", "Superseded")
    assert (output.values(), output.batches()) == ([1], [0])
    stream.run(output.sink(), attempt=3)
    assert (output.values(), output.batches()) == ([1, 2, 3], [0, 1])


def test_a_superseded_attempt_writes_nothing(stream: Stream, output: Output) -> None:
    stream.add(1)
    early = output.sink()
    stream.run(early, attempt=1)
    stream.add(2)
    stream.run(output.sink(), attempt=2)
    stream.add(3)
    for late in (early, output.sink()):
        kind, sentence = refusal(lambda late=late: stream.run(late, attempt=1))  # type: ignore[misc]
        assert kind == "Superseded"
        assert sentence.endswith(f"has taken over {output.shown}, so attempt 1 writes nothing more there")
    assert output.values() == [1, 2]
    stream.run(output.sink(), attempt=3)
    assert (output.values(), output.batches()) == ([1, 2, 3], [0, 1, 2])


def test_anothers_output_is_refused_and_continued_if_a_person_says_whose(
    spark: SparkSession, tmp_path: Path, output: Output
) -> None:
    mine, other = Stream(spark, tmp_path, job="j1"), Stream(spark, tmp_path, job="j2")
    mine.add(1)
    other.run(output.sink(), attempt=7)
    assert refusal(lambda: mine.run(output.sink())) == (
        "OutputRefused",
        f"{output.shown} belongs to the query {other.query} of the job j2, which is not this one: choose another place, or "
        f"continue it with adopt='{other.owner}'",
    )
    assert output.values() == [1]

    mine.run(output.sink(adopt=other.owner))
    mine.add(2)
    mine.run(output.sink(adopt=other.owner), attempt=2)
    assert output.values() == [1, 1, 2]
    assert refusal(lambda: other.run(output.sink(), attempt=8))[0] == "OutputRefused", "it is not the other's any more"
    assert output.values() == [1, 1, 2]


def test_an_output_that_says_nothing_is_refused_and_can_be_adopted(stream: Stream, output: Output) -> None:
    output.put(10)
    stream.add(1)
    kind, sentence = refusal(lambda: stream.run(output.sink()))
    assert kind == "OutputRefused"
    assert sentence.startswith(f"{output.shown} exists already, and nothing there says whose it is: choose another place, or")
    assert output.values() == [10]
    stream.run(output.sink(adopt="nobody"))
    stream.add(2)
    stream.run(output.sink(adopt="nobody"), attempt=2)
    assert output.values() == [1, 2, 10]


def test_a_lost_checkpoint_does_not_fill_the_output_a_second_time(spark: SparkSession, tmp_path: Path, output: Output) -> None:
    before = Stream(spark, tmp_path)
    before.add(1)
    before.run(output.sink())
    before.checkpoint.rename(tmp_path / "gone")
    kind, sentence = refusal(lambda: before.run(output.sink(), attempt=2))
    assert kind == "OutputRefused" and f"{output.shown} belongs to the query" in sentence
    assert output.values() == [1]


def test_a_batch_that_now_covers_something_else_is_no_repetition(stream: Stream, output: Output) -> None:
    stream.add(1)
    stream.run(output.sink())
    stream.forget_commit(0)
    stream.tamper_with_offsets(0)
    kind, sentence = refusal(lambda: stream.run(output.sink(), attempt=2))
    assert kind == "OutputRefused"
    assert sentence.startswith(f"{output.shown} has a batch 0 already, made of other input")


def test_a_query_that_comes_from_elsewhere_says_so_before_it_begins(stream: Stream, output: Output, tmp_path: Path) -> None:
    stream.add(1)
    stream.run(lambda frame, batch_id: None)
    stream.add(2)
    kind, sentence = refusal(lambda: stream.run(output.sink()))
    assert kind == "OutputRefused" and sentence.startswith(f"{output.shown} is new, but this is batch 1")
    stream.run(output.sink(adopt="nobody"))
    assert output.values() == [2]


def test_without_a_job_the_query_is_the_owner(spark: SparkSession, tmp_path: Path, output: Output) -> None:
    stream = Stream(spark, tmp_path, job="")
    stream.add(1)
    stream.run(output.sink())
    stream.forget_commit(0)
    stream.add(2)
    stream.run(output.sink())
    assert (output.values(), output.batches()) == ([1, 2], [0, 1])
    stranger = Stream(spark, tmp_path, job="j1")
    _, sentence = refusal(lambda: stranger.run(output.sink()))
    assert f"belongs to the query {stream.query}, which no job owns" in sentence
