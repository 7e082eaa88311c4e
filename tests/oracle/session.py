"""One Spark session for all cells, and runs of a query in it."""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.harness.waiting import wait_until
from tests.oracle.kafka_topics import create_topic, read_topic
from tests.oracle.program import Program, StepsInput
from tests.oracle.scene import SCHEMA, STEPS_BEFORE, QueryScene, Rows, written_batches

ROOT = Path(__file__).parents[2]
QUERY_TIMEOUT_S = 90
SPARK_ERRORS = (PySparkException, Py4JError)
"""Errors of Spark that PySpark translates, and errors of Java that it does not."""
SNAPSHOT_TIMEOUT_S = 5.0
ENDLESS_TIMEOUT_S = 40.0
CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.session.timeZone": "UTC",
    # Batches have six rows: compiling code for them costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.authenticate.socketTimeout": "120s",
    # Background maintenance writes snapshots and removes old versions.
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
}


@contextmanager
def spark_session(home: Path, conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    builder = SparkSession.builder.master("local[1]").appName("oracle").config("spark.sql.warehouse.dir", str(home))
    for key, value in {**CONF, **(conf or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def settings(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in conf:
            spark.conf.unset(key)


class BatchFailure(Exception):
    """Failure of a batch on purpose."""


class BatchWriter:
    """Sink of foreachBatch: one file per batch, so that a repeated batch replaces its rows."""

    def __init__(self, out: Path, *, fails: bool = False, wait_in_last: "StateSnapshots | None" = None) -> None:
        self._out = out
        self._fails = fails
        self._snapshots = wait_in_last

    def __call__(self, batch: DataFrame, number: int) -> None:
        lines = sorted(json.dumps([str(value) for value in row]) for row in batch.collect())
        if self._snapshots is not None:
            self._snapshots.wait(number)
        if self._fails:
            raise BatchFailure(f"batch {number} fails on purpose")
        write_lines(self._out / f"{number}.json", lines)


def write_lines(file: Path, lines: list[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines))


class RowWriter:
    """Sink of foreach: one file per epoch and partition."""

    def __init__(self, out: str) -> None:
        self._out = out

    def open(self, partition: int, epoch: int) -> bool:
        self._file = Path(self._out) / f"{epoch}-{partition}.json"
        self._lines: list[str] = []
        return True

    def process(self, row: Row) -> None:
        self._lines.append(json.dumps([str(value) for value in row]))

    def close(self, error: Exception | None) -> None:
        if error is None:
            write_lines(self._file, self._lines)


class StateSnapshots:
    """Waits in a batch until background maintenance has written a snapshot of the newest version of each state store."""

    def __init__(self, checkpoint: Path) -> None:
        self._state = checkpoint / "state"

    def wait(self, batch: int) -> None:
        if batch == STEPS_BEFORE - 1:
            with suppress(AssertionError):  # a store without changes has none
                wait_until(self._are_there, SNAPSHOT_TIMEOUT_S, "snapshots of all state stores")

    def _are_there(self) -> bool:
        stores = {file.parent for file in self._state.glob("**/2*.*") if file.suffix in {".delta", ".changelog"}}
        return all(any(file.suffix in {".snapshot", ".zip"} for file in store.iterdir()) for store in stores)


def run(spark: SparkSession, program: Program, scene: QueryScene, sink: BatchWriter, *, later: bool = False) -> str | None:
    """Run a query until it has read all input. Return the error that ends it, or None."""
    error = _run_once(spark, program, scene, sink, later=later)
    if error is None and program.trigger == "once" and later:
        return _run_once(spark, program, scene, sink, later=later)  # a first run only repeats a batch without a commit
    return error


def _run_once(spark: SparkSession, program: Program, scene: QueryScene, sink: BatchWriter, *, later: bool) -> str | None:
    with settings(spark, program.conf):
        try:
            plan = program.later if later and program.later is not None else program.plan
            query = _start(plan(StepsInput(spark, scene.input)), program, scene, sink, later=later)
        except SPARK_ERRORS as error:
            return describe_error(error)
        try:
            return _read_all_input(query, program, scene)
        except SPARK_ERRORS as error:
            return describe_error(error)
        finally:
            query.stop()


def _read_all_input(query: StreamingQuery, program: Program, scene: QueryScene) -> str | None:
    if program.trigger == "processingTime":
        query.processAllAvailable()
        return None
    if not program.is_endless:
        timeout_s = QUERY_TIMEOUT_S + 2 * program.steps_before
        return None if query.awaitTermination(timeout_s) else f"does not end within {timeout_s} s"
    expected = input_rows(scene.input)

    def has_all_rows() -> bool:
        return not query.isActive or expected.keys() <= set(chain.from_iterable(written_batches(scene.out)))

    try:
        wait_until(has_all_rows, ENDLESS_TIMEOUT_S, "all rows of the input in the output")
        commits = newest_commit(scene)
        wait_until(lambda: not query.isActive or newest_commit(scene) > commits, ENDLESS_TIMEOUT_S, "a commit after the rows")
    except AssertionError:
        return None  # the comparison of the rows tells which are missing
    error = query.exception()
    return describe_error(error) if error is not None else None


def newest_commit(scene: QueryScene) -> int:
    return scene.newest_batch("commits") if (scene.checkpoint / "commits").is_dir() else -1


def _start(rows: DataFrame, program: Program, scene: QueryScene, sink: BatchWriter, *, later: bool) -> StreamingQuery:
    if program.sink == "kafka":
        rows = rows.select(f.to_json(f.struct("*")).alias("value"))
    writer = rows.writeStream.outputMode(program.mode).option("checkpointLocation", str(scene.checkpoint))
    writer = _with_trigger(writer.options(**program.options), program.trigger)
    if program.sink_names is not None:
        writer._jwrite = writer._jwrite.name(program.sink_names[later])  # PySpark 4.3 lacks this method
    if program.sink == "parquet":
        return writer.format("parquet").start(str(scene.out))
    if program.sink == "kafka":
        bootstrap = read_topic(scene.input).bootstrap
        topic = create_topic(bootstrap)
        write_lines(scene.out / topic, [])
        return writer.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).start()
    return (writer.foreach(RowWriter(str(scene.out))) if program.sink == "foreach" else writer.foreachBatch(sink)).start()


def _with_trigger(writer: DataStreamWriter, trigger: str) -> DataStreamWriter:
    match trigger:
        case "availableNow":
            return writer.trigger(availableNow=True)
        case "once":
            return writer.trigger(once=True)
        case "continuous":
            return writer.trigger(continuous="200 milliseconds")
        case "realTime":
            real_time: DataStreamWriter = writer.trigger(realTime="2 seconds")  # type: ignore[call-overload]  # PySpark does not declare this argument
            return real_time
        case _:
            return writer.trigger(processingTime="0 seconds")


def describe_error(error: Exception) -> str:
    """Return the first line of an error without the name of the query."""
    text = " ".join(str(error).split("JVM stacktrace")[0].split("\tat ")[0].split())
    return text.partition("terminated with exception: ")[2] or text


def output_rows(spark: SparkSession, program: Program, scene: QueryScene) -> Rows:
    """Return the rows of the sink. Raises PySparkException if a reader fails."""
    if not scene.out.is_dir():
        return Counter()
    if program.sink in {"batches", "foreach"}:
        rows = compared_rows(program, written_batches(scene.out))
    else:
        frame = _read_topics(spark, scene) if program.sink == "kafka" else spark.read.parquet(str(scene.out))
        rows = Counter(json.dumps([str(value) for value in row]) for row in frame.collect())
    return Counter(rows.keys()) if program.at_least_once else rows


def compared_rows(program: Program, batches: list[list[str]]) -> Rows:
    """Return the rows of the last batch, the last row of each key, or all rows.

    A batch may be planned again with other input if it had no effect. Then rows that only tell of its end differ rightly.
    """
    if program.mode == "complete":
        return Counter(batches[-1] if batches else [])
    if program.key_columns is None:
        return Counter(chain.from_iterable(batches))
    last = {tuple(json.loads(line)[: program.key_columns]): line for batch in batches for line in batch}
    return Counter(last.values())


def _read_topics(spark: SparkSession, scene: QueryScene) -> DataFrame:
    """Return the records that all runs of a query have written, each run to its own topic."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", read_topic(scene.input).bootstrap)
    topics = ",".join(file.name for file in scene.out.iterdir())
    records = reader.option("subscribe", topics).load()
    return records.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("row")).select("row.n", "row.key")


def input_rows(folder: Path) -> Rows:
    """Return number and key of each row of the input, as a query that selects them writes them."""
    rows = (json.loads(line) for file in folder.glob("*.json") for line in file.read_text().splitlines())
    return Counter(json.dumps([str(row["n"]), row["key"]]) for row in rows)
