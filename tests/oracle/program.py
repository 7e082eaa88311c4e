"""Query of the matrix: its plan, its sink, its trigger, and what its output is compared with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.oracle.kafka_topics import read_topic
from tests.oracle.python_source import StepsSource
from tests.oracle.scene import ROWS_PER_STEP, SCHEMA, STEPS_BEFORE


class StepsInput:
    """Streams over the input of a scene."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def rows(self, *, schema: str = SCHEMA, source: str = "") -> DataFrame:
        """Return the rows of the files, one file per batch. `source` names the source."""
        reader = self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return (reader.name(source) if source else reader).json(str(self._folder))

    def timed(self, delay: str = "30 seconds") -> DataFrame:
        return self.rows().withWatermark("at", delay)

    def kafka_rows(self) -> DataFrame:
        topic = read_topic(self._folder)
        reader = self._spark.readStream.format("kafka").option("kafka.bootstrap.servers", topic.bootstrap)
        reader = reader.option("subscribe", topic.name).option("startingOffsets", "earliest")
        records = reader.option("maxOffsetsPerTrigger", ROWS_PER_STEP).load()
        return records.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("row")).select("row.*")

    def counted_in_java(self) -> DataFrame:
        """Return counts per key of flatMapGroupsWithState."""
        assert self._spark._jvm is not None
        return DataFrame(self._spark._jvm.CountWithState.count(self.rows()._jdf), self._spark)

    def python_rows(self) -> DataFrame:
        self._spark.dataSource.register(StepsSource)
        return self._spark.readStream.format("steps").option("folder", str(self._folder)).load()


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    plan: Callable[[StepsInput], DataFrame]
    mode: str = "append"
    sink: str = "batches"
    """`batches` (foreachBatch with one file per batch id), `foreach`, `parquet` (Spark's file sink) or `kafka`."""
    key_columns: int | None = None
    """Number of leading columns that are the key, if the last row of each key is compared. None: all rows are compared."""
    trigger: str = "availableNow"
    source: str = "files"
    needs_java_classes: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the writer."""
    needs_rocksdb: bool = False
    stateful: bool = True
    later: Callable[[StepsInput], DataFrame] | None = None
    """Plan after the restart, if it differs."""
    sink_names: tuple[str, str] | None = None
    """Names of the sink before and after the restart."""
    steps_before: int = STEPS_BEFORE
    step_by_step: bool = False
    """True if each step before the stop needs its own run, to be a batch of its own."""
    expected: str = "undisturbed"
    """`undisturbed`: rows of a run without a stop. `continued`: rows after a stop. `input`: numbers and keys of the input."""
    at_least_once: bool = False
    """True if the sink may get rows twice after a death."""

    @property
    def is_endless(self) -> bool:
        """True if the trigger neither ends the query nor tells when all input is read."""
        return self.trigger in {"continuous", "realTime"}
