"""Which files of a checkpoint belong to a copy of it. Pure.

A query's checkpoint is a folder with `offsets`, `commits`, `metadata`, `sources` and `state`. Files are named by the batch that
they belong to, and are written once. `offsets/N` stands before batch N begins, `commits/N` when it is done, and the state that
batch N leaves has the version N + 1. So everything up to the last commit is a whole; what belongs to later batches is left out.

Of a job that does not run everything is copied: a batch that was begun has its offsets, and its repetition must be the same
batch, because a sink may have taken it already.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

OURS = "_holdfast"
_OFFSETS = re.compile(r"(?P<query>(?:[^/]+/)*?)offsets/(?P<batch>\d+)")
_COMMITS = re.compile(r"(?P<query>(?:[^/]+/)*?)commits/(?P<batch>\d+)")
_SOURCES = re.compile(r"(?P<query>(?:[^/]+/)*?)sources/\d+/(?P<batch>\d+)(?:\.compact)?")
_STATE = re.compile(r"(?P<query>(?:[^/]+/)*?)state/(?:[^/]+/)*(?P<version>\d+)(?:_[^/]*)?\.[a-z.]+")
_CHECKSUM = re.compile(r"(?P<folder>(?:[^/]+/)*)\.(?P<name>[^/]+)\.crc")
_UNFINISHED = re.compile(r"(?:[^/]+/)*\.[^/]*\.tmp(?:\.crc)?|(?:[^/]+/)*\.\.[^/]*")


@dataclass(frozen=True, slots=True)
class Cut:
    batches: dict[str, int]
    """The last committed batch of each query, by its folder."""
    files: tuple[str, ...]

    def needs(self, path: str, slack: int) -> bool:
        """Whether the next batch may read it. What is much older Spark itself removes as time goes by."""
        query, number = _place(path)
        return number is None or number > self.batches.get(query, 0) - slack


def committed(paths: Iterable[str]) -> dict[str, int]:
    """The last committed batch of each query, by its folder."""
    batches: dict[str, int] = {}
    for path in paths:
        if (match := _COMMITS.fullmatch(path)) is not None:
            query = match["query"]
            batches[query] = max(batches.get(query, -1), int(match["batch"]))
    return batches


def cut(paths: Iterable[str], batches: dict[str, int], *, running: bool) -> Cut:
    """Of the files below a job's checkpoint. They must have been listed after the batches were found committed."""
    there = [path for path in paths if not path.startswith(f"{OURS}/") and not _UNFINISHED.fullmatch(path)]
    return Cut(batches, tuple(sorted(path for path in there if not running or _belongs(path, batches))))


def _belongs(path: str, batches: dict[str, int]) -> bool:
    query, number = _place(path)
    return number is None or number <= batches.get(query, -1)


def _place(path: str) -> tuple[str, int | None]:
    """The query that a file belongs to, and the last batch that it needs to have been committed; None: whatever it was."""
    checksum = _CHECKSUM.fullmatch(path)
    plain = f"{checksum['folder']}{checksum['name']}" if checksum is not None else path
    for pattern in (_OFFSETS, _COMMITS, _SOURCES):
        if (match := pattern.fullmatch(plain)) is not None:
            return match["query"], int(match["batch"])
    if (match := _STATE.fullmatch(plain)) is not None:
        return match["query"], int(match["version"]) - 1
    return "", None
