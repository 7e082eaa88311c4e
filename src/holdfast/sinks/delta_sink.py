"""Batches into a Delta table. A batch and its record are one commit of Delta's own log."""

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.errors import Unavailable
from holdfast.sinks.batch_identity import batch_of, skip
from holdfast.sinks.batch_ledger import Batch, Refusal, Skip, decide
from holdfast.sinks.delta_table import LOOK_BACK, Look, Note, Table
from holdfast.sinks.output_claim import Claim
from holdfast.sinks.refusal_message import named_attempt, refused, superseded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRIES = 10


def delta(path: str, *, adopt: str | None = None) -> "DeltaSink":
    """For `foreachBatch`: the rows of each batch into the Delta table at this path, once.

    Only the query that began an output goes on with it. `adopt` names another owner whose output this one continues, as the
    refusal spells it; once that is done it changes nothing.
    """
    return DeltaSink(path, adopt)


class DeltaSink:
    def __init__(self, path: str, adopt: str | None) -> None:
        self._path = path
        self._adopt = adopt
        self._nonce = secrets.token_hex(8)
        self._held: Look | None = None
        """What the table's log says since it was taken. As long as the claim is the newest, no other sink adds to it."""

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        batch = batch_of(frame, batch_id)
        table = Table(frame.sparkSession, self._path)
        if self._held is None:
            self._held = self._take(table, frame, batch)
        claim = self._held.claim
        assert claim is not None
        decision = decide(self._held.recorded(), batch, self._adopt)
        if isinstance(decision, Refusal):
            raise self._superseded(batch) if table.overtaken(claim) else refused(decision, batch, self._path)
        if isinstance(decision, Skip):
            return skip(frame, batch, self._path)
        if not table.write(frame, claim, batch):
            raise self._superseded(batch)
        note = Note(claim, batch.id, batch.digest)
        self._held = replace(self._held, notes=(note, *self._held.notes)[:LOOK_BACK])

    def _take(self, table: Table, frame: "DataFrame", batch: Batch) -> Look:
        for _ in range(TRIES):
            look = table.look()
            decision = decide(look.recorded(), batch, self._adopt)
            if isinstance(decision, Refusal):
                raise refused(decision, batch, self._path)
            if table.take(Claim.after(look.claim, batch, self._nonce), frame):
                return table.look()
        raise Unavailable(f"others take {self._path} over and over again")

    def _superseded(self, batch: Batch) -> Exception:
        return superseded(self._path, named_attempt(batch.attempt), "a later one")
