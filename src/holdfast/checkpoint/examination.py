"""Examination of one query's checkpoint: finds damage that Spark itself may not notice.

A finding is harmful if Spark reads the file when it starts: the newest two offsets files, the newest commit, the metadata, the
logs of the sources, and the state from which the next batch starts. Damage to older files is reported as harmless.
"""

import json
from collections.abc import Iterator

from holdfast.checkpoint import log_files, state_store
from holdfast.checkpoint.file_tree import COMPACT, Entry, FileTree, first_missing
from holdfast.checkpoint.finding import ONLY_CHECKSUM_LEFT, Finding
from holdfast.checkpoint.query import COMMITS, METADATA, OFFSETS, SOURCES, Query, build_query, file_source_offset

NOT_NEEDED = "no batch needs it any more"


def examine(tree: FileTree, place: str = "") -> Query:
    return build_query(tree, place, tuple(_Examination(tree).findings()))


class _Examination:
    def __init__(self, tree: FileTree) -> None:
        self._tree = tree
        self._offsets, self._commits = tree.numbered_files(OFFSETS), tree.numbered_files(COMMITS)
        self._planned = max(self._offsets, default=-1)
        self._committed = max(self._commits, default=-1)
        self._parsed_offsets: dict[int, log_files.BatchOffsets] = {}
        self._offsets_problems: dict[int, str] = {}
        for number, entry in self._offsets.items():
            self._read_offsets(number, entry)

    def findings(self) -> Iterator[Finding]:
        yield from self._missing_batches()
        yield from self._orphaned_checksums()
        yield from self._check_metadata()
        yield from self._check_offsets()
        yield from self._check_commits()
        yield from self._check_neighbours()
        for source in self._tree.subfolders(SOURCES):
            yield from self._check_source(source)
        if self._tree.truncated:
            yield Finding(state_store.STATE, "has too many files: they were not all checked", harms=False)
        elif self._tree.subfolders(state_store.STATE):
            yield from state_store.find_problems(self._tree, self._committed + 1)

    def _read_offsets(self, number: int, entry: Entry) -> None:
        problem = _file_problem(self._tree, entry)
        data = self._tree.contents.get(entry.file.path)
        try:
            if problem is not None:
                raise log_files.TornFile(problem)
            if data is not None:
                self._parsed_offsets[number] = log_files.parse_offsets(data)
        except log_files.TornFile as torn:
            self._offsets_problems[number] = str(torn)

    # Missing batches

    def _missing_batches(self) -> Iterator[Finding]:
        planned, committed = self._planned, self._committed
        if committed > planned:
            yield Finding(
                f"{OFFSETS}/{committed}",
                f"is missing, but {COMMITS}/{committed} exists: Spark would run an earlier batch again and lose rows",
            )
        elif planned > 0 and committed < planned - 1:
            yield Finding(f"{COMMITS}/{planned - 1}", f"is missing, but {OFFSETS}/{planned} exists")
        if planned > 0 and planned - 1 not in self._offsets:
            yield Finding(f"{OFFSETS}/{planned - 1}", f"is missing, but {OFFSETS}/{planned} exists")
        for folder, log in ((OFFSETS, self._offsets), (COMMITS, self._commits)):
            missing = first_missing(log, min(log, default=0))
            if missing is not None and missing < planned - 1:
                yield Finding(f"{folder}/{missing}", f"is missing, but later files exist; {NOT_NEEDED}", harms=False)

    def _orphaned_checksums(self) -> Iterator[Finding]:
        """Yield checksum files of future batches. Spark would take them for the files of another driver."""
        sources = [f"{SOURCES}/{source}" for source in self._tree.subfolders(SOURCES)]
        for folder in (OFFSETS, COMMITS, *sources):
            newest = max(self._tree.numbered_files(folder), default=-1)
            for path in self._tree.missing_but_checksummed(folder):
                number = path.rpartition("/")[2].removesuffix(COMPACT)
                if number.isascii() and number.isdigit() and int(number) > newest:
                    yield Finding(path, ONLY_CHECKSUM_LEFT)

    def _check_metadata(self) -> Iterator[Finding]:
        file = self._tree.files.get(METADATA)
        if file is None:
            if self._offsets or self._commits:
                yield Finding(METADATA, "is missing, but the query has batches")
            return
        if METADATA in self._tree.damage:
            yield Finding(METADATA, self._tree.damage[METADATA])
            return
        try:
            log_files.parse_query_id(self._tree.contents.get(METADATA, b""))
        except log_files.TornFile as torn:
            yield Finding(METADATA, str(torn))

    # Invalid content

    def _check_offsets(self) -> Iterator[Finding]:
        for number, problem in self._offsets_problems.items():
            path = f"{OFFSETS}/{number}"
            if number < self._planned - 1:
                yield Finding(path, f"{problem}; {NOT_NEEDED}", harms=False)
            elif number == self._planned and self._committed == number - 1:
                yield Finding(path, problem, torn_batch=number)
            else:
                yield Finding(path, problem)

    def _check_commits(self) -> Iterator[Finding]:
        for number, entry in self._commits.items():
            problem, data = _file_problem(self._tree, entry), self._tree.contents.get(entry.file.path)
            try:
                if problem is not None:
                    raise log_files.TornFile(problem)
                if data is None:
                    continue
                yield from self._check_watermark(number, log_files.parse_commit(data))
            except log_files.TornFile as torn:
                needed = number == self._committed
                text = str(torn) if needed else f"{torn}; {NOT_NEEDED}"
                yield Finding(entry.file.path, text, harms=needed)

    def _check_watermark(self, number: int, commit: log_files.BatchCommit) -> Iterator[Finding]:
        """Yield a commit with a lower watermark than its offsets: watermarks never decrease."""
        offsets = self._parsed_offsets.get(number)
        if offsets is not None and commit.watermark_ms < offsets.watermark_ms:
            yield Finding(
                f"{COMMITS}/{number}",
                f"has a lower watermark than {OFFSETS}/{number}: it is the commit of another batch",
                harms=number == self._committed,
            )

    def _check_neighbours(self) -> Iterator[Finding]:
        """Yield valid offsets that belong to another batch."""
        newest, before = self._parsed_offsets.get(self._planned), self._parsed_offsets.get(self._planned - 1)
        if newest is None or before is None:
            return
        path = f"{OFFSETS}/{self._planned}"
        if newest == before:
            yield Finding(path, f"is identical to {OFFSETS}/{self._planned - 1}, but no two batches have the same offsets")
        elif newest.watermark_ms < before.watermark_ms or _has_decreased(before, newest):
            yield Finding(path, f"is behind {OFFSETS}/{self._planned - 1}: one of the two holds the offsets of another batch")
        elif len(newest.offsets) != len(before.offsets):
            yield Finding(
                path, f"has {len(newest.offsets)} sources, but {OFFSETS}/{self._planned - 1} has {len(before.offsets)}"
            )

    # Logs of the sources

    def _check_source(self, source: str) -> Iterator[Finding]:
        folder = f"{SOURCES}/{source}"
        log = self._tree.numbered_files(folder)
        source_offset = self._source_offset(source)
        first = max((number for number, entry in log.items() if entry.compact), default=0)
        if source_offset is not None:
            yield from self._check_source_gaps(folder, log, first, source_offset)
        for number, entry in log.items():
            if number >= first:
                yield from self._check_source_file(entry, number if source_offset is not None else None)

    def _source_offset(self, source: str) -> int | None:
        """Return the log offset of a file source, from the newest readable offsets; None for any other source."""
        offsets = self._parsed_offsets.get(self._planned) or self._parsed_offsets.get(self._planned - 1)
        index = int(source) if source.isascii() and source.isdigit() else -1
        return file_source_offset(offsets.offsets[index]) if offsets is not None and 0 <= index < len(offsets.offsets) else None

    def _check_source_gaps(self, folder: str, log: dict[int, Entry], first: int, source_offset: int) -> Iterator[Finding]:
        missing = first_missing(log, first)
        if missing is None and source_offset > max(log, default=-1):
            missing = source_offset
        if missing is not None:
            yield Finding(f"{folder}/{missing}", "is missing: Spark would not know that it has read these files")

    def _check_source_file(self, entry: Entry, batch: int | None) -> Iterator[Finding]:
        path, data = entry.file.path, self._tree.contents.get(entry.file.path)
        if (problem := _file_problem(self._tree, entry)) is not None:
            yield Finding(path, problem)
        elif data is not None and (batch is not None or data.removeprefix(b"\0").startswith(b"v")):
            try:
                entries = log_files.parse_log_entries(data)
            except log_files.TornFile as torn:
                yield Finding(path, str(torn))
                return
            if not entries:
                yield Finding(path, "ends after its version line")
            elif batch is not None and not _belong_to_batch(entries, batch, compact=entry.compact):
                yield Finding(path, "lists the files of another batch")


def _file_problem(tree: FileTree, entry: Entry) -> str | None:
    return "is empty" if entry.file.size == 0 else tree.damage.get(entry.file.path)


def _belong_to_batch(entries: list[object], number: int, *, compact: bool) -> bool:
    """Return True if the entries belong to this batch: a file source records the batch of each file."""
    numbers = [entry.get("batchId") for entry in entries if isinstance(entry, dict)]
    return len(numbers) == len(entries) and all(
        each == number or (compact and type(each) is int and each < number) for each in numbers
    )


def _has_decreased(before: log_files.BatchOffsets, after: log_files.BatchOffsets) -> bool:
    """Return True if an offset decreases. Only plain numbers and offsets of file sources are compared."""
    for old, new in zip(before.offsets, after.offsets, strict=False):
        pair = [
            file_source_offset(text) if file_source_offset(text) is not None else _parse_number(text) for text in (old, new)
        ]
        if pair[0] is not None and pair[1] is not None and pair[1] < pair[0]:
            return True
    return False


def _parse_number(offset: str) -> int | None:
    try:
        value = json.loads(offset)
    except (ValueError, RecursionError):
        return None
    return value if type(value) is int else None
