"""A query over a directory of files: one file is one batch, so that a test knows what each batch holds."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

Sink = Callable[[DataFrame, int], None]


class Stream:
    """One query of one job, in as many attempts as a test likes."""

    def __init__(self, spark: SparkSession, home: Path, *, job: str = "j1") -> None:
        self._spark = spark
        self._input = home / "input"
        self.checkpoint = home / f"checkpoint-{job}"
        self._input.mkdir(parents=True, exist_ok=True)
        self._job = job
        self.stateful = False

    def add(self, *values: int) -> None:
        """One more batch. Negative values are filtered out on the way."""
        number = len(list(self._input.iterdir()))
        file = self._input / f"{number:04}.json"
        file.write_text("".join(f"{json.dumps({'value': value})}\n" for value in values))
        os.utime(file, (number, number))  # the order in which Spark takes them

    def run(self, sink: Sink, *, attempt: int = 1) -> None:
        """All that there is. Raises what the query failed of."""
        values = self._spark.readStream.schema("value bigint").option("maxFilesPerTrigger", 1).json(str(self._input))
        rows = self._counted(values) if self.stateful else values.where("value >= 0")
        writer = rows.writeStream.outputMode("update").foreachBatch(sink).trigger(availableNow=True)
        with _in_job(self._job, attempt):
            query = writer.option("checkpointLocation", str(self.checkpoint)).start()
            try:
                query.awaitTermination()
            finally:
                query.stop()

    @staticmethod
    def _counted(values: DataFrame) -> DataFrame:
        """How many rows there were of each remainder of ten, so far: a row for each that has changed."""
        return values.groupBy((values.value % 10).alias("key")).count().selectExpr("1000 * key + count AS value")

    @property
    def query(self) -> str:
        """The id that its checkpoint keeps."""
        return str(json.loads((self.checkpoint / "metadata").read_text())["id"])

    @property
    def owner(self) -> str:
        return f"{self._job}/{self.query}"

    def forget_commit(self, batch: int) -> None:
        """As if the driver had died after the sink was done and before Spark knew."""
        for name in (str(batch), f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def tamper_with_offsets(self, batch: int) -> None:
        """As if the batch had been planned anew, at another time."""
        file = self.checkpoint / "offsets" / str(batch)
        file.write_text(file.read_text().replace('"batchTimestampMs":', '"batchTimestampMs":1'))
        (file.parent / f".{batch}.crc").unlink(missing_ok=True)


@contextmanager
def _in_job(job: str, attempt: int) -> Iterator[None]:
    """What the runner tells a driver."""
    said = {"HOLDFAST_JOB": job, "HOLDFAST_ATTEMPT": str(attempt)} if job else {}
    os.environ.update(said)
    try:
        yield
    finally:
        for name in said:
            del os.environ[name]
