"""Streaming query over a directory of files. Each file is one batch, so a test knows the rows of each batch."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

Sink = Callable[[DataFrame, int], None]


class SinkStream:
    """One query of one job, for any number of attempts."""

    def __init__(self, spark: SparkSession, home: Path, *, job: str = "j1") -> None:
        self._spark = spark
        self._input = home / "input"
        self.checkpoint = home / f"checkpoint-{job}"
        self._input.mkdir(parents=True, exist_ok=True)
        self._job = job
        self.stateful = False

    def add_batch(self, *values: int) -> None:
        """Add the input of one batch. The query filters out negative values."""
        number = len(list(self._input.iterdir()))
        file = self._input / f"{number:04}.json"
        file.write_text("".join(f"{json.dumps({'value': value})}\n" for value in values))
        os.utime(file, (number, number))  # Spark reads files in order of modification time

    def run(self, sink: Sink, *, attempt: int = 1) -> None:
        """Run the query over all remaining input. Raises the error of a failed query."""
        values = self._spark.readStream.schema("value bigint").option("maxFilesPerTrigger", 1).json(str(self._input))
        rows = self._running_counts(values) if self.stateful else values.where("value >= 0")
        writer = rows.writeStream.outputMode("update").foreachBatch(sink).trigger(availableNow=True)
        with _job_environment(self._job, attempt):
            query = writer.option("checkpointLocation", str(self.checkpoint)).start()
            try:
                query.awaitTermination()
            finally:
                query.stop()

    @staticmethod
    def _running_counts(values: DataFrame) -> DataFrame:
        """Count the rows per remainder of ten so far. Emits one row for each changed count."""
        return values.groupBy((values.value % 10).alias("key")).count().selectExpr("1000 * key + count AS value")

    @property
    def query(self) -> str:
        """Query id, as stored in the checkpoint."""
        return str(json.loads((self.checkpoint / "metadata").read_text())["id"])

    @property
    def owner(self) -> str:
        return f"{self._job}/{self.query}"

    def remove_commit(self, batch: int) -> None:
        """Remove a commit, as if the driver had died after the sink and before the commit."""
        for name in (str(batch), f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def tamper_with_offsets(self, batch: int) -> None:
        """Change the offsets of a batch, as if it had been planned again at another time."""
        file = self.checkpoint / "offsets" / str(batch)
        file.write_text(file.read_text().replace('"batchTimestampMs":', '"batchTimestampMs":1'))
        (file.parent / f".{batch}.crc").unlink(missing_ok=True)


@contextmanager
def _job_environment(job: str, attempt: int) -> Iterator[None]:
    """Set the environment variables that a runner sets for a driver."""
    variables = {"HOLDFAST_JOB": job, "HOLDFAST_ATTEMPT": str(attempt)} if job else {}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
