"""Windowed word counts: input, expected result, and readers for each kind of output."""

import contextlib
import json
import os
import random
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from pyspark.sql import SparkSession
from pyspark.sql.functions import count, window

from tests.sinks.outputs import delta_batches

END = 10**9
"""Timestamp after all others, which closes every earlier window."""

Row = tuple[float, str, int]


class WordInput:
    """Input files of words whose timestamps increase from file to file, so no word is late for its window."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder = folder
        self._rng = rng
        self._files = 0
        folder.mkdir()

    def add_files(self, files: int) -> None:
        for _ in range(files):
            began = self._files * 5
            times = [began + self._rng.random() * 4.9 for _ in range(self._rng.randrange(200))]
            self._write([(time, self._rng.choice("abcdefgh")) for time in times])

    def close(self) -> None:
        self._write([(END, "end")])

    def _write(self, events: list[tuple[float, str]]) -> None:
        """Write a file atomically, because Spark may list the folder at any time."""
        hidden, file = self.folder / ".new", self.folder / f"{self._files:05}.json"
        lines = [json.dumps({"time": datetime.fromtimestamp(time, UTC).isoformat(), "word": word}) for time, word in events]
        hidden.write_text("\n".join(lines))
        os.utime(hidden, (self._files, self._files))
        hidden.rename(file)
        self._files += 1


def expected_rows(spark: SparkSession, folder: Path) -> list[Row]:
    """Return the counts that one batch over the whole input gives."""
    events = spark.read.schema("time timestamp, word string").json(str(folder))
    counts = events.groupBy(window("time", "10 seconds"), "word").agg(count("*").alias("n")).where("word != 'end'")
    return sorted((row.start.timestamp(), row.word, row.n) for row in counts.select("window.start", "word", "n").collect())


def read_parquet(spark: SparkSession, output: str) -> tuple[list[Row], list[int]]:
    rows = [(row.start.timestamp(), row.word, row.n) for row in spark.read.parquet(output).collect()]
    return sorted(rows), sorted(int(path.name.removeprefix("batch=")) for path in Path(output).glob("batch=*"))


def read_postgres(spark: SparkSession, output: str) -> tuple[list[Row], list[int]]:
    with psycopg.connect(output) as connection:
        rows = connection.execute("SELECT start, word, n FROM windows").fetchall()
        ids = connection.execute("SELECT batch FROM holdfast_batches ORDER BY batch").fetchall()
    return sorted((start.timestamp(), word, n) for start, word, n in rows), [number for (number,) in ids]


def read_delta(spark: SparkSession, output: str) -> tuple[list[Row], list[int]]:
    rows = [(row.start.timestamp(), row.word, row.n) for row in spark.read.format("delta").load(output).collect()]
    return sorted(rows), delta_batches(spark, output)


def count_parquet_batches(output: str) -> int:
    return len(list(Path(output).glob("batch=*")))


def count_postgres_batches(output: str) -> int:
    with contextlib.suppress(psycopg.Error), psycopg.connect(output) as connection:
        row = connection.execute("SELECT count(*) FROM holdfast_batches").fetchone()
        return int(row[0]) if row else 0
    return 0


def count_delta_batches(output: str) -> int:
    return len(list(Path(output).glob("_delta_log/*.json")))


COUNTERS = {"parquet": count_parquet_batches, "postgres": count_postgres_batches, "delta": count_delta_batches}
"""Fast counters of the batches in an output."""
READERS = {"parquet": read_parquet, "postgres": read_postgres, "delta": read_delta}
