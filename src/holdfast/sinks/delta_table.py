"""What a Delta table says of itself, in the commits of its own log.

Every commit of a sink carries a note: the claim, the batch, its digest. It also carries a transaction version, under one
name for all: the claim's number first, then the batch's. Delta passes over a write whose version is not higher than the last,
and fails one that was overtaken by another. So what comes after the claim of a successor never lands. A claim is a commit
without rows.
"""

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaPackage

from holdfast.errors import Refused
from holdfast.sinks.batch_ledger import Batch, Recorded
from holdfast.sinks.hadoop_files import Folder
from holdfast.sinks.output_claim import Claim

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

APPLICATION = "holdfast"
LOOK_BACK = 100
"""How many commits are read first. All of them only if none of those is a batch's."""
JUST_NOW = 5
"""How many commits are read to see that one has landed."""


@dataclass(frozen=True, slots=True)
class Note:
    claim: Claim
    batch: int | None
    """None for a claim's own."""
    digest: str | None

    @property
    def version(self) -> int:
        return (self.claim.number << 32) + (0 if self.batch is None else self.batch + 1)


@dataclass(frozen=True, slots=True)
class Look:
    """How the table is found."""

    exists: bool
    notes: tuple[Note, ...] = ()
    """The newest first."""

    @property
    def claim(self) -> Claim | None:
        return self.notes[0].claim if self.notes else None

    def recorded(self) -> Recorded | None:
        """What it means for a batch; None if there is nothing yet."""
        claim = self.claim
        if claim is None:
            return Recorded(None) if self.exists else None
        digests = {note.batch: note.digest for note in self.notes if note.batch is not None and note.claim.owner == claim.owner}
        return Recorded(claim.owner, claim.attempt, max(digests, default=claim.begins - 1) + 1, digests)


class Table:
    def __init__(self, session: Any, path: str) -> None:
        self._session = session
        self._path = path
        self._delta = session._jvm.io.delta.tables.DeltaTable
        if isinstance(self._delta, JavaPackage):
            raise Refused("Delta Lake is not on the class path of this session: name its jar in spark.jars.packages")

    def look(self) -> Look:
        if not self._delta.isDeltaTable(self._session._jsparkSession, self._path):
            if Folder(self._session, self._path).names():
                raise Refused(f"{self._path} exists already and is no Delta table: choose another place, or convert it first")
            return Look(exists=False)
        notes = self._notes(LOOK_BACK)
        if all(note.batch is None for note in notes):
            notes = self._notes(None)
        return Look(exists=True, notes=notes)

    def take(self, claim: Claim, like: "DataFrame") -> bool:
        """Whether this claim stands. If it does, nothing of an earlier one can land any more."""
        try:
            self._commit(self._session.createDataFrame([], like.schema), Note(claim, None, None))
        except Exception:  # Delta has many words for being overtaken
            if not self.overtaken(claim):
                raise
            return False
        return self.look().claim == claim

    def write(self, frame: "DataFrame", claim: Claim, batch: Batch) -> bool:
        """Whether the batch is in the table now. If not, the claim is not the newest any more."""
        note = Note(claim, batch.id, batch.digest)
        try:
            self._commit(frame, note)
        except Exception:  # as above
            if not self.overtaken(claim):
                raise
            return False
        return note in self._notes(JUST_NOW) or note in self.look().notes

    def overtaken(self, claim: Claim) -> bool:
        newest = self.look().claim
        return newest is not None and newest.number >= claim.number and newest.nonce != claim.nonce

    def _commit(self, frame: "DataFrame", note: Note) -> None:
        writer = frame.write.format("delta").mode("append").option("txnAppId", APPLICATION).option("txnVersion", note.version)
        writer.option("userMetadata", json.dumps({APPLICATION: asdict(note)})).save(self._path)

    def _notes(self, limit: int | None) -> tuple[Note, ...]:
        from pyspark.sql import DataFrame

        table = self._delta.forPath(self._session._jsparkSession, self._path)
        history = DataFrame(table.history() if limit is None else table.history(limit), self._session)
        rows = history.where("userMetadata LIKE '{\"holdfast\":%'").select("version", "userMetadata").collect()
        return tuple(_decoded(row.userMetadata) for row in sorted(rows, key=lambda row: -row.version))


def _decoded(text: str) -> Note:
    fields = json.loads(text)[APPLICATION]
    return Note(Claim.of(fields["claim"]), fields["batch"], fields["digest"])
