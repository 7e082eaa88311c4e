"""Verdict of Spark: whether a query continues correctly from a checkpoint."""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from tests.oracle.program import Program
from tests.oracle.scene import QueryScene, Rows
from tests.oracle.session import SPARK_ERRORS, BatchWriter, describe_error, output_rows, run

ERROR_SHOWN = 400
RIGHT, FAILS, WRONG_ROWS = "goes on", "fails", "wrong rows"


@dataclass(frozen=True, slots=True)
class Answer:
    verdict: str
    """`goes on`, `fails` or `wrong rows`."""
    detail: str = ""


def ask(spark: SparkSession, program: Program, scene: QueryScene, expected: Rows) -> Answer:
    """Let Spark continue with the remaining input, and compare the rows with those of an undisturbed run."""
    error = run(spark, program, scene, BatchWriter(scene.out), later=True)
    if error is not None:
        return Answer(FAILS, error[:ERROR_SHOWN])
    try:
        actual = output_rows(spark, program, scene)
    except SPARK_ERRORS as unreadable:
        return Answer(FAILS, f"output: {describe_error(unreadable)}"[:ERROR_SHOWN])
    return compare_rows(expected, actual)


def compare_rows(expected: Rows, actual: Rows) -> Answer:
    missing, additional = expected - actual, actual - expected
    if not missing and not additional:
        return Answer(RIGHT)
    examples = f"for example {next(iter(missing or additional))}"
    return Answer(WRONG_ROWS, f"{missing.total()} missing, {additional.total()} additional; {examples}")
