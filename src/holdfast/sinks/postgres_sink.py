"""PostgreSQL sink. The rows of a batch and its record are one transaction."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.errors import Refused, Unavailable
from holdfast.sinks.batch_identity import identify_batch, skip_batch
from holdfast.sinks.batch_ledger import BatchIdentity, Refusal, SkipBatch, decide_batch
from holdfast.sinks.postgres_ledger import PostgresLedger
from holdfast.sinks.postgres_types import PostgresColumn, postgres_columns
from holdfast.sinks.refusal_message import refusal_error

if TYPE_CHECKING:
    import psycopg
    from pyspark.sql import DataFrame

STAGING_TABLE = "holdfast_incoming"


def postgres(table: str, *, dsn: str = "", key: Sequence[str] = (), adopt: str | None = None) -> "PostgresSink":
    """Return a sink for `foreachBatch` that writes each batch exactly once to `table`, which is created if it is missing.

    With a `key`, a row replaces the row with the same key. Parameters that `dsn` does not contain come from libpq's
    environment variables (PGHOST, PGPASSWORD, PGSERVICE, …).

    Only the query that created an output may continue it. To continue another query's output, pass the owner that the error
    message names as `adopt`. After the first adopted batch, `adopt` has no effect.
    """
    return PostgresSink(table, dsn, tuple(key), adopt)


class PostgresSink:
    """Callable for `foreachBatch`."""

    def __init__(self, table: str, dsn: str, key: tuple[str, ...], adopt: str | None) -> None:
        self._table = table
        self._dsn = dsn
        self._key = key
        self._adopt = adopt
        self._earlier_sessions_terminated = False

    def __repr__(self) -> str:
        return f"PostgresSink({self._table!r})"

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        batch = identify_batch(frame, batch_id)
        columns = postgres_columns(frame.schema)
        if missing := [name for name in self._key if name not in {column.name for column in columns}]:
            raise Refused(f"the key column '{missing[0]}' of the table {self._table} is missing in the written rows")
        with self._transaction(batch) as connection:
            ledger = PostgresLedger(connection, self._table)
            if not self._earlier_sessions_terminated:
                ledger.terminate_earlier_sessions(batch)
                self._earlier_sessions_terminated = True
            ledger.prepare_tables(columns, self._key)
            decision = decide_batch(ledger.lock_and_read(batch.id), batch, self._adopt)
            if isinstance(decision, Refusal):
                raise refusal_error(decision, batch, self._label)
            if isinstance(decision, SkipBatch):
                ledger.record_attempt(batch)
            else:
                self._copy_rows(connection, columns, (_values(columns, row) for row in frame.toLocalIterator()))
                ledger.record_batch(batch)
        if isinstance(decision, SkipBatch):
            skip_batch(frame, batch, self._label)

    @property
    def _label(self) -> str:
        return f"the table {self._table}"

    @contextmanager
    def _transaction(self, batch: BatchIdentity) -> "Iterator[psycopg.Connection[Any]]":
        """Yield a connection with one transaction, which any exception rolls back."""
        try:
            import psycopg
        except ImportError as error:
            raise Refused('the PostgreSQL sink needs psycopg: run `pip install "holdfast[postgres]"`') from error
        try:
            with psycopg.connect(self._dsn, application_name=PostgresLedger.session_name(batch, self._table)) as connection:
                yield connection
        except psycopg.OperationalError as error:
            problem = " ".join(str(error).split())
            raise Unavailable(f"PostgreSQL did not confirm batch {batch.id} for {self._label}: {problem}") from error

    def _copy_rows(
        self, connection: "psycopg.Connection[Any]", columns: Sequence[PostgresColumn], rows: Iterable[Sequence[Any]]
    ) -> None:
        from psycopg import sql

        names = sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)
        target = sql.Identifier(*self._table.split("."))
        into = sql.Identifier(STAGING_TABLE) if self._key else target
        with connection.cursor() as cursor:
            if self._key:
                cursor.execute(
                    sql.SQL("CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {} FROM {} LIMIT 0").format(into, names, target)
                )
            with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(into, names)) as copy:
                for row in rows:
                    copy.write_row(row)
            if self._key:
                cursor.execute(_upsert(target, into, names, columns, self._key))


def _upsert(target: Any, incoming: Any, names: Any, columns: Sequence[PostgresColumn], key: Sequence[str]) -> Any:
    from psycopg import sql

    others = [sql.Identifier(column.name) for column in columns if column.name not in key]
    change = sql.SQL(", ").join(sql.SQL("{} = EXCLUDED.{}").format(name, name) for name in others)
    return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} ON CONFLICT ({}) DO {}").format(
        target,
        names,
        names,
        incoming,
        sql.SQL(", ").join(map(sql.Identifier, key)),
        sql.SQL("UPDATE SET {}").format(change) if others else sql.SQL("NOTHING"),
    )


def _values(columns: Sequence[PostgresColumn], row: Sequence[Any]) -> list[Any]:
    return [column.convert(value) for column, value in zip(columns, row, strict=True)]
