"""Delta sink. A batch and its record are one commit of Delta's log."""

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.errors import Unavailable
from holdfast.sinks.batch_identity import identify_batch, skip_batch
from holdfast.sinks.batch_ledger import BatchIdentity, Refusal, SkipBatch, decide_batch
from holdfast.sinks.delta_table import HISTORY_COMMITS, CommitNote, DeltaOutput, TableState
from holdfast.sinks.output_claim import OutputClaim
from holdfast.sinks.refusal_message import attempt_label, refusal_error, superseded_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ACQUIRE_ATTEMPTS_MAX = 10


def delta(path: str, *, adopt: str | None = None) -> "DeltaSink":
    """Return a sink for `foreachBatch` that appends each batch exactly once to the Delta table at `path`.

    Only the query that created an output may continue it. To continue another query's output, pass the owner that the error
    message names as `adopt`. After the first adopted batch, `adopt` has no effect.
    """
    return DeltaSink(path, adopt)


class DeltaSink:
    """Callable for `foreachBatch`. It acquires the table on its first batch."""

    def __init__(self, path: str, adopt: str | None) -> None:
        self._path = path
        self._adopt = adopt
        self._nonce = secrets.token_hex(8)
        self._state: TableState | None = None
        """State of the table since it was acquired. While the claim is the newest, no other sink changes it."""

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        batch = identify_batch(frame, batch_id)
        table = DeltaOutput(frame.sparkSession, self._path)
        if self._state is None:
            self._state = self._acquire(table, frame, batch)
        claim = self._state.claim
        assert claim is not None
        decision = decide_batch(self._state.output_record(), batch, self._adopt)
        if isinstance(decision, Refusal):
            raise self._superseded_error(batch) if table.is_superseded(claim) else refusal_error(decision, batch, self._path)
        if isinstance(decision, SkipBatch):
            return skip_batch(frame, batch, self._path)
        if not table.write(frame, claim, batch):
            raise self._superseded_error(batch)
        note = CommitNote(claim, batch.id, batch.digest)
        self._state = replace(self._state, notes=(note, *self._state.notes)[:HISTORY_COMMITS])

    def _acquire(self, table: DeltaOutput, frame: "DataFrame", batch: BatchIdentity) -> TableState:
        for _ in range(ACQUIRE_ATTEMPTS_MAX):
            state = table.read_state()
            decision = decide_batch(state.output_record(), batch, self._adopt)
            if isinstance(decision, Refusal):
                raise refusal_error(decision, batch, self._path)
            if table.acquire(OutputClaim.next_after(state.claim, batch, self._nonce), frame):
                return table.read_state()
        raise Unavailable(f"cannot acquire {self._path}: other drivers keep taking it over; check which jobs write to it")

    def _superseded_error(self, batch: BatchIdentity) -> Exception:
        return superseded_error(self._path, attempt_label(batch.attempt), "a later attempt")
