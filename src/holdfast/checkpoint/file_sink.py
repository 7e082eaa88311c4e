"""Log of Spark's file sink: `_spark_metadata/N` lists the files that batch N wrote."""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.checkpoint import log_files
from holdfast.checkpoint.file_tree import COMPACT, Entry, FileTree, first_missing
from holdfast.checkpoint.finding import ONLY_CHECKSUM_LEFT, Finding

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
        yield Finding(
            f"{SINK_LOG_FOLDER}/{missing}",
            "is missing, but later batches exist: readers no longer find the output of that batch",
        )
    for path in tree.missing_but_checksummed(""):
        if path.removesuffix(COMPACT).isdigit() and int(path.removesuffix(COMPACT)) > max(log, default=-1):
            yield Finding(f"{SINK_LOG_FOLDER}/{path}", ONLY_CHECKSUM_LEFT)
    for number, entry in log.items():
        path = entry.file.path
        if number < first:
            continue
        if path in tree.damage:
            yield Finding(f"{SINK_LOG_FOLDER}/{path}", tree.damage[path])
        elif (data := tree.contents.get(path)) is not None:
            try:
                entries = log_files.parse_log_entries(data)
            except log_files.TornFile as torn:
                yield Finding(f"{SINK_LOG_FOLDER}/{path}", str(torn))
                continue
            if not all(isinstance(entry, dict) and "path" in entry for entry in entries):
                yield Finding(f"{SINK_LOG_FOLDER}/{path}", "does not list the files of a batch")
