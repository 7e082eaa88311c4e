"""Examination of one query's checkpoint: damage on which Spark fails, or which loses or repeats rows without an error.

A finding of damage needs a rule that names the method of Spark that reads the file. A problem of a file that Spark does not
read when it starts is a remark. A file in an unknown format cannot be judged.
"""

from collections.abc import Iterator

from holdfast.checkpoint import log_files, source_logs
from holdfast.checkpoint.damage_rules import (
    CHECKSUM_BLOCKS_FILE,
    COMMIT_UNREADABLE,
    EPOCH_OFFSETS_MISSING,
    FOLDER_NOT_EMPTY,
    OFFSET_UNREADABLE,
    OFFSETS_BEHIND_COMMITS,
    OFFSETS_LACK_SOURCES,
    OFFSETS_MISSING,
    OFFSETS_OF_OTHER_BATCH,
    OFFSETS_UNREADABLE,
    PREVIOUS_OFFSETS_MISSING,
    QUERY_ID_MISSING,
    QUERY_ID_UNREADABLE,
    REPARTITION_UNFINISHED,
    SOURCE_OFFSETS_DECREASE,
)
from holdfast.checkpoint.file_tree import COMPACT, FileTree, first_missing
from holdfast.checkpoint.finding import ONLY_CHECKSUM_LEFT, Finding, damage, doubt, remark
from holdfast.checkpoint.query import Query, build_query
from holdfast.checkpoint.query_logs import (
    ASYNCHRONOUS,
    COMMITS,
    CONTINUOUS,
    METADATA,
    OFFSETS,
    SOURCES,
    STATE,
    QueryLogs,
    parse_logs,
)
from holdfast.checkpoint.source_logs import file_source_offset
from holdfast.checkpoint.state import state_check

NOT_NEEDED = "no batch needs it any more"


def examine(tree: FileTree, place: str = "") -> Query:
    logs = parse_logs(tree)
    return build_query(tree, logs, place, tuple(_Examination(tree, logs).findings()))


class _Examination:
    def __init__(self, tree: FileTree, logs: QueryLogs) -> None:
        self._tree = tree
        self._logs = logs
        self._planned = -1 if logs.planned is None else logs.planned
        self._committed = -1 if logs.committed is None else logs.committed

    def findings(self) -> Iterator[Finding]:
        yield from self._unreadable_folders()
        yield from self._check_metadata()
        yield from self._orphaned_checksums()
        if self._planned < 0:
            yield from self._check_without_offsets()
        elif self._logs.mode == CONTINUOUS:
            yield from self._check_continuous()
        else:
            yield from self._check_micro_batch()
        yield from self._check_commits()
        yield from self._old_files()
        yield from source_logs.find_problems(self._tree, self._logs)
        if self._tree.truncated:
            yield doubt(STATE, "was not checked: the location has too many files")
        elif self._logs.mode != CONTINUOUS:
            yield from state_check.find_problems(self._tree, self._logs)

    def _unreadable_folders(self) -> Iterator[Finding]:
        files = self._tree.files
        yield from (doubt(path, f"cannot be listed: {why}") for path, why in self._tree.unreadable.items() if path not in files)

    # The id of the query, and checksum files

    def _check_metadata(self) -> Iterator[Finding]:
        data = self._tree.contents.get(METADATA)
        if METADATA not in self._tree.files:
            if self._planned >= 0 or self._committed >= 0:
                yield damage(QUERY_ID_MISSING, METADATA, "is missing, but the query has batches")
        elif METADATA in self._tree.unreadable:
            yield doubt(METADATA, f"cannot be read: {self._tree.unreadable[METADATA]}")
        else:
            try:
                log_files.parse_query_id(data or b"")
            except log_files.TornFile as torn:
                yield damage(QUERY_ID_UNREADABLE, METADATA, str(torn))
            else:
                yield from self._mismatch(METADATA)

    def _mismatch(self, path: str) -> Iterator[Finding]:
        """Yield a checksum that does not match a file which is valid otherwise."""
        if path in self._tree.damage:
            yield self._tree.damage[path]

    def _orphaned_checksums(self) -> Iterator[Finding]:
        """Yield checksum files of future batches. Spark would treat them as files of another driver."""
        sources = [
            f"{SOURCES}/{name}"
            for name in self._tree.subfolders(SOURCES)
            if source_logs.is_file_source(self._tree, self._logs, name)
        ]
        for folder in (OFFSETS, COMMITS, *sources):
            newest = max(self._tree.numbered_files(folder), default=-1)
            for path in self._tree.missing_but_checksummed(folder):
                number = path.rpartition("/")[2].removesuffix(COMPACT)
                if number.isascii() and number.isdigit() and int(number) > newest:
                    yield damage(CHECKSUM_BLOCKS_FILE, path, ONLY_CHECKSUM_LEFT)

    # Offsets

    def _check_without_offsets(self) -> Iterator[Finding]:
        if self._committed >= 0:
            problem = f"is missing, but {COMMITS}/{self._committed} exists"
            yield damage(OFFSETS_MISSING, f"{OFFSETS}/{self._committed}", problem)
            return
        for folder in (OFFSETS, COMMITS):
            for name in sorted(name for name, _ in self._tree.files_in(folder) if name and not name.endswith(".crc")):
                problem = "is left from a batch that was never planned: Spark refuses a new checkpoint that is not empty"
                yield damage(FOLDER_NOT_EMPTY, f"{folder}/{name}", problem)
        if self._tree.subfolders(STATE):
            yield doubt(STATE, "exists, but the query has no offsets: Spark continues only in real-time mode")

    def _check_continuous(self) -> Iterator[Finding]:
        """Yield problems of a continuous query, which reads the newest commit and the offsets of the same epoch."""
        if self._committed < 0:
            return
        path = f"{OFFSETS}/{self._committed}"
        if self._committed not in self._logs.offset_files:
            yield damage(EPOCH_OFFSETS_MISSING, path, f"is missing, but {COMMITS}/{self._committed} exists")
        else:
            yield from self._check_offsets(self._committed)

    def _check_micro_batch(self) -> Iterator[Finding]:
        planned, committed = self._planned, self._committed
        if committed > planned:
            problem = f"is missing, but {COMMITS}/{committed} exists: Spark would run an earlier batch again"
            yield damage(OFFSETS_BEHIND_COMMITS, f"{OFFSETS}/{committed}", problem)
        yield from self._check_offsets(planned)
        if planned == 0:
            return
        if planned - 1 not in self._logs.offset_files:
            yield self._missing_previous()
        else:
            yield from self._check_offsets(planned - 1)
        yield from self._compare_newest()
        if planned - 1 not in self._logs.commit_files and committed < planned and self._logs.mode != ASYNCHRONOUS:
            problem = f"is missing, but {OFFSETS}/{planned} exists: Spark repeats only batch {planned}"
            yield remark(f"{COMMITS}/{planned - 1}", problem)

    def _missing_previous(self) -> Finding:
        planned = self._planned
        path = f"{OFFSETS}/{planned - 1}"
        if self._logs.mode == ASYNCHRONOUS:
            problem = (
                f"is missing, and so is {COMMITS}/{planned - 1}, as asynchronous progress tracking leaves them: Spark "
                f"continues only with the option asyncProgressTrackingEnabled"
            )
            return doubt(path, problem)
        return damage(PREVIOUS_OFFSETS_MISSING, path, f"is missing, but {OFFSETS}/{planned} exists")

    def _check_offsets(self, batch: int) -> Iterator[Finding]:
        """Yield problems of offsets that Spark reads."""
        path = f"{OFFSETS}/{batch}"
        is_uncommitted_newest = batch == self._planned and self._committed == batch - 1
        torn_batch = batch if is_uncommitted_newest and not (batch == 0 and self._tree.subfolders(STATE)) else None
        offsets = self._logs.offsets.get(batch)
        if path in self._logs.torn:
            yield damage(OFFSETS_UNREADABLE, path, self._logs.torn[path], torn_batch=torn_batch)
        elif path in self._logs.unknown:
            yield doubt(path, self._logs.unknown[path])
        elif offsets is not None and any(self._is_torn(batch, name) for name in offsets.sources):
            yield damage(OFFSET_UNREADABLE, path, "has an offset that is truncated or is not JSON", torn_batch=torn_batch)
        else:
            yield from self._mismatch(path)

    def _is_torn(self, batch: int, source: str) -> bool:
        """Return True for an offset that is truncated JSON, unless the source writes another format in other batches, too."""
        others = [offsets.of(source) for number, offsets in self._logs.offsets.items() if number != batch]
        own_format = any(other is not None and log_files.is_torn_json(other) for other in others)
        offset = self._logs.offsets[batch].of(source)
        return offset is not None and log_files.is_torn_json(offset) and not own_format

    def _compare_newest(self) -> Iterator[Finding]:
        """Yield contradictions between the newest two offsets."""
        newest, before = self._logs.offsets.get(self._planned), self._logs.offsets.get(self._planned - 1)
        if newest is None or before is None:
            return
        path, other = f"{OFFSETS}/{self._planned}", f"{OFFSETS}/{self._planned - 1}"
        if newest == before:
            yield damage(OFFSETS_OF_OTHER_BATCH, path, f"is identical to {other}, but no two batches have the same offsets")
        elif (name := _first_decrease(before, newest)) is not None:
            problem = f"is behind {other} for source {name}: one of the two holds the offsets of another batch"
            yield damage(SOURCE_OFFSETS_DECREASE, path, problem)
        elif newest.version == before.version == 1 and len(newest.offsets) != len(before.offsets):
            problem = f"has {len(newest.offsets)} sources, but {other} has {len(before.offsets)}"
            yield damage(OFFSETS_LACK_SOURCES, path, problem)
        elif self._is_unfinished_repartition(before, newest):
            problem = (
                f"belongs to a repartitioning of the state to {newest.shuffle_partitions} partitions that did not finish: "
                f"run it again"
            )
            yield damage(REPARTITION_UNFINISHED, path, problem)
        elif newest.watermark_ms < before.watermark_ms:
            yield remark(path, f"has a lower watermark than {other}")

    def _is_unfinished_repartition(self, before: log_files.BatchOffsets, newest: log_files.BatchOffsets) -> bool:
        partitions = (before.shuffle_partitions, newest.shuffle_partitions)
        return 0 <= self._committed < self._planned and None not in partitions and partitions[0] != partitions[1]

    # Commits, and files that no batch needs

    def _check_commits(self) -> Iterator[Finding]:
        if self._committed < 0:
            return
        path = f"{COMMITS}/{self._committed}"
        commit, offsets = self._logs.newest_commit, self._logs.offsets.get(self._committed)
        if path in self._logs.torn:
            yield damage(COMMIT_UNREADABLE, path, self._logs.torn[path])
        elif path in self._logs.unknown:
            yield doubt(path, self._logs.unknown[path])
        elif commit is not None and not commit.is_complete:
            yield remark(path, "ends after its version line: Spark reads it as a commit without a watermark")
        elif commit is not None and offsets is not None and 0 < commit.watermark_ms < offsets.watermark_ms:
            yield remark(path, f"has a lower watermark than {OFFSETS}/{self._committed}, which Spark uses instead")
        else:
            yield from self._mismatch(path)

    def _old_files(self) -> Iterator[Finding]:
        needed = {f"{OFFSETS}/{self._planned}", f"{OFFSETS}/{self._planned - 1}", f"{COMMITS}/{self._committed}"}
        if self._logs.mode == CONTINUOUS:
            needed = {f"{OFFSETS}/{self._committed}", f"{COMMITS}/{self._committed}"}
        for path, problem in {**self._logs.torn, **self._logs.unknown}.items():
            if path not in needed:
                yield remark(path, f"{problem}; {NOT_NEEDED}")
        if self._logs.mode == ASYNCHRONOUS:
            return
        for folder, log in ((OFFSETS, self._logs.offset_files), (COMMITS, self._logs.commit_files)):
            missing = first_missing(log, min(log, default=0))
            if missing is not None and missing < self._planned - 1:
                yield remark(f"{folder}/{missing}", f"is missing, but later files exist; {NOT_NEEDED}")


def _first_decrease(before: log_files.BatchOffsets, after: log_files.BatchOffsets) -> str | None:
    """Return the first file source whose offset decreases. The offsets of other sources may start again."""
    for name in after.sources:
        old, new = before.of(name), after.of(name)
        if old is None or new is None:
            continue
        numbers = file_source_offset(old), file_source_offset(new)
        if numbers[0] is not None and numbers[1] is not None and numbers[1] < numbers[0]:
            return name
    return None
