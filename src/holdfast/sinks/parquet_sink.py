"""Parquet sink. A plain `spark.read.parquet` sees complete batches only."""

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.errors import OutputRefused, Refused, Unavailable
from holdfast.sinks.batch_directory import BatchDirectory, BatchRecord, DirectoryState
from holdfast.sinks.batch_identity import identify_batch, skip_batch
from holdfast.sinks.batch_ledger import BatchIdentity, Refusal, SkipBatch, decide_batch
from holdfast.sinks.hadoop_files import HadoopFolder
from holdfast.sinks.output_claim import OutputClaim
from holdfast.sinks.refusal_message import attempt_label, refusal_error, superseded_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ATOMIC_RENAME_SCHEMES = ("file", "hdfs")
"""File systems on which the rename of a directory is atomic."""
ACQUIRE_ATTEMPTS_MAX = 10


def parquet(path: str, *, adopt: str | None = None) -> "ParquetSink":
    """Return a sink for `foreachBatch` that writes each batch exactly once, as `path/batch=N`.

    Only the query that created an output may continue it. To continue another query's output, pass the owner that the error
    message names as `adopt`. After the first adopted batch, `adopt` has no effect.
    """
    return ParquetSink(path, adopt)


class ParquetSink:
    """Callable for `foreachBatch`. It acquires the directory on its first batch."""

    def __init__(self, path: str, adopt: str | None) -> None:
        self._path = path
        self._adopt = adopt
        self._nonce = secrets.token_hex(8)
        self._state: DirectoryState | None = None
        """State of the directory since it was acquired. While the claim is the newest, no other sink changes it."""

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        batch = identify_batch(frame, batch_id)
        directory = self._open(frame)
        if self._state is None:
            self._state = self._acquire(directory, batch)
        assert self._state.claim is not None
        if not directory.is_newest(self._state.claim):
            raise self._superseded_error(batch)
        decision = decide_batch(directory.output_record(self._state, batch.id), batch, self._adopt)
        if isinstance(decision, Refusal):
            raise refusal_error(decision, batch, self._path)
        if isinstance(decision, SkipBatch):
            return skip_batch(frame, batch, self._path)
        self._state = self._write(directory, frame, batch, self._state)

    def _open(self, frame: "DataFrame") -> BatchDirectory:
        if "batch" in map(str.lower, frame.columns):
            raise Refused(
                "the Parquet sink cannot write a column named 'batch': readers add one for the batch number. Rename it"
            )
        folder = HadoopFolder(frame.sparkSession, self._path)
        if folder.scheme not in ATOMIC_RENAME_SCHEMES:
            raise Refused(
                f"the Parquet sink cannot write to {self._path}: renames are not atomic on '{folder.scheme}:', so readers "
                f"could see half a batch. Use a local or HDFS path, or the Delta sink"
            )
        return BatchDirectory(folder)

    def _acquire(self, directory: BatchDirectory, batch: BatchIdentity) -> DirectoryState:
        for _ in range(ACQUIRE_ATTEMPTS_MAX):
            state = directory.read_state()
            decision = decide_batch(directory.output_record(state, batch.id), batch, self._adopt)
            if isinstance(decision, Refusal):
                raise refusal_error(decision, batch, self._path)
            own = state.claim is not None and state.claim.owner == batch.owner
            if state.foreign_names and not own:
                raise OutputRefused(
                    f"{self._path} contains {state.foreign_names[0]}, which readers would ignore beside batches: move the "
                    f"files to keep into its folder batch=0, or choose another output"
                )
            if directory.acquire(OutputClaim.next_after(state.claim, batch, self._nonce)):
                return directory.read_state()
        raise Unavailable(f"cannot acquire {self._path}: other drivers keep taking it over; check which jobs write to it")

    def _write(
        self, directory: BatchDirectory, frame: "DataFrame", batch: BatchIdentity, state: DirectoryState
    ) -> DirectoryState:
        assert state.claim is not None
        record = BatchRecord(batch.owner, batch.attempt, batch.id, batch.digest)
        try:
            frame.write.mode("overwrite").parquet(directory.staging_uri(state.claim))
            published = directory.publish(state.claim, state.next_number, record)
        except Exception as error:
            # A successor moves the staging directory away, which makes the write fail in various ways.
            if directory.is_newest(state.claim):
                raise
            raise self._superseded_error(batch) from error
        if not published:
            if directory.is_newest(state.claim):
                raise Unavailable(f"cannot publish batch {batch.id} in {self._path}: another process changes this directory")
            raise self._superseded_error(batch)
        return replace(state, last_number=state.next_number, last_record=record)

    def _superseded_error(self, batch: BatchIdentity) -> Exception:
        return superseded_error(self._path, attempt_label(batch.attempt), "a later attempt")
