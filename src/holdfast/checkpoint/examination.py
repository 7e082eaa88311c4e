"""What is wrong with one query's checkpoint: everything that the next batch reads, and that Spark may take for good.

What Spark reads when it starts, and so what harms: the newest two files of offsets, the newest commit, the metadata, the logs
of the sources, and the state that the next batch begins with. Anything older is only remarked.
"""

import json
from collections.abc import Iterator

from holdfast.checkpoint import log_files, state_store
from holdfast.checkpoint.file_tree import COMPACT, Entry, Tree, first_missing
from holdfast.checkpoint.finding import LOST, Finding
from holdfast.checkpoint.query import COMMITS, METADATA, OFFSETS, SOURCES, Query, file_offset, read


def examine(tree: Tree, place: str = "") -> Query:
    return read(tree, place, tuple(_Examination(tree).findings()))


class _Examination:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._offsets, self._commits = tree.log(OFFSETS), tree.log(COMMITS)
        self._planned = max(self._offsets, default=-1)
        self._committed = max(self._commits, default=-1)
        self._read: dict[int, log_files.Offsets] = {}
        self._torn: dict[int, str] = {}
        for number, entry in self._offsets.items():
            self._read_offsets(number, entry)

    def findings(self) -> Iterator[Finding]:
        yield from self._order()
        yield from self._lost()
        yield from self._metadata()
        yield from self._torn_offsets()
        yield from self._torn_commits()
        yield from self._other_content()
        for source in self._tree.folders(SOURCES):
            yield from self._source(source)
        if self._tree.cut:
            yield Finding(state_store.STATE, "has too many files to look at them all", harms=False)
        elif self._tree.folders(state_store.STATE):
            yield from state_store.findings(self._tree, self._committed + 1)

    def _read_offsets(self, number: int, entry: Entry) -> None:
        problem = _problem(self._tree, entry)
        data = self._tree.contents.get(entry.file.path)
        try:
            if problem is not None:
                raise log_files.Torn(problem)
            if data is not None:
                self._read[number] = log_files.offsets(data)
        except log_files.Torn as torn:
            self._torn[number] = str(torn)

    # Which batches there are

    def _order(self) -> Iterator[Finding]:
        planned, committed = self._planned, self._committed
        if committed > planned:
            yield Finding(
                f"{OFFSETS}/{committed}",
                f"is not there, and {COMMITS}/{committed} is: Spark would run an earlier batch again and lose rows",
            )
        elif planned > 0 and committed < planned - 1:
            yield Finding(f"{COMMITS}/{planned - 1}", f"is not there, and {OFFSETS}/{planned} is")
        if planned > 0 and planned - 1 not in self._offsets:
            yield Finding(f"{OFFSETS}/{planned - 1}", f"is not there, and {OFFSETS}/{planned} is")
        for folder, log in ((OFFSETS, self._offsets), (COMMITS, self._commits)):
            missing = first_missing(log, min(log, default=0))
            if missing is not None and missing < planned - 1:
                yield Finding(
                    f"{folder}/{missing}", "is not there, and later ones are; no batch needs it any more", harms=False
                )

    def _lost(self) -> Iterator[Finding]:
        """Of batches to come. Spark would take the checksums that are left for another driver's."""
        sources = [f"{SOURCES}/{source}" for source in self._tree.folders(SOURCES)]
        for folder in (OFFSETS, COMMITS, *sources):
            newest = max(self._tree.log(folder), default=-1)
            for path in self._tree.lost(folder):
                number = path.rpartition("/")[2].removesuffix(COMPACT)
                if number.isascii() and number.isdigit() and int(number) > newest:
                    yield Finding(path, LOST)

    def _metadata(self) -> Iterator[Finding]:
        file = self._tree.files.get(METADATA)
        if file is None:
            if self._offsets or self._commits:
                yield Finding(METADATA, "is not there, and the query has batches")
            return
        if METADATA in self._tree.damage:
            yield Finding(METADATA, self._tree.damage[METADATA])
            return
        try:
            log_files.metadata(self._tree.contents.get(METADATA, b""))
        except log_files.Torn as torn:
            yield Finding(METADATA, str(torn))

    # Content that is not whole

    def _torn_offsets(self) -> Iterator[Finding]:
        for number, problem in self._torn.items():
            path = f"{OFFSETS}/{number}"
            if number < self._planned - 1:
                yield Finding(path, f"{problem}; no batch needs it any more", harms=False)
            elif number == self._planned and self._committed == number - 1:
                yield Finding(path, problem, torn_batch=number)
            else:
                yield Finding(path, problem)

    def _torn_commits(self) -> Iterator[Finding]:
        for number, entry in self._commits.items():
            problem, data = _problem(self._tree, entry), self._tree.contents.get(entry.file.path)
            try:
                if problem is not None:
                    raise log_files.Torn(problem)
                if data is None:
                    continue
                yield from self._watermark(number, log_files.commit(data))
            except log_files.Torn as torn:
                needed = number == self._committed
                words = str(torn) if needed else f"{torn}; no batch needs it any more"
                yield Finding(entry.file.path, words, harms=needed)

    def _watermark(self, number: int, commit: log_files.Commit) -> Iterator[Finding]:
        """It never goes back, so one that is too low is that of another batch."""
        offsets = self._read.get(number)
        if offsets is not None and commit.watermark_ms < offsets.watermark_ms:
            yield Finding(
                f"{COMMITS}/{number}",
                f"has a watermark below that of {OFFSETS}/{number}: it is the commit of another batch",
                harms=number == self._committed,
            )

    def _other_content(self) -> Iterator[Finding]:
        """Offsets that are whole, and not those of their batches."""
        newest, before = self._read.get(self._planned), self._read.get(self._planned - 1)
        if newest is None or before is None:
            return
        path = f"{OFFSETS}/{self._planned}"
        if newest == before:
            yield Finding(path, f"is the same as {OFFSETS}/{self._planned - 1}, which no two batches are")
        elif newest.watermark_ms < before.watermark_ms or _recedes(before, newest):
            yield Finding(path, f"goes back behind {OFFSETS}/{self._planned - 1}: one of them holds those of another batch")
        elif len(newest.offsets) != len(before.offsets):
            yield Finding(path, f"names {len(newest.offsets)} sources, and {OFFSETS}/{self._planned - 1} {len(before.offsets)}")

    # The logs of the sources

    def _source(self, source: str) -> Iterator[Finding]:
        folder = f"{SOURCES}/{source}"
        log = self._tree.log(folder)
        reached = self._reached(source)
        first = max((number for number, entry in log.items() if entry.compact), default=0)
        if reached is not None:
            yield from self._source_order(folder, log, first, reached)
        for number, entry in log.items():
            if number >= first:
                yield from self._source_file(entry, number if reached is not None else None)

    def _reached(self, source: str) -> int | None:
        """How far the newest offsets that can be read says that a file source is."""
        offsets = self._read.get(self._planned) or self._read.get(self._planned - 1)
        index = int(source) if source.isascii() and source.isdigit() else -1
        return file_offset(offsets.offsets[index]) if offsets is not None and 0 <= index < len(offsets.offsets) else None

    def _source_order(self, folder: str, log: dict[int, Entry], first: int, reached: int) -> Iterator[Finding]:
        missing = first_missing(log, first)
        if missing is None and reached > max(log, default=-1):
            missing = reached
        if missing is not None:
            yield Finding(f"{folder}/{missing}", "is not there: Spark would not know that those files were read")

    def _source_file(self, entry: Entry, of_files: int | None) -> Iterator[Finding]:
        path, data = entry.file.path, self._tree.contents.get(entry.file.path)
        if (problem := _problem(self._tree, entry)) is not None:
            yield Finding(path, problem)
        elif data is not None and (of_files is not None or data.removeprefix(b"\0").startswith(b"v")):
            try:
                entries = log_files.entries(data)
            except log_files.Torn as torn:
                yield Finding(path, str(torn))
                return
            if not entries:
                yield Finding(path, "ends after its version")
            elif of_files is not None and not _are_of(entries, of_files, compact=entry.compact):
                yield Finding(path, "holds what another batch of that source has read")


def _problem(tree: Tree, entry: Entry) -> str | None:
    return "is empty" if entry.file.size == 0 else tree.damage.get(entry.file.path)


def _are_of(entries: list[object], number: int, *, compact: bool) -> bool:
    """A file source notes with each file in which of its batches it was read."""
    numbers = [entry.get("batchId") for entry in entries if isinstance(entry, dict)]
    return len(numbers) == len(entries) and all(
        each == number or (compact and type(each) is int and each < number) for each in numbers
    )


def _recedes(before: log_files.Offsets, after: log_files.Offsets) -> bool:
    """Only of offsets of which it is known that they never do: plain numbers, and those of file sources."""
    for old, new in zip(before.offsets, after.offsets, strict=False):
        pair = [file_offset(text) if file_offset(text) is not None else _plain_number(text) for text in (old, new)]
        if pair[0] is not None and pair[1] is not None and pair[1] < pair[0]:
            return True
    return False


def _plain_number(offset: str) -> int | None:
    try:
        value = json.loads(offset)
    except (ValueError, RecursionError):
        return None
    return value if type(value) is int else None
