"""Delta table whose commits carry the record of the sink.

Every commit of a sink carries a note with the claim, the batch id and its digest. It also carries a transaction version under
one application name for all sinks; the claim number is its high part, the batch id its low part. Delta skips a write whose
version is not higher than the last one, and fails a write that a concurrent commit has overtaken. So no write succeeds after
the claim of a successor. A claim is a commit without rows.
"""

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaPackage

from holdfast.errors import Refused
from holdfast.sinks.batch_ledger import BatchIdentity, OutputRecord
from holdfast.sinks.hadoop_files import HadoopFolder
from holdfast.sinks.output_claim import OutputClaim

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

APPLICATION = "holdfast"
HISTORY_COMMITS = 100
"""Commits read first. The whole history is read only if none of them is a batch."""
RECENT_COMMITS = 5
"""Commits read to confirm that a write succeeded."""


@dataclass(frozen=True, slots=True)
class CommitNote:
    """Note of one commit, stored in its `userMetadata`."""

    claim: OutputClaim
    batch: int | None
    """Batch id, or None for the commit of the claim itself."""
    digest: str | None

    @property
    def version(self) -> int:
        """Transaction version of the commit."""
        return (self.claim.number << 32) + (0 if self.batch is None else self.batch + 1)


@dataclass(frozen=True, slots=True)
class TableState:
    """State of the table at one moment."""

    exists: bool
    notes: tuple[CommitNote, ...] = ()
    """Notes of the commits, newest first."""

    @property
    def claim(self) -> OutputClaim | None:
        return self.notes[0].claim if self.notes else None

    def output_record(self) -> OutputRecord | None:
        """Return the record for the decision about a batch, or None for a new table."""
        claim = self.claim
        if claim is None:
            return OutputRecord(None) if self.exists else None
        digests = {note.batch: note.digest for note in self.notes if note.batch is not None and note.claim.owner == claim.owner}
        return OutputRecord(claim.owner, claim.attempt, max(digests, default=claim.begins - 1) + 1, digests)


class DeltaOutput:
    """Delta table at one path. Raises Refused if Delta Lake is not on the class path."""

    def __init__(self, session: Any, path: str) -> None:
        self._session = session
        self._path = path
        self._delta = session._jvm.io.delta.tables.DeltaTable
        if isinstance(self._delta, JavaPackage):
            raise Refused("Delta Lake is not on the class path: add its package to spark.jars.packages (see docs/sinks.md)")

    def read_state(self) -> TableState:
        if not self._delta.isDeltaTable(self._session._jsparkSession, self._path):
            if HadoopFolder(self._session, self._path).list_names():
                raise Refused(
                    f"{self._path} exists and is not a Delta table: choose another path, or convert it to Delta first"
                )
            return TableState(exists=False)
        notes = self._read_notes(HISTORY_COMMITS)
        if all(note.batch is None for note in notes):
            notes = self._read_notes(None)
        return TableState(exists=True, notes=notes)

    def acquire(self, claim: OutputClaim, like: "DataFrame") -> bool:
        """Try to make this the newest claim. After True, no write of an earlier claim can succeed."""
        try:
            self._commit(self._session.createDataFrame([], like.schema), CommitNote(claim, None, None))
        except Exception:  # Delta raises various errors for a lost race
            if not self.is_superseded(claim):
                raise
            return False
        return self.read_state().claim == claim

    def write(self, frame: "DataFrame", claim: OutputClaim, batch: BatchIdentity) -> bool:
        """Write the batch. Return False if the claim is no longer the newest one."""
        note = CommitNote(claim, batch.id, batch.digest)
        try:
            self._commit(frame, note)
        except Exception:  # see acquire
            if not self.is_superseded(claim):
                raise
            return False
        return note in self._read_notes(RECENT_COMMITS) or note in self.read_state().notes

    def is_superseded(self, claim: OutputClaim) -> bool:
        newest = self.read_state().claim
        return newest is not None and newest.number >= claim.number and newest.nonce != claim.nonce

    def _commit(self, frame: "DataFrame", note: CommitNote) -> None:
        writer = frame.write.format("delta").mode("append").option("txnAppId", APPLICATION).option("txnVersion", note.version)
        writer.option("userMetadata", json.dumps({APPLICATION: asdict(note)})).save(self._path)

    def _read_notes(self, limit: int | None) -> tuple[CommitNote, ...]:
        from pyspark.sql import DataFrame

        table = self._delta.forPath(self._session._jsparkSession, self._path)
        history = DataFrame(table.history() if limit is None else table.history(limit), self._session)
        rows = history.where("userMetadata LIKE '{\"holdfast\":%'").select("version", "userMetadata").collect()
        return tuple(_decode_note(row.userMetadata) for row in sorted(rows, key=lambda row: -row.version))


def _decode_note(text: str) -> CommitNote:
    fields = json.loads(text)[APPLICATION]
    return CommitNote(OutputClaim.from_fields(fields["claim"]), fields["batch"], fields["digest"])
