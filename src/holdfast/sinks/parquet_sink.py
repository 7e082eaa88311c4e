"""Batches into a directory of Parquet files. Readers see whole batches only, by plain `spark.read.parquet`."""

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.errors import OutputRefused, Refused, Unavailable
from holdfast.sinks.batch_directory import Directory, Look, Written
from holdfast.sinks.batch_identity import batch_of, skip
from holdfast.sinks.batch_ledger import Batch, Refusal, Skip, decide
from holdfast.sinks.hadoop_files import Folder
from holdfast.sinks.output_claim import Claim
from holdfast.sinks.refusal_message import named_attempt, refused, superseded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ATOMIC = ("file", "hdfs")
"""Where a rename is one step, for everybody."""
TRIES = 10


def parquet(path: str, *, adopt: str | None = None) -> "ParquetSink":
    """For `foreachBatch`: each batch becomes `path/batch=N`, once.

    Only the query that began an output goes on with it. `adopt` names another owner whose output this one continues, as the
    refusal spells it; once that is done it changes nothing.
    """
    return ParquetSink(path, adopt)


class ParquetSink:
    def __init__(self, path: str, adopt: str | None) -> None:
        self._path = path
        self._adopt = adopt
        self._nonce = secrets.token_hex(8)
        self._held: Look | None = None
        """What the directory is like since it was taken. As long as the claim is the newest, nobody else changes that."""

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        batch = batch_of(frame, batch_id)
        directory = self._open(frame)
        if self._held is None:
            self._held = self._take(directory, batch)
        assert self._held.claim is not None
        if not directory.is_newest(self._held.claim):
            raise self._superseded(batch)
        decision = decide(directory.recorded(self._held, batch.id), batch, self._adopt)
        if isinstance(decision, Refusal):
            raise refused(decision, batch, self._path)
        if isinstance(decision, Skip):
            return skip(frame, batch, self._path)
        self._held = self._write(directory, frame, batch, self._held)

    def _open(self, frame: "DataFrame") -> Directory:
        if "batch" in map(str.lower, frame.columns):
            raise Refused("a column named 'batch' cannot be written: readers get one by that name, the number of the batch")
        folder = Folder(frame.sparkSession, self._path)
        if folder.scheme not in ATOMIC:
            raise Refused(
                f"{self._path} cannot hold a Parquet output: to rename a directory is many steps on '{folder.scheme}:', and "
                f"readers would see half a batch"
            )
        return Directory(folder)

    def _take(self, directory: Directory, batch: Batch) -> Look:
        for _ in range(TRIES):
            look = directory.look()
            decision = decide(directory.recorded(look, batch.id), batch, self._adopt)
            if isinstance(decision, Refusal):
                raise refused(decision, batch, self._path)
            own = look.claim is not None and look.claim.owner == batch.owner
            if look.others and not own:
                raise OutputRefused(
                    f"{self._path} holds {look.others[0]}, which readers would not see beside batches: move what is to be kept "
                    f"into {self._path}/batch=0, or choose another place"
                )
            if directory.take(Claim.after(look.claim, batch, self._nonce)):
                return directory.look()
        raise Unavailable(f"others take {self._path} over and over again")

    def _write(self, directory: Directory, frame: "DataFrame", batch: Batch, held: Look) -> Look:
        assert held.claim is not None
        written = Written(batch.owner, batch.attempt, batch.id, batch.digest)
        try:
            frame.write.mode("overwrite").parquet(directory.staging(held.claim))
            published = directory.publish(held.claim, held.next_number, written)
        except Exception as error:
            # Whoever takes over moves the staging directory away, and what is written there then fails in many ways.
            if directory.is_newest(held.claim):
                raise
            raise self._superseded(batch) from error
        if not published:
            if directory.is_newest(held.claim):
                raise Unavailable(f"batch {batch.id} could not be made visible in {self._path}: somebody else changes it")
            raise self._superseded(batch)
        return replace(held, last=held.next_number, written=written)

    def _superseded(self, batch: Batch) -> Exception:
        return superseded(self._path, named_attempt(batch.attempt), "a later one")
