"""Log of Spark's file sink: `_spark_metadata/N` lists the files that batch N wrote."""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.checkpoint.damage_rules import CHECKSUM_BLOCKS_FILE, LOG_INCOMPLETE, SINK_LOG_WRONG
from holdfast.checkpoint.file_log import read_log_entries
from holdfast.checkpoint.file_tree import COMPACT, Entry, FileTree, first_missing
from holdfast.checkpoint.finding import ONLY_CHECKSUM_LEFT, Finding, damage, doubt

SINK_LOG_FOLDER = "_spark_metadata"


@dataclass(frozen=True, slots=True)
class FileSinkLog:
    newest: int | None
    """Newest batch in the log; None if the log is empty."""
    findings: tuple[Finding, ...] = ()


def examine_sink_log(tree: FileTree) -> FileSinkLog:
    """Examine the log. `tree` holds the files of the `_spark_metadata` folder."""
    log = tree.numbered_files("")
    return FileSinkLog(max(log, default=None), tuple(_findings(tree, log)))


def _findings(tree: FileTree, log: dict[int, Entry]) -> Iterator[Finding]:
    """Yield problems of the newest compact file and of all files after it: readers need only these."""
    first = max((number for number, entry in log.items() if entry.compact), default=0)
    if (missing := first_missing(log, first)) is not None:
        problem = "is missing, but later batches exist: readers no longer find the output of that batch"
        yield damage(LOG_INCOMPLETE, f"{SINK_LOG_FOLDER}/{missing}", problem)
    for path in tree.missing_but_checksummed(""):
        if path.removesuffix(COMPACT).isdigit() and int(path.removesuffix(COMPACT)) > max(log, default=-1):
            yield damage(CHECKSUM_BLOCKS_FILE, f"{SINK_LOG_FOLDER}/{path}", ONLY_CHECKSUM_LEFT)
    for number, entry in log.items():
        if number >= first:
            yield from _check_file(tree, entry)


def _check_file(tree: FileTree, entry: Entry) -> Iterator[Finding]:
    path = f"{SINK_LOG_FOLDER}/{entry.file.path}"
    entries = read_log_entries(tree, entry, path)
    if entries is None:
        return
    if isinstance(entries, Finding):
        yield entries
    elif not all(isinstance(each, dict) and "path" in each for each in entries):
        yield damage(SINK_LOG_WRONG, path, "does not list the files of a batch")
    elif (mismatch := tree.damage.get(entry.file.path)) is not None:
        yield doubt(path, mismatch.problem)
