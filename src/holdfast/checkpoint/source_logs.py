"""Logs of the sources, `sources/NAME/N`. Only file sources write one file for each of their offsets."""

import json
from collections.abc import Iterator

from holdfast.checkpoint import log_files
from holdfast.checkpoint.damage_rules import (
    LOG_INCOMPLETE,
    SOURCE_FILES_FORGOTTEN,
    SOURCE_FILES_OF_OTHER_BATCH,
    SOURCE_LOG_BEHIND,
)
from holdfast.checkpoint.file_log import read_log_entries
from holdfast.checkpoint.file_tree import Entry, FileTree, first_missing
from holdfast.checkpoint.finding import Finding, damage, doubt, remark
from holdfast.checkpoint.query_logs import SOURCES, QueryLogs


def file_source_offset(offset: str) -> int | None:
    """Return the log offset of a file source, or None for any other source."""
    try:
        value = json.loads(offset)
    except (ValueError, RecursionError):
        return None
    number = value.get("logOffset") if isinstance(value, dict) else None
    return number if type(number) is int else None


def find_problems(tree: FileTree, logs: QueryLogs) -> Iterator[Finding]:
    folders = tree.subfolders(SOURCES)
    if not folders and logs.newest_offsets is not None:
        yield from _missing_logs(logs.newest_offsets.offsets)
    for name in folders:
        log = tree.numbered_files(f"{SOURCES}/{name}")
        offset = _log_offset(logs, name, len(folders))
        if offset is not None or (logs.planned is None and _looks_like_file_source(tree, log)):
            yield from _check_file_source(tree, f"{SOURCES}/{name}", log, offset)
        else:
            yield from _check_other_source(tree, log)


def _missing_logs(offsets: tuple[str, ...]) -> Iterator[Finding]:
    """Yield the newest log files of file sources if the checkpoint has no logs of sources at all."""
    for offset in sorted({number for text in offsets if (number := file_source_offset(text)) is not None and number >= 0}):
        problem = f"is missing, but a file source has read up to file {offset} of its log"
        yield damage(SOURCE_LOG_BEHIND, SOURCES, problem)


def is_file_source(tree: FileTree, logs: QueryLogs, name: str) -> bool:
    log = tree.numbered_files(f"{SOURCES}/{name}")
    return _log_offset(logs, name, len(tree.subfolders(SOURCES))) is not None or _looks_like_file_source(tree, log)


def _log_offset(logs: QueryLogs, name: str, folders: int) -> int | None:
    """Return the log offset that the newest offsets have for a file source; None for another source.

    Sources without a name are numbered, and a source that is used twice has two offsets, but one folder. Then any later
    offset may belong to the folder, so the lowest one counts.
    """
    newest = logs.newest_offsets
    if newest is None:
        return None
    if not (name.isascii() and name.isdigit()) or len(newest.offsets) == folders:
        offset = newest.of(name)
        return file_source_offset(offset) if offset is not None else None
    candidates = [file_source_offset(offset) for offset in newest.offsets[int(name) :] if offset != log_files.NO_OFFSET]
    numbers = [number for number in candidates if number is not None]
    return min(numbers) if numbers and len(numbers) == len(candidates) else None


def _looks_like_file_source(tree: FileTree, log: dict[int, Entry]) -> bool:
    for entry in log.values():
        try:
            entries = log_files.parse_log_entries(tree.contents.get(entry.file.path, b""))
        except (log_files.TornFile, log_files.UnknownFormat):
            continue
        if entries and all(isinstance(each, dict) and "batchId" in each for each in entries):
            return True
    return False


def _check_file_source(tree: FileTree, folder: str, log: dict[int, Entry], offset: int | None) -> Iterator[Finding]:
    """Yield problems of the newest compact file and of all files after it: the source reads all of them when it starts."""
    first = max((number for number, entry in log.items() if entry.compact), default=0)
    missing = first_missing(log, first)
    if missing is not None:
        yield damage(LOG_INCOMPLETE, f"{folder}/{missing}", "is missing: Spark would not know that it has read these files")
    elif offset is not None and offset > max(log, default=-1):
        problem = "is missing, but the offsets of the query name it: Spark would not know that it has read these files"
        yield damage(SOURCE_LOG_BEHIND, f"{folder}/{offset}", problem)
    for number, entry in log.items():
        if number >= first:
            yield from _check_file(tree, entry, number)


def _check_file(tree: FileTree, entry: Entry, batch: int) -> Iterator[Finding]:
    path = entry.file.path
    entries = read_log_entries(tree, entry, path)
    if entries is None:
        return
    if isinstance(entries, Finding):
        yield entries
    elif not entries:
        yield damage(SOURCE_FILES_FORGOTTEN, path, "ends after its version line: Spark would read these files again")
    elif not _belong_to_batch(entries, batch, compact=entry.compact):
        yield damage(SOURCE_FILES_OF_OTHER_BATCH, path, "lists the files of another batch")
    elif path in tree.damage:
        yield tree.damage[path]


def _check_other_source(tree: FileTree, log: dict[int, Entry]) -> Iterator[Finding]:
    """Yield remarks about the records of sources of another kind: their format belongs to the source."""
    for entry in log.values():
        path = entry.file.path
        data = tree.content_of(entry.file)
        if data is not None and not data.strip(b"\0"):
            yield doubt(
                path, f"{'is empty' if not data else 'contains only zero bytes'}, and only its source knows whether it matters"
            )
        elif path in tree.unreadable:
            yield doubt(path, f"cannot be read: {tree.unreadable[path]}")
        elif path in tree.damage:
            yield remark(path, tree.damage[path].problem)


def _belong_to_batch(entries: list[object], number: int, *, compact: bool) -> bool:
    """Return True if the entries belong to this batch: a file source records the batch of each file."""
    numbers = [entry.get("batchId") for entry in entries if isinstance(entry, dict)]
    return len(numbers) == len(entries) and all(
        each == number or (compact and type(each) is int and each < number) for each in numbers
    )
