"""Deaths and operations that need a running Spark: batches that fail, repartition of the state."""

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from tests.oracle.death import die_before_commit, die_in_first_batch
from tests.oracle.killed import MOMENTS, DriverSurvived, run_killed_driver
from tests.oracle.program import Program
from tests.oracle.scene import QueryScene
from tests.oracle.session import SPARK_ERRORS, BatchWriter, describe_error, run, settings

Operation = Callable[[SparkSession, Program, QueryScene], None]


class OperationFailed(Exception):
    """Spark did not do what the operation asks for."""


def fail_in_next_batch(spark: SparkSession, program: Program, scene: QueryScene) -> None:
    """Let the sink raise in the first batch after the restart."""
    error = run(spark, program, scene, BatchWriter(scene.out, fails=True))
    if error is None or "on purpose" not in error:
        raise OperationFailed(f"the batch did not fail: {error}")


def fail_twice(spark: SparkSession, program: Program, scene: QueryScene) -> None:
    """Fail in the same batch in two runs, so that its state is written twice."""
    fail_in_next_batch(spark, program, scene)
    fail_in_next_batch(spark, program, scene)


def fail_in_first_batch(spark: SparkSession, program: Program, scene: QueryScene) -> None:
    """Fail in the first batch of a query whose folders were empty but for what precedes its tasks."""
    die_in_first_batch(scene)
    fail_in_next_batch(spark, program, scene)


def repartition_to(partitions: int) -> Operation:
    def repartition(spark: SparkSession, program: Program, scene: QueryScene) -> None:
        with settings(spark, program.conf):
            try:
                spark._streamingCheckpointManager.repartition(str(scene.checkpoint), partitions)
            except SPARK_ERRORS as error:
                raise OperationFailed(describe_error(error)) from None

    return repartition


def fail_in_repartition(spark: SparkSession, program: Program, scene: QueryScene) -> None:
    """Begin a repartition that Spark refuses after it has planned its batch: only RocksDB supports it."""
    try:
        repartition_to(3)(spark, program, scene)
    except OperationFailed:
        return
    raise OperationFailed("the repartition did not fail")


def die_in_repartition(spark: SparkSession, program: Program, scene: QueryScene) -> None:
    """Remove the commit that a repartition writes last."""
    repartition_to(3)(spark, program, scene)
    die_before_commit(scene)


def repartition_twice(spark: SparkSession, program: Program, scene: QueryScene) -> None:
    repartition_to(3)(spark, program, scene)
    repartition_to(1)(spark, program, scene)


def run_after_repartition(spark: SparkSession, program: Program, scene: QueryScene) -> None:
    """Fail in the first batch after a repartition."""
    repartition_to(3)(spark, program, scene)
    fail_in_next_batch(spark, program, scene)


def kill_driver(moment: str) -> Operation:
    """Return the operation that continues the query in another process, which SIGKILL ends in the next batch."""

    def kill(_: SparkSession, program: Program, scene: QueryScene) -> None:
        try:
            run_killed_driver(program, scene, moment)
        except DriverSurvived as survived:
            raise OperationFailed(str(survived)) from None

    return kill


OPERATIONS: Mapping[str, Operation] = {
    "failed batch": fail_in_next_batch,
    "failed batch twice": fail_twice,
    "failed first batch": fail_in_first_batch,
    "repartitioned to 3": repartition_to(3),
    "repartitioned to 1": repartition_to(1),
    "repartitioned twice": repartition_twice,
    "killed in repartition": die_in_repartition,
    "failed repartition": fail_in_repartition,
    "failed batch after repartition": run_after_repartition,
    **{f"killed {moment}": kill_driver(moment) for moment in MOMENTS},
}
