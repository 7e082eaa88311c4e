"""PostgreSQL sink: types, keys, and an unreachable database."""

import secrets
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame

from holdfast.sinks import postgres
from tests.sinks.outputs import PostgresOutput
from tests.sinks.streams import SinkStream
from tests.sinks.test_all_sinks import run_refused

pytestmark = [pytest.mark.real, pytest.mark.slow]

TYPES: dict[str, Any] = {
    "true AS a": True,
    "CAST(1 AS tinyint) AS b": 1,
    "CAST(2 AS smallint) AS c": 2,
    "CAST(3 AS int) AS d": 3,
    "value AS e": 7,
    "CAST(0.5 AS float) AS f": 0.5,
    "CAST(0.25 AS double) AS g": 0.25,
    "'x\\ty\\\\z' AS h": "x\ty\\z",
    "CAST('raw' AS binary) AS i": b"raw",
    "DATE'2026-01-31' AS j": date(2026, 1, 31),
    "TIMESTAMP'2026-01-31 12:00:00 UTC' AS k": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "TIMESTAMP_NTZ'2026-01-31 12:00:00' AS l": datetime(2026, 1, 31, 12),  # noqa: DTZ001 -- it has no time zone
    "CAST(12.34 AS decimal(9, 2)) AS m": Decimal("12.34"),
    'CAST(NULL AS string) AS `n "1"`': None,
}


def test_every_supported_type_round_trips(stream: SinkStream, dsn: str) -> None:
    output = PostgresOutput(dsn)
    sink = output.sink()
    stream.add_batch(7)
    stream.run(lambda frame, batch_id: sink(frame.selectExpr(*TYPES), batch_id))
    (row,) = output.query(f'SELECT * FROM "{output.table}"')
    assert list(row) == list(TYPES.values())


def test_unsupported_type_is_refused(stream: SinkStream, dsn: str) -> None:
    sink = PostgresOutput(dsn).sink()
    stream.add_batch(1)
    kind, sentence = run_refused(
        lambda: stream.run(lambda frame, batch_id: sink(frame.selectExpr("array(value) AS a"), batch_id))
    )
    assert kind == "Refused" and sentence.startswith("the column 'a' has the type array<bigint>, which PostgreSQL lacks")


def test_row_with_the_same_key_is_replaced(stream: SinkStream, dsn: str) -> None:
    output = PostgresOutput(dsn)

    def sink() -> Any:
        upsert = postgres(output.table, dsn=dsn, key=["digit"])
        return lambda frame, batch_id: upsert(_by_digit(frame), batch_id)

    stream.add_batch(11, 12)
    stream.add_batch(21)
    stream.run(sink())
    stream.remove_commit(1)
    stream.add_batch(33)
    stream.run(sink(), attempt=2)
    assert output.query(f'SELECT digit, value FROM "{output.table}" ORDER BY digit') == [(1, 21), (2, 12), (3, 33)]


def _by_digit(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("value % 10 AS digit", "value")


def test_missing_key_column_is_refused(stream: SinkStream, dsn: str) -> None:
    stream.add_batch(1)
    kind, sentence = run_refused(lambda: stream.run(postgres("t", dsn=dsn, key=["nothing"])))
    assert (kind, sentence) == ("Refused", "the key column 'nothing' of the table t is missing in the written rows")


def test_unreachable_database_is_reported_without_the_password(stream: SinkStream) -> None:
    stream.add_batch(1)
    sink = postgres("t", dsn="host=127.0.0.1 port=1 user=u password=hidden dbname=d connect_timeout=5")
    kind, sentence = run_refused(lambda: stream.run(sink))
    assert kind == "Unavailable" and sentence.startswith("PostgreSQL did not confirm batch 0 for the table t: ")
    assert "hidden" not in sentence + repr(sink)


def test_table_name_may_include_a_schema(stream: SinkStream, dsn: str) -> None:
    schema = f"s{secrets.token_hex(4)}"
    with psycopg.connect(dsn) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    stream.add_batch(1)
    stream.run(postgres(f"{schema}.t", dsn=dsn))
    assert PostgresOutput(dsn).query(f"SELECT value FROM {schema}.t") == [(1,)]
