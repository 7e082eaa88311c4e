"""The log that Spark's file sink keeps beside its files, `_spark_metadata/N`: which files batch N has brought about."""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.checkpoint import log_files
from holdfast.checkpoint.file_tree import COMPACT, Entry, Tree, first_missing
from holdfast.checkpoint.finding import LOST, Finding

FOLDER = "_spark_metadata"


@dataclass(frozen=True, slots=True)
class Sink:
    newest: int | None
    """The newest batch that took effect; None if there is none."""
    findings: tuple[Finding, ...] = ()


def sink_of(tree: Tree) -> Sink:
    """`tree` holds what is in the log's folder."""
    log = tree.log("")
    return Sink(max(log, default=None), tuple(_findings(tree, log)))


def _findings(tree: Tree, log: dict[int, Entry]) -> Iterator[Finding]:
    """A reader needs the newest compact file, and all after it."""
    first = max((number for number, entry in log.items() if entry.compact), default=0)
    if (missing := first_missing(log, first)) is not None:
        yield Finding(f"{FOLDER}/{missing}", "is not there, and later batches are: what it wrote cannot be read any more")
    for path in tree.lost(""):
        if path.removesuffix(COMPACT).isdigit() and int(path.removesuffix(COMPACT)) > max(log, default=-1):
            yield Finding(f"{FOLDER}/{path}", LOST)
    for number, entry in log.items():
        path = entry.file.path
        if number < first:
            continue
        if path in tree.damage:
            yield Finding(f"{FOLDER}/{path}", tree.damage[path])
        elif (data := tree.contents.get(path)) is not None:
            try:
                entries = log_files.entries(data)
            except log_files.Torn as torn:
                yield Finding(f"{FOLDER}/{path}", str(torn))
                continue
            if not all(isinstance(entry, dict) and "path" in entry for entry in entries):
                yield Finding(f"{FOLDER}/{path}", "holds something else than the files of a batch")
