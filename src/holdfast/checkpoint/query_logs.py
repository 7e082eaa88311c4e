"""The logs of one query, parsed: `offsets/N` and `commits/N`, and what they say about the next batch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from holdfast.checkpoint import log_files
from holdfast.checkpoint.file_tree import Entry, FileTree

METADATA, OFFSETS, COMMITS, SOURCES, STATE = "metadata", "offsets", "commits", "sources", "state"
MICRO_BATCH, CONTINUOUS, ASYNCHRONOUS = "micro-batch", "continuous", "asynchronous"

Parsed = TypeVar("Parsed")


@dataclass(frozen=True)
class QueryLogs:
    offset_files: dict[int, Entry]
    commit_files: dict[int, Entry]
    offsets: dict[int, log_files.BatchOffsets]
    """Offsets that were read and are valid, by batch."""
    commits: dict[int, log_files.BatchCommit]
    torn: dict[str, str]
    """Problem of each file that Spark cannot read, by path."""
    unknown: dict[str, str]
    """Reason for each file that cannot be judged, by path."""

    @property
    def planned(self) -> int | None:
        """Return the newest planned batch."""
        return max(self.offset_files, default=None)

    @property
    def committed(self) -> int | None:
        """Return the newest committed batch."""
        return max(self.commit_files, default=None)

    @property
    def next_batch(self) -> int:
        """Return the batch that Spark runs next: the newest planned one, or the one after it if that is committed."""
        if self.planned is None:
            return 0
        return self.planned + 1 if self.committed == self.planned else self.planned

    @property
    def newest_offsets(self) -> log_files.BatchOffsets | None:
        """Return the newest offsets that were read and are valid."""
        return self.offsets[max(self.offsets)] if self.offsets else None

    @property
    def newest_commit(self) -> log_files.BatchCommit | None:
        """Return the content of the newest commit; None if there is none or it is not valid."""
        return self.commits.get(self.committed) if self.committed is not None else None

    @property
    def mode(self) -> str:
        """Return the execution mode of the query that its logs show.

        Only continuous processing writes offsets without metadata. Only asynchronous progress tracking leaves out the offsets
        and the commit of the same batch.
        """
        if any(not offsets.has_metadata for offsets in self.offsets.values()):
            return CONTINUOUS
        planned = self.planned or 0
        gap = planned > 0 and planned - 1 not in self.offset_files
        has_earlier = any(batch < planned for batch in self.offset_files)
        oldest = min(self.offset_files, default=0)
        lone_commit = any(oldest <= batch <= planned and batch not in self.offset_files for batch in self.commit_files)
        return ASYNCHRONOUS if gap and has_earlier and not lone_commit else MICRO_BATCH


def parse_logs(tree: FileTree) -> QueryLogs:
    """Parse the offsets and the commits whose content was read."""
    logs = QueryLogs(tree.numbered_files(OFFSETS), tree.numbered_files(COMMITS), {}, {}, {}, {})
    for number, entry in logs.offset_files.items():
        _parse_file(tree, entry, logs, logs.offsets, number, log_files.parse_offsets)
    for number, entry in logs.commit_files.items():
        _parse_file(tree, entry, logs, logs.commits, number, log_files.parse_commit)
    return logs


def _parse_file(
    tree: FileTree, entry: Entry, logs: QueryLogs, parsed: dict[int, Parsed], number: int, parse: Callable[[bytes], Parsed]
) -> None:
    path = entry.file.path
    data = tree.content_of(entry.file)
    if data is None:
        if path in tree.unreadable:
            logs.unknown[path] = f"cannot be read: {tree.unreadable[path]}"
        return
    try:
        parsed[number] = parse(data)
    except log_files.TornFile as torn:
        logs.torn[path] = str(torn)
    except log_files.UnknownFormat as unknown:
        logs.unknown[path] = str(unknown)
