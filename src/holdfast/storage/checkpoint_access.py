"""Examination and repair of checkpoints at any location, without Spark."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.checkpoint import FileSinkLog, Query, QueryPosition
from holdfast.checkpoint.file_sink import SINK_LOG_FOLDER as SINK_LOG
from holdfast.model import codec
from holdfast.storage.checkpoint_examiner import CheckpointExaminer
from holdfast.storage.checkpoint_removal import CheckpointRemover
from holdfast.storage.location import CHECKPOINTS, check_location, parse_location
from holdfast.storage.subprocesses.dispatch import STALL_TIMEOUT_S, examiner_caller, remover_caller

Record = TypeVar("Record")


class Checkpoints:
    """Checkpoint of a job or of one query. Its location is one that `location.checkpoint_location` returns."""

    def __init__(self, checkpoint: str, *, in_subprocess: bool = True, stall_timeout_s: float = STALL_TIMEOUT_S) -> None:
        check_location(checkpoint)
        self._call = examiner_caller(parse_location(checkpoint), in_subprocess=in_subprocess, stall_timeout_s=stall_timeout_s)

    def examine_queries(self) -> list[Query]:
        """Return the queries whose checkpoint is at the root or one folder below it, with their damage. Raises Unavailable."""
        return [decode_record(Query, fields) for fields in self._call(CheckpointExaminer.examine)]

    def judge_queries(self) -> list[Query]:
        """Return the queries at any depth, examined thoroughly. A file that cannot be read is a finding. Raises Unavailable."""
        return [decode_record(Query, fields) for fields in self._call(CheckpointExaminer.judge)]

    def read_position(self) -> QueryPosition | None:
        """Return the position of the query whose checkpoint is at the root, or None if there is none. Raises Unavailable."""
        fields = self._call(CheckpointExaminer.read_position)
        return decode_record(QueryPosition, fields) if fields is not None else None

    def rewrite_files(self, files: dict[str, str]) -> None:
        """Replace files atomically, one after the other. The caller must hold the claim, so that there is no other writer."""
        self._call(CheckpointExaminer.rewrite_files, files=files)

    def adopt_schema_files(self, query: Query) -> None:
        """Let the metadata of a query's operators name the schema files in this checkpoint instead of files elsewhere."""
        self._call(CheckpointExaminer.adopt_schema_files, place=query.place)

    def set_aside(self, query: Query, batch: int, attempt: int) -> str:
        """Move the truncated offsets of a batch out of the query's checkpoint, without deleting them. Return the new path."""
        return str(self._call(CheckpointExaminer.set_aside, place=query.place, batch=batch, attempt=attempt))

    def set_leftovers_aside(self, query: Query, paths: tuple[str, ...], attempt: int) -> str:
        """Move temporary files of a batch that was never planned, without deleting them. Return their new folder."""
        operation = CheckpointExaminer.set_leftovers_aside
        return str(self._call(operation, place=query.place, paths=list(paths), attempt=attempt))


def remove_deleted_checkpoint(
    storage: str, cluster: str, job: str, *, in_subprocess: bool = True, stall_timeout_s: float = STALL_TIMEOUT_S
) -> int:
    """Remove the checkpoint of a deleted job from the storage of its cluster. Return the number of its files.

    Raises NotRemovable if the checkpoint must be kept, and Unavailable.
    """
    check_location(storage)
    location = parse_location(storage).join(CHECKPOINTS, job)
    call = remover_caller(location, in_subprocess=in_subprocess, stall_timeout_s=stall_timeout_s)
    return call(CheckpointRemover.remove_owned, cluster=cluster, job=job)


def examine_file_sink(path: str, *, in_subprocess: bool = True, stall_timeout_s: float = STALL_TIMEOUT_S) -> FileSinkLog:
    """Return the log of the file sink that writes to a path. Raises Unavailable, and Refused for an invalid location."""
    check_location(path)
    call = examiner_caller(parse_location(path).join(SINK_LOG), in_subprocess=in_subprocess, stall_timeout_s=stall_timeout_s)
    return decode_record(FileSinkLog, call(CheckpointExaminer.examine_sink))


def decode_record(kind: Callable[..., Record], fields: dict[str, Any]) -> Record:
    """Decode a result with the codec, which checks the types of its fields: it may come from another process."""
    data = json.dumps({"schema": codec.SCHEMA, **fields}).encode()
    return codec.decode(kind, data, where="the result of the examination")  # type: ignore[arg-type]  # a class is a Callable, too
