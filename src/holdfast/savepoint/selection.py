"""Selection of the checkpoint files that a savepoint contains. Pure.

A query's checkpoint is a folder with `offsets`, `commits`, `metadata`, `sources` and `state`. Each file is written once, and
its name contains the number of its batch. Spark writes `offsets/N` before batch N starts and `commits/N` when it is done; the
state after batch N has version N + 1. All files up to the last commit are therefore consistent. Files of later batches are
left out.

The checkpoint of a job that is not running is copied completely. The offsets of a batch that has started but not committed
belong to it: Spark must repeat exactly this batch, because a sink may already contain its output.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.checkpoint.metadata_files import FOLDER

_OFFSETS = re.compile(r"(?P<query>(?:[^/]+/)*?)offsets/(?P<batch>\d+)")
_COMMITS = re.compile(r"(?P<query>(?:[^/]+/)*?)commits/(?P<batch>\d+)")
_SOURCES = re.compile(r"(?P<query>(?:[^/]+/)*?)sources/[^/]+/(?P<batch>\d+)(?:\.compact)?")
_STATE = re.compile(r"(?P<query>(?:[^/]+/)*?)state/(?:[^/]+/)*(?P<version>\d+)(?:_[^/]*)?\.[a-z.]+")
_CHECKSUM = re.compile(r"(?P<folder>(?:[^/]+/)*)\.(?P<name>[^/]+)\.crc")
_UNFINISHED = re.compile(r"(?:[^/]+/)*\.[^/]*\.tmp(?:\.crc)?|(?:[^/]+/)*\.\.[^/]*")


@dataclass(frozen=True, slots=True)
class FileSelection:
    """Files that a savepoint contains."""

    batches: dict[str, int]
    """Last committed batch of each query, by the folder of the query."""
    files: tuple[str, ...]
    """Paths relative to the job's checkpoint, sorted."""

    def is_needed(self, path: str, recent_batches: int) -> bool:
        """Return False for a file older than the last `recent_batches` batches, which Spark removes sooner or later."""
        query, batch = _query_and_batch(path)
        return batch is None or batch > self.batches.get(query, 0) - recent_batches


def last_committed_batches(paths: Iterable[str]) -> dict[str, int]:
    """Return the last committed batch of each query, by the folder of the query."""
    batches: dict[str, int] = {}
    for path in paths:
        if (match := _COMMITS.fullmatch(path)) is not None:
            query = match["query"]
            batches[query] = max(batches.get(query, -1), int(match["batch"]))
    return batches


def select_files(paths: Iterable[str], batches: dict[str, int], *, running: bool) -> FileSelection:
    """Select files of a job's checkpoint. `paths` must have been listed after `batches` were found committed."""
    finished = [path for path in paths if not path.startswith(f"{FOLDER}/") and not _UNFINISHED.fullmatch(path)]
    return FileSelection(batches, tuple(sorted(path for path in finished if not running or _is_committed(path, batches))))


def _is_committed(path: str, batches: dict[str, int]) -> bool:
    query, batch = _query_and_batch(path)
    return batch is None or batch <= batches.get(query, -1)


def _query_and_batch(path: str) -> tuple[str, int | None]:
    """Return the query folder of a file and the batch that wrote it, or None for a file that belongs to no single batch."""
    checksum = _CHECKSUM.fullmatch(path)
    plain = f"{checksum['folder']}{checksum['name']}" if checksum is not None else path
    for pattern in (_OFFSETS, _COMMITS, _SOURCES):
        if (match := pattern.fullmatch(plain)) is not None:
            return match["query"], int(match["batch"])
    if (match := _STATE.fullmatch(plain)) is not None:
        return match["query"], int(match["version"]) - 1
    return "", None
