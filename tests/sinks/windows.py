"""Words counted in windows: their input, what one batch over it gives, and what a reader finds in an output of each kind."""

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
"""A moment so late that all windows before it are closed."""

Row = tuple[float, str, int]


class Input:
    """Words at moments that only go on, so that none is too late for its window."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self._chance = chance
        self._files = 0
        folder.mkdir()

    def add(self, files: int) -> None:
        for _ in range(files):
            began = self._files * 5
            moments = [began + self._chance.random() * 4.9 for _ in range(self._chance.randrange(200))]
            self._write([(moment, self._chance.choice("abcdefgh")) for moment in moments])

    def close(self) -> None:
        self._write([(END, "end")])

    def _write(self, events: list[tuple[float, str]]) -> None:
        """Whole or not at all: Spark may be looking."""
        hidden, file = self.folder / ".new", self.folder / f"{self._files:05}.json"
        lines = [json.dumps({"time": datetime.fromtimestamp(moment, UTC).isoformat(), "word": word}) for moment, word in events]
        hidden.write_text("\n".join(lines))
        os.utime(hidden, (self._files, self._files))
        hidden.rename(file)
        self._files += 1


def in_one_batch(spark: SparkSession, folder: Path) -> list[Row]:
    events = spark.read.schema("time timestamp, word string").json(str(folder))
    counts = events.groupBy(window("time", "10 seconds"), "word").agg(count("*").alias("n")).where("word != 'end'")
    return sorted((row.start.timestamp(), row.word, row.n) for row in counts.select("window.start", "word", "n").collect())


def in_parquet(spark: SparkSession, output: str) -> tuple[list[Row], list[int]]:
    rows = [(row.start.timestamp(), row.word, row.n) for row in spark.read.parquet(output).collect()]
    return sorted(rows), sorted(int(path.name.removeprefix("batch=")) for path in Path(output).glob("batch=*"))


def in_postgres(spark: SparkSession, output: str) -> tuple[list[Row], list[int]]:
    with psycopg.connect(output) as connection:
        rows = connection.execute("SELECT start, word, n FROM windows").fetchall()
        ids = connection.execute("SELECT batch FROM holdfast_batches ORDER BY batch").fetchall()
    return sorted((start.timestamp(), word, n) for start, word, n in rows), [number for (number,) in ids]


def in_delta(spark: SparkSession, output: str) -> tuple[list[Row], list[int]]:
    rows = [(row.start.timestamp(), row.word, row.n) for row in spark.read.format("delta").load(output).collect()]
    return sorted(rows), delta_batches(spark, output)


def count_in_parquet(output: str) -> int:
    return len(list(Path(output).glob("batch=*")))


def count_in_postgres(output: str) -> int:
    with contextlib.suppress(psycopg.Error), psycopg.connect(output) as connection:
        row = connection.execute("SELECT count(*) FROM holdfast_batches").fetchone()
        return int(row[0]) if row else 0
    return 0


def count_in_delta(output: str) -> int:
    return len(list(Path(output).glob("_delta_log/*.json")))


COUNTERS = {"parquet": count_in_parquet, "postgres": count_in_postgres, "delta": count_in_delta}
"""How many batches an output has, as fast as that can be seen."""
READERS = {"parquet": in_parquet, "postgres": in_postgres, "delta": in_delta}
