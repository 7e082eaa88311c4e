"""What a PostgreSQL table says of itself: its row in `holdfast_ledger`, and its batches in `holdfast_batches`.

Every transaction locks that row before it writes anything. So there is one writer at a time, and it knows the newest attempt.
"""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.errors import Refused
from holdfast.sinks.batch_ledger import Batch, Owner, Recorded
from holdfast.sinks.postgres_types import Column

if TYPE_CHECKING:
    import psycopg

KEPT = 1000
"""How many batches are remembered. Spark's checkpoint goes back a hundred."""
_FOUNDING = 0x486F6C6466617374
"""An advisory lock for all who may create the ledger at the same time."""
_TABLES = """
CREATE TABLE IF NOT EXISTS holdfast_ledger (
    output text PRIMARY KEY, job text NOT NULL, query text NOT NULL, attempt bigint NOT NULL, next_batch bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS holdfast_batches (
    output text NOT NULL, batch bigint NOT NULL, attempt bigint NOT NULL, digest text,
    written timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (output, batch)
)
"""
_END_EARLIER = r"""
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()
  AND application_name ~ '^holdfast \d+ [0-9a-f]+$'
  AND split_part(application_name, ' ', 3) = %s AND split_part(application_name, ' ', 2)::bigint < %s
"""


class LedgerTable:
    """Within one transaction."""

    def __init__(self, connection: "psycopg.Connection[Any]", table: str) -> None:
        self._connection = connection
        self._table = table
        self._output = ""
        self._owner: Owner | None = None

    @staticmethod
    def session_name(batch: Batch, table: str) -> str:
        return f"holdfast {batch.attempt} {_fingerprint(batch.owner, table)}"

    def end_earlier(self, batch: Batch) -> None:
        """A driver that hangs within its transaction, or whose machine is cut off, would keep the lock for hours."""
        self._connection.execute(_END_EARLIER, (_fingerprint(batch.owner, self._table), batch.attempt))

    def open(self, columns: Sequence[Column], key: Sequence[str]) -> None:
        """Create what is missing, and lock what is there until the transaction ends."""
        if self._find("holdfast_batches") is None:
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_FOUNDING,))
            self._connection.execute(_TABLES)
        found = self._find(self._table)
        if found is None:
            self._create(columns, key)
            found = self._find(self._table)
        if found is None:
            raise Refused(f"the table {self._table} cannot be found, though it was created: is its schema in the search path?")
        self._output = found

    def recorded(self, batch_id: int) -> Recorded | None:
        """What is known of the output and of one batch; None if it is new and empty."""
        row = self._row(
            "SELECT job, query, attempt, next_batch FROM holdfast_ledger WHERE output = %s FOR UPDATE", self._output
        )
        if row is None:
            return Recorded(None) if self._has_rows() else None
        job, query, attempt, next_batch = row
        self._owner = Owner(job, query)
        before = self._row("SELECT digest FROM holdfast_batches WHERE output = %s AND batch = %s", self._output, batch_id)
        return Recorded(self._owner, attempt, next_batch, {} if before is None else {batch_id: before[0]})

    def seen(self, batch: Batch) -> None:
        """That this attempt was here, though it had nothing to write: an earlier one is superseded from now on."""
        self._connection.execute("UPDATE holdfast_ledger SET attempt = %s WHERE output = %s", (batch.attempt, self._output))

    def record(self, batch: Batch) -> None:
        owner, run = batch.owner, self._connection.execute
        if self._owner is None:
            # Of two who find nothing at the same time, one fails here, with all that it wrote.
            run("INSERT INTO holdfast_ledger VALUES (%s, %s, %s, 0, 0)", (self._output, owner.job, owner.query))
        elif self._owner != owner:
            run("DELETE FROM holdfast_batches WHERE output = %s", (self._output,))
        run(
            "UPDATE holdfast_ledger SET job = %s, query = %s, attempt = %s, next_batch = %s WHERE output = %s",
            (owner.job, owner.query, batch.attempt, batch.id + 1, self._output),
        )
        run(
            "INSERT INTO holdfast_batches (output, batch, attempt, digest) VALUES (%s, %s, %s, %s)",
            (self._output, batch.id, batch.attempt, batch.digest),
        )
        run("DELETE FROM holdfast_batches WHERE output = %s AND batch <= %s", (self._output, batch.id - KEPT))

    def _find(self, table: str) -> str | None:
        """The table's full name: whatever way it is spelled, it has one ledger."""
        row = self._row(
            "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.oid = to_regclass(%s)",
            self._quoted(table),
        )
        return None if row is None else str(row[0])

    def _create(self, columns: Sequence[Column], key: Sequence[str]) -> None:
        from psycopg import sql

        parts = [sql.SQL("{} ").format(sql.Identifier(column.name)) + sql.SQL(column.type) for column in columns]
        if key:
            parts.append(sql.SQL("PRIMARY KEY ({})").format(sql.SQL(", ").join(map(sql.Identifier, key))))
        self._connection.execute(
            sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(*self._table.split(".")), sql.SQL(", ").join(parts))
        )

    def _has_rows(self) -> bool:
        from psycopg import sql

        table = sql.Identifier(*self._table.split("."))
        return self._connection.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(table)).fetchone() is not None

    def _quoted(self, table: str) -> str:
        from psycopg import sql

        return sql.Identifier(*table.split(".")).as_string(self._connection)

    def _row(self, query: str, *values: Any) -> Any:
        return self._connection.execute(query, values).fetchone()


def _fingerprint(owner: Owner, table: str) -> str:
    return hashlib.sha256(f"{owner} {table}".encode()).hexdigest()[:16]
