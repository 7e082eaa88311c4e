"""What PostgreSQL keeps of an output, with a real server and several sessions at once."""

import secrets
import threading
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from holdfast.sinks.batch_ledger import Batch, Decision, Owner, Recorded, Skip, Superseded, Write, decide
from holdfast.sinks.postgres_ledger import KEPT, LedgerTable
from holdfast.sinks.postgres_types import Column
from tests.harness.postgres import server
from tests.harness.waiting import eventually

pytestmark = pytest.mark.slow

ME = Owner("j1", "q1")
FIRST = Batch(ME, 1, 0, "d0")
COLUMNS = [Column("word", "text", str), Column("n", "bigint", int)]
WITHIN_S = 30.0


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with server() as dsn:
        yield dsn


@pytest.fixture
def table() -> str:
    return f"t{secrets.token_hex(4)}"


def write(dsn: str, table: str, batch: Batch, adopt: str | None = None) -> Decision:
    with psycopg.connect(dsn, application_name=LedgerTable.session_name(batch, table)) as connection:
        ledger = LedgerTable(connection, table)
        ledger.open(COLUMNS, ())
        decision = decide(ledger.recorded(batch.id), batch, adopt)
        if isinstance(decision, Write):
            connection.execute(f"INSERT INTO {table} VALUES ('x', %s)", (batch.id,))
            ledger.record(batch)
        if isinstance(decision, Skip):
            ledger.seen(batch)
        return decision


def rows(dsn: str, table: str) -> list[int]:
    with psycopg.connect(dsn) as connection:
        return [n for (n,) in connection.execute(f"SELECT n FROM {table} ORDER BY n")]


def test_a_repeated_batch_is_skipped_and_an_earlier_attempt_superseded(dsn: str, table: str) -> None:
    assert write(dsn, table, FIRST) == Write()
    assert write(dsn, table, replace(FIRST, attempt=2)) == Skip()
    assert write(dsn, table, Batch(ME, 1, 1, "d1")) == Superseded(2), "the second attempt was there, though it wrote nothing"
    assert write(dsn, f"public.{table}", Batch(ME, 2, 1, "d1")) == Write(), "another spelling of the same table"
    assert rows(dsn, table) == [0, 1]


def test_of_two_sessions_with_the_same_batch_one_writes(dsn: str, table: str) -> None:
    assert write(dsn, table, FIRST) == Write()
    second, decisions, ready = Batch(ME, 1, 1, "d1"), [], threading.Barrier(8)

    def race() -> None:
        ready.wait(WITHIN_S)
        decisions.append(write(dsn, table, second))

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN_S)
    assert sorted(map(type, decisions), key=str) == [Skip] * 7 + [Write]
    assert rows(dsn, table) == [0, 1]


def test_a_driver_that_hangs_in_its_transaction_does_not_hold_up_the_next_attempt(dsn: str, table: str) -> None:
    assert write(dsn, table, FIRST) == Write()
    old, new = Batch(ME, 1, 1, "d1"), Batch(ME, 2, 1, "d1")
    with psycopg.connect(dsn, application_name=LedgerTable.session_name(old, table)) as hanging:
        late = LedgerTable(hanging, table)
        late.open(COLUMNS, ())
        assert decide(late.recorded(1), old) == Write()
        hanging.execute(f"INSERT INTO {table} VALUES ('late', 1)")

        with psycopg.connect(dsn) as connection:
            LedgerTable(connection, table).end_earlier(new)
        assert write(dsn, table, new) == Write()

        with pytest.raises(psycopg.OperationalError):
            late.record(old)
    assert rows(dsn, table) == [0, 1]


def test_only_earlier_attempts_of_the_same_output_are_ended(dsn: str, table: str) -> None:
    names = [
        LedgerTable.session_name(replace(FIRST, attempt=2), table),
        LedgerTable.session_name(FIRST, f"{table}x"),
        LedgerTable.session_name(replace(FIRST, owner=Owner("j2", "q1")), table),
        "psql",
    ]
    others = [psycopg.connect(dsn, application_name=name) for name in names]
    with psycopg.connect(dsn) as connection:
        LedgerTable(connection, table).end_earlier(replace(FIRST, attempt=2))
    for other in others:
        assert other.execute("SELECT 1").fetchone() == (1,)
        other.close()


def test_an_empty_table_is_taken_and_one_with_rows_is_somebodys(dsn: str, table: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(f"CREATE TABLE {table} (word text, n bigint)")
        ledger = LedgerTable(connection, table)
        ledger.open(COLUMNS, ())
        assert ledger.recorded(0) is None
        connection.execute(f"INSERT INTO {table} VALUES ('there already', -1)")
        assert ledger.recorded(0) == Recorded(None)
    assert write(dsn, table, FIRST, adopt="nobody") == Write(adopts=True)
    assert write(dsn, table, replace(FIRST, owner=Owner("j2", "q2")), adopt=str(ME)) == Write(adopts=True)
    assert rows(dsn, table) == [-1, 0, 0]


def test_old_batches_are_forgotten(dsn: str, table: str) -> None:
    assert write(dsn, table, FIRST) == Write()
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE holdfast_ledger SET next_batch = %s WHERE output = %s", (KEPT, f"public.{table}"))
    assert write(dsn, table, Batch(ME, 1, KEPT, None)) == Write()
    with psycopg.connect(dsn) as connection:
        kept = connection.execute("SELECT batch FROM holdfast_batches WHERE output = %s", (f"public.{table}",)).fetchall()
    assert kept == [(KEPT,)]


def test_two_who_found_the_ledger_at_once_do_not_hinder_each_other(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        name = f"d{secrets.token_hex(4)}"
        connection.execute(f"CREATE DATABASE {name}")
    fresh = dsn.replace("dbname=postgres", f"dbname={name}")
    done: list[Decision] = []
    threads = [threading.Thread(target=lambda number=n: done.append(write(fresh, f"t{number}", FIRST))) for n in range(6)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(done) == 6, WITHIN_S, "six outputs")
    assert done == [Write()] * 6
