"""PostgreSQL ledger with a real server and concurrent sessions."""

import secrets
import threading
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from holdfast.sinks.batch_ledger import (
    BatchIdentity,
    Decision,
    OutputRecord,
    Owner,
    SkipBatch,
    SupersededBy,
    WriteBatch,
    decide_batch,
)
from holdfast.sinks.postgres_ledger import BATCHES_KEPT, PostgresLedger
from holdfast.sinks.postgres_types import PostgresColumn
from tests.harness.postgres import postgres_server
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.slow

ME = Owner("j1", "q1")
FIRST = BatchIdentity(ME, 1, 0, "d0")
COLUMNS = [PostgresColumn("word", "text", str), PostgresColumn("n", "bigint", int)]
WITHIN_S = 30.0


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with postgres_server() as dsn:
        yield dsn


@pytest.fixture
def table() -> str:
    return f"t{secrets.token_hex(4)}"


def write_batch(dsn: str, table: str, batch: BatchIdentity, adopt: str | None = None) -> Decision:
    with psycopg.connect(dsn, application_name=PostgresLedger.session_name(batch, table)) as connection:
        ledger = PostgresLedger(connection, table)
        ledger.prepare_tables(COLUMNS, ())
        decision = decide_batch(ledger.lock_and_read(batch.id), batch, adopt)
        if isinstance(decision, WriteBatch):
            connection.execute(f"INSERT INTO {table} VALUES ('x', %s)", (batch.id,))
            ledger.record_batch(batch)
        if isinstance(decision, SkipBatch):
            ledger.record_attempt(batch)
        return decision


def read_rows(dsn: str, table: str) -> list[int]:
    with psycopg.connect(dsn) as connection:
        return [n for (n,) in connection.execute(f"SELECT n FROM {table} ORDER BY n")]


def test_repeated_batch_is_skipped_and_earlier_attempt_is_superseded(dsn: str, table: str) -> None:
    assert write_batch(dsn, table, FIRST) == WriteBatch()
    assert write_batch(dsn, table, replace(FIRST, attempt=2)) == SkipBatch()
    assert write_batch(dsn, table, BatchIdentity(ME, 1, 1, "d1")) == SupersededBy(2), (
        "the second attempt supersedes the first even without a write"
    )
    assert write_batch(dsn, f"public.{table}", BatchIdentity(ME, 2, 1, "d1")) == WriteBatch(), "same table, with its schema"
    assert read_rows(dsn, table) == [0, 1]


def test_one_of_many_sessions_with_the_same_batch_writes(dsn: str, table: str) -> None:
    assert write_batch(dsn, table, FIRST) == WriteBatch()
    second, decisions, ready = BatchIdentity(ME, 1, 1, "d1"), [], threading.Barrier(8)

    def race() -> None:
        ready.wait(WITHIN_S)
        decisions.append(write_batch(dsn, table, second))

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN_S)
    assert sorted(map(type, decisions), key=str) == [SkipBatch] * 7 + [WriteBatch]
    assert read_rows(dsn, table) == [0, 1]


def test_hanging_transaction_does_not_block_the_next_attempt(dsn: str, table: str) -> None:
    assert write_batch(dsn, table, FIRST) == WriteBatch()
    old, new = BatchIdentity(ME, 1, 1, "d1"), BatchIdentity(ME, 2, 1, "d1")
    with psycopg.connect(dsn, application_name=PostgresLedger.session_name(old, table)) as hanging:
        late = PostgresLedger(hanging, table)
        late.prepare_tables(COLUMNS, ())
        assert decide_batch(late.lock_and_read(1), old) == WriteBatch()
        hanging.execute(f"INSERT INTO {table} VALUES ('late', 1)")

        with psycopg.connect(dsn) as connection:
            PostgresLedger(connection, table).terminate_earlier_sessions(new)
        assert write_batch(dsn, table, new) == WriteBatch()

        with pytest.raises(psycopg.OperationalError):
            late.record_batch(old)
    assert read_rows(dsn, table) == [0, 1]


def test_only_sessions_of_earlier_attempts_of_the_same_output_are_terminated(dsn: str, table: str) -> None:
    names = [
        PostgresLedger.session_name(replace(FIRST, attempt=2), table),
        PostgresLedger.session_name(FIRST, f"{table}x"),
        PostgresLedger.session_name(replace(FIRST, owner=Owner("j2", "q1")), table),
        "psql",
    ]
    others = [psycopg.connect(dsn, application_name=name) for name in names]
    with psycopg.connect(dsn) as connection:
        PostgresLedger(connection, table).terminate_earlier_sessions(replace(FIRST, attempt=2))
    for other in others:
        assert other.execute("SELECT 1").fetchone() == (1,)
        other.close()


def test_empty_table_is_used_and_table_with_rows_needs_adoption(dsn: str, table: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(f"CREATE TABLE {table} (word text, n bigint)")
        ledger = PostgresLedger(connection, table)
        ledger.prepare_tables(COLUMNS, ())
        assert ledger.lock_and_read(0) is None
        connection.execute(f"INSERT INTO {table} VALUES ('there already', -1)")
        assert ledger.lock_and_read(0) == OutputRecord(None)
    assert write_batch(dsn, table, FIRST, adopt="nobody") == WriteBatch(adopts=True)
    assert write_batch(dsn, table, replace(FIRST, owner=Owner("j2", "q2")), adopt=str(ME)) == WriteBatch(adopts=True)
    assert read_rows(dsn, table) == [-1, 0, 0]


def test_old_batch_records_are_deleted(dsn: str, table: str) -> None:
    assert write_batch(dsn, table, FIRST) == WriteBatch()
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE holdfast_ledger SET next_batch = %s WHERE output = %s", (BATCHES_KEPT, f"public.{table}"))
    assert write_batch(dsn, table, BatchIdentity(ME, 1, BATCHES_KEPT, None)) == WriteBatch()
    with psycopg.connect(dsn) as connection:
        batches = connection.execute("SELECT batch FROM holdfast_batches WHERE output = %s", (f"public.{table}",)).fetchall()
    assert batches == [(BATCHES_KEPT,)]


def test_concurrent_creation_of_the_ledger_succeeds(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        name = f"d{secrets.token_hex(4)}"
        connection.execute(f"CREATE DATABASE {name}")
    fresh = dsn.replace("dbname=postgres", f"dbname={name}")
    done: list[Decision] = []
    threads = [threading.Thread(target=lambda number=n: done.append(write_batch(fresh, f"t{number}", FIRST))) for n in range(6)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(done) == 6, WITHIN_S, "six outputs")
    assert done == [WriteBatch()] * 6
