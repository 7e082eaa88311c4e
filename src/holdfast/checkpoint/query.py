"""Summary of one query's checkpoint. The field names are part of the JSON output."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.checkpoint import log_files, state_store
from holdfast.checkpoint.file_tree import Entry, FileTree
from holdfast.checkpoint.finding import Finding

OFFSETS, COMMITS, SOURCES, METADATA = "offsets", "commits", "sources", "metadata"
BATCHES_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Batch:
    number: int
    planned_wall_s: float | None
    """Time at which the offsets were written, by the clock of the file system. None if the file is missing."""
    committed_wall_s: float | None
    """None if the batch is not committed."""
    watermark_ms: int | None = None
    offsets: tuple[str, ...] = ()
    """Offset of each source, as Spark writes it."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Stateful operator, summed over its partitions."""

    number: int
    partitions: int
    version_min: int | None
    """Oldest version of the state over all partitions."""
    version_max: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Query:
    place: str
    """Path of the query's folder relative to the examined location; empty for the location itself."""
    id: str
    """Id from Spark's metadata; empty if unreadable."""
    planned: int | None
    """Newest planned batch."""
    committed: int | None
    """Newest committed batch."""
    modified_wall_s: float | None
    """Time of the last write to the logs."""
    batches: tuple[Batch, ...] = ()
    """Newest batches, in order."""
    operators: tuple[Operator, ...] = ()
    findings: tuple[Finding, ...] = ()


def is_query(tree: FileTree) -> bool:
    return METADATA in tree.files or any(tree.numbered_files(folder) for folder in (OFFSETS, COMMITS))


def query_places(tree: FileTree) -> list[str]:
    """Return the folders that hold a query: the root (an empty path) or folders directly below it."""
    below = [
        folder for folder in tree.subfolders("") if not folder.startswith((".", "_holdfast")) and is_query(tree.subtree(folder))
    ]
    return [*([""] if is_query(tree) else []), *below]


def logs_to_read(tree: FileTree, files_max: int) -> list[str]:
    """Return the small files to read: metadata, and the newest `files_max` files of each log."""
    folders = [OFFSETS, COMMITS, *(f"{SOURCES}/{source}" for source in tree.subfolders(SOURCES))]
    paths = [
        METADATA,
        *(
            path
            for operator in tree.subfolders(state_store.STATE)
            for path in state_store.operator_descriptions(tree, operator)
        ),
    ]
    for folder in folders:
        paths += [entry.file.path for entry in list(tree.numbered_files(folder).values())[-files_max:]]
    return [path for path in paths if path in tree.files]


def newest_commit(tree: FileTree) -> int | None:
    return max(tree.numbered_files(COMMITS), default=None)


def state_codec(tree: FileTree) -> str:
    """Return the compression codec of the state, from the newest readable offsets."""
    written = (tree.contents.get(entry.file.path) for entry in reversed(tree.numbered_files(OFFSETS).values()))
    return next((offsets.codec for data in written if data is not None and (offsets := _parse_or_none(data)) is not None), "")


def build_query(tree: FileTree, place: str, findings: tuple[Finding, ...]) -> Query:
    planned, commits = tree.numbered_files(OFFSETS), tree.numbered_files(COMMITS)
    times = [entry.file.modified_wall_s for log in (planned, commits) for entry in log.values()]
    numbers = sorted({*planned, *commits})[-BATCHES_SHOWN:]
    return Query(
        place=place,
        id=_query_id(tree),
        planned=max(planned, default=None),
        committed=max(commits, default=None),
        modified_wall_s=max(times, default=None),
        batches=tuple(_build_batch(tree, number, planned.get(number), commits.get(number)) for number in numbers),
        operators=tuple(_build_operators(tree)),
        findings=findings,
    )


def _build_batch(tree: FileTree, number: int, planned: Entry | None, done: Entry | None) -> Batch:
    data = tree.contents.get(planned.file.path) if planned is not None else None
    offsets = _parse_or_none(data) if data is not None else None
    return Batch(
        number,
        planned.file.modified_wall_s if planned is not None else None,
        done.file.modified_wall_s if done is not None else None,
        offsets.watermark_ms if offsets is not None else None,
        offsets.offsets if offsets is not None else (),
    )


def _parse_or_none(data: bytes) -> log_files.BatchOffsets | None:
    try:
        return log_files.parse_offsets(data)
    except log_files.TornFile:
        return None


def _query_id(tree: FileTree) -> str:
    try:
        return log_files.parse_query_id(tree.contents.get(METADATA, b""))
    except log_files.TornFile:
        return ""


def _build_operators(tree: FileTree) -> Iterator[Operator]:
    stores = state_store.find_stores(tree)
    for number in sorted({store.operator for store in stores}):
        own = [store for store in stores if store.operator == number]
        versions = [version for store in own for version in store.versions]
        yield Operator(
            number,
            len({store.partition for store in own}),
            min(versions, default=None),
            max(versions, default=None),
            sum(store.size for store in own),
        )


def file_source_offset(offset: str) -> int | None:
    """Return the log offset of a file source, or None for any other source."""
    try:
        value = json.loads(offset)
    except (ValueError, RecursionError):
        return None
    number = value.get("logOffset") if isinstance(value, dict) else None
    return number if type(number) is int else None
