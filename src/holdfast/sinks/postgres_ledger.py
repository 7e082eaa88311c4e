"""Ledger of PostgreSQL outputs: one row per table in `holdfast_ledger`, and its batches in `holdfast_batches`.

Every transaction locks the table's ledger row before it writes. So there is one writer at a time, and it sees the newest
attempt.
"""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.errors import Refused
from holdfast.sinks.batch_ledger import BatchIdentity, OutputRecord, Owner
from holdfast.sinks.postgres_types import PostgresColumn

if TYPE_CHECKING:
    import psycopg

BATCHES_KEPT = 1000
"""Batches kept per output. Spark's checkpoint keeps 100 by default."""
_CREATION_LOCK = 0x486F6C6466617374
"""Advisory lock that serializes the creation of the ledger tables."""
_TABLES = """
CREATE TABLE IF NOT EXISTS holdfast_ledger (
    output text PRIMARY KEY, job text NOT NULL, query text NOT NULL, attempt bigint NOT NULL, next_batch bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS holdfast_batches (
    output text NOT NULL, batch bigint NOT NULL, attempt bigint NOT NULL, digest text,
    written timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (output, batch)
)
"""
_TERMINATE_EARLIER = r"""
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()
  AND application_name ~ '^holdfast \d+ [0-9a-f]+$'
  AND split_part(application_name, ' ', 3) = %s AND split_part(application_name, ' ', 2)::bigint < %s
"""


class PostgresLedger:
    """Ledger of one output table, within one transaction."""

    def __init__(self, connection: "psycopg.Connection[Any]", table: str) -> None:
        self._connection = connection
        self._table = table
        self._output = ""
        self._owner: Owner | None = None

    @staticmethod
    def session_name(batch: BatchIdentity, table: str) -> str:
        """Return the `application_name` by which later attempts find and terminate this session."""
        return f"holdfast {batch.attempt} {_fingerprint(batch.owner, table)}"

    def terminate_earlier_sessions(self, batch: BatchIdentity) -> None:
        """Terminate sessions of earlier attempts. A hanging or disconnected driver could hold the row lock for hours."""
        self._connection.execute(_TERMINATE_EARLIER, (_fingerprint(batch.owner, self._table), batch.attempt))

    def prepare_tables(self, columns: Sequence[PostgresColumn], key: Sequence[str]) -> None:
        """Create the ledger tables and the output table if they are missing. Raises Refused if the table is not found."""
        if self._qualified_name("holdfast_batches") is None:
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATION_LOCK,))
            self._connection.execute(_TABLES)
        output = self._qualified_name(self._table)
        if output is None:
            self._create_table(columns, key)
            output = self._qualified_name(self._table)
        if output is None:
            raise Refused(f"the table {self._table} was created but cannot be found: write it as schema.table")
        self._output = output

    def lock_and_read(self, batch_id: int) -> OutputRecord | None:
        """Lock the ledger row and return the record with the digest of one batch, or None for a new and empty output."""
        row = self._fetch_row(
            "SELECT job, query, attempt, next_batch FROM holdfast_ledger WHERE output = %s FOR UPDATE", self._output
        )
        if row is None:
            return OutputRecord(None) if self._has_rows() else None
        job, query, attempt, next_batch = row
        self._owner = Owner(job, query)
        digest = self._fetch_row("SELECT digest FROM holdfast_batches WHERE output = %s AND batch = %s", self._output, batch_id)
        return OutputRecord(self._owner, attempt, next_batch, {} if digest is None else {batch_id: digest[0]})

    def record_attempt(self, batch: BatchIdentity) -> None:
        """Record the attempt without a write, which supersedes all earlier attempts."""
        self._connection.execute("UPDATE holdfast_ledger SET attempt = %s WHERE output = %s", (batch.attempt, self._output))

    def record_batch(self, batch: BatchIdentity) -> None:
        """Record a written batch, and delete records older than BATCHES_KEPT batches."""
        owner, run = batch.owner, self._connection.execute
        if self._owner is None:
            # If two transactions create the row concurrently, one of them fails here and rolls back.
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
        run("DELETE FROM holdfast_batches WHERE output = %s AND batch <= %s", (self._output, batch.id - BATCHES_KEPT))

    def _qualified_name(self, table: str) -> str | None:
        """Return `schema.table`, so that every spelling of a table has the same ledger row, or None if it does not exist."""
        row = self._fetch_row(
            "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.oid = to_regclass(%s)",
            self._quote(table),
        )
        return None if row is None else str(row[0])

    def _create_table(self, columns: Sequence[PostgresColumn], key: Sequence[str]) -> None:
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

    def _quote(self, table: str) -> str:
        from psycopg import sql

        return sql.Identifier(*table.split(".")).as_string(self._connection)

    def _fetch_row(self, query: str, *values: Any) -> Any:
        return self._connection.execute(query, values).fetchone()


def _fingerprint(owner: Owner, table: str) -> str:
    return hashlib.sha256(f"{owner} {table}".encode()).hexdigest()[:16]
