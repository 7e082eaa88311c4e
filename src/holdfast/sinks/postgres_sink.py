"""Batches into a PostgreSQL table. The rows and the record of their batch are one transaction."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.errors import Refused, Unavailable
from holdfast.sinks.batch_identity import batch_of, skip
from holdfast.sinks.batch_ledger import Batch, Refusal, Skip, decide
from holdfast.sinks.postgres_ledger import LedgerTable
from holdfast.sinks.postgres_types import Column, columns_of
from holdfast.sinks.refusal_message import refused

if TYPE_CHECKING:
    import psycopg
    from pyspark.sql import DataFrame

INCOMING = "holdfast_incoming"


def postgres(table: str, *, dsn: str = "", key: Sequence[str] = (), adopt: str | None = None) -> "PostgresSink":
    """For `foreachBatch`: the rows of each batch into the table, once. With a key, a row replaces the one that has the same.

    What the DSN does not say comes from libpq's variables (PGHOST, PGPASSWORD, PGSERVICE, …). A missing table is created.
    Only the query that began an output goes on with it. `adopt` names another owner whose output this one continues, as the
    refusal spells it; once that is done it changes nothing.
    """
    return PostgresSink(table, dsn, tuple(key), adopt)


class PostgresSink:
    def __init__(self, table: str, dsn: str, key: tuple[str, ...], adopt: str | None) -> None:
        self._table = table
        self._dsn = dsn
        self._key = key
        self._adopt = adopt
        self._alone = False
        """Whether what earlier attempts left open was ended."""

    def __repr__(self) -> str:
        return f"PostgresSink({self._table!r})"

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        batch = batch_of(frame, batch_id)
        columns = columns_of(frame.schema)
        if missing := [name for name in self._key if name not in {column.name for column in columns}]:
            raise Refused(f"the key of {self._table} names the column '{missing[0]}', which its rows do not have")
        with self._connected(batch) as connection:
            ledger = LedgerTable(connection, self._table)
            if not self._alone:
                ledger.end_earlier(batch)
                self._alone = True
            ledger.open(columns, self._key)
            decision = decide(ledger.recorded(batch.id), batch, self._adopt)
            if isinstance(decision, Refusal):
                raise refused(decision, batch, self._shown)
            if isinstance(decision, Skip):
                ledger.seen(batch)
            else:
                self._write(connection, columns, (_values(columns, row) for row in frame.toLocalIterator()))
                ledger.record(batch)
        if isinstance(decision, Skip):
            skip(frame, batch, self._shown)

    @property
    def _shown(self) -> str:
        return f"the table {self._table}"

    @contextmanager
    def _connected(self, batch: Batch) -> "Iterator[psycopg.Connection[Any]]":
        """One transaction, undone if anything is raised."""
        try:
            import psycopg
        except ImportError as error:
            raise Refused('PostgreSQL needs a driver: pip install "holdfast[postgres]"') from error
        try:
            with psycopg.connect(self._dsn, application_name=LedgerTable.session_name(batch, self._table)) as connection:
                yield connection
        except psycopg.OperationalError as error:
            problem = " ".join(str(error).split())
            raise Unavailable(f"PostgreSQL has not confirmed batch {batch.id} for {self._shown}: {problem}") from error

    def _write(self, connection: "psycopg.Connection[Any]", columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> None:
        from psycopg import sql

        names = sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)
        target = sql.Identifier(*self._table.split("."))
        into = sql.Identifier(INCOMING) if self._key else target
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


def _upsert(target: Any, incoming: Any, names: Any, columns: Sequence[Column], key: Sequence[str]) -> Any:
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


def _values(columns: Sequence[Column], row: Sequence[Any]) -> list[Any]:
    return [column.value(value) for column, value in zip(columns, row, strict=True)]
