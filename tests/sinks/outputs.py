"""Outputs of each kind behind one protocol, so that the same tests check all of them."""

import json
import secrets
from pathlib import Path
from typing import Any, Protocol

import psycopg
from pyspark.sql import SparkSession

from holdfast.sinks import delta, parquet, postgres


class SinkOutput(Protocol):
    label: str
    """Name of the output in error messages."""

    def sink(self, adopt: str | None = None) -> Any: ...

    def values(self) -> list[int]:
        """Return the values that a plain reader sees, sorted."""

    def batches(self) -> list[int]:
        """Return the recorded batch ids."""

    def add_foreign_row(self, value: int) -> None:
        """Add a row without a recorded owner."""


class ParquetOutput:
    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._spark = spark
        self.path = home / "out püt"
        self.label = str(self.path)

    def sink(self, adopt: str | None = None) -> Any:
        return parquet(str(self.path), adopt=adopt)

    def values(self) -> list[int]:
        return sorted(row.value for row in self._spark.read.parquet(str(self.path)).collect())

    def batches(self) -> list[int]:
        return sorted(int(file.parent.name.removeprefix("batch=")) for file in self.path.glob("batch=*/_holdfast.json"))

    def add_foreign_row(self, value: int) -> None:
        rows = self._spark.createDataFrame([(value,)], "value bigint")
        rows.coalesce(1).write.parquet(str(self.path / "batch=0"))


class DeltaOutput:
    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._spark = spark
        self.label = str(home / "table")

    def sink(self, adopt: str | None = None) -> Any:
        return delta(self.label, adopt=adopt)

    def values(self) -> list[int]:
        return sorted(row.value for row in self._spark.read.format("delta").load(self.label).collect())

    def batches(self) -> list[int]:
        return delta_batches(self._spark, self.label)

    def add_foreign_row(self, value: int) -> None:
        self._spark.createDataFrame([(value,)], "value bigint").write.format("delta").save(self.label)


def delta_batches(spark: SparkSession, path: str) -> list[int]:
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").where("userMetadata IS NOT NULL").collect()
    notes = [json.loads(row.userMetadata)["holdfast"] for row in history]
    return sorted(note["batch"] for note in notes if note["batch"] is not None)


class PostgresOutput:
    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.table = f"T{secrets.token_hex(4)}"
        self.label = f"the table {self.table}"

    def sink(self, adopt: str | None = None) -> Any:
        return postgres(self.table, dsn=self.dsn, adopt=adopt)

    def values(self) -> list[int]:
        return [value for (value,) in self.query(f'SELECT value FROM "{self.table}" ORDER BY value')]

    def batches(self) -> list[int]:
        ask = "SELECT batch FROM holdfast_batches WHERE output = %s ORDER BY batch"
        return [batch for (batch,) in self.query(ask, f"public.{self.table}")]

    def add_foreign_row(self, value: int) -> None:
        with psycopg.connect(self.dsn) as connection:
            connection.execute(f'CREATE TABLE "{self.table}" (value bigint)')
            connection.execute(f'INSERT INTO "{self.table}" VALUES (%s)', (value,))

    def query(self, question: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(question, values).fetchall()
