"""One query's checkpoint, as people and scripts see it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.checkpoint import log_files, state_store
from holdfast.checkpoint.file_tree import Entry, Tree
from holdfast.checkpoint.finding import Finding

OFFSETS, COMMITS, SOURCES, METADATA = "offsets", "commits", "sources", "metadata"
BATCHES_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Batch:
    number: int
    planned_wall_s: float | None
    """When its offsets were written, by the clock of whoever keeps the file. None if they are gone."""
    committed_wall_s: float | None
    """None if it was not committed."""
    watermark_ms: int | None = None
    offsets: tuple[str, ...] = ()
    """One for each source, as Spark writes them."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A stateful operator: all its partitions together."""

    number: int
    partitions: int
    version_min: int | None
    """The oldest version that is kept, of all partitions."""
    version_max: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Query:
    place: str
    """Relative to where was looked; empty for that place itself."""
    id: str
    """As Spark's metadata tells it; empty if it does not."""
    planned: int | None
    """The newest batch that was planned."""
    committed: int | None
    """The newest that was committed."""
    modified_wall_s: float | None
    """When something was written to its logs last."""
    batches: tuple[Batch, ...] = ()
    """The newest ones, in order."""
    operators: tuple[Operator, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def next_batch(self) -> int:
        return 0 if self.committed is None else self.committed + 1


def is_query(tree: Tree) -> bool:
    return METADATA in tree.files or any(tree.log(folder) for folder in (OFFSETS, COMMITS))


def places(tree: Tree) -> list[str]:
    """Where in a tree there are queries: in its root, or one folder below."""
    below = [
        folder for folder in tree.folders("") if not folder.startswith((".", "_holdfast")) and is_query(tree.below(folder))
    ]
    return [*([""] if is_query(tree) else []), *below]


def logs_to_read(tree: Tree, files_max: int) -> list[str]:
    """The small files that say how far a query is and what its sources and operators are, the newest of each folder."""
    folders = [OFFSETS, COMMITS, *(f"{SOURCES}/{source}" for source in tree.folders(SOURCES))]
    paths = [
        METADATA,
        *(path for operator in tree.folders(state_store.STATE) for path in state_store.descriptions(tree, operator)),
    ]
    for folder in folders:
        paths += [entry.file.path for entry in list(tree.log(folder).values())[-files_max:]]
    return [path for path in paths if path in tree.files]


def committed(tree: Tree) -> int | None:
    return max(tree.log(COMMITS), default=None)


def codec_of(tree: Tree) -> str:
    """How its state is compressed, as its newest batches tell."""
    written = (tree.contents.get(entry.file.path) for entry in reversed(tree.log(OFFSETS).values()))
    return next((read.codec for data in written if data is not None and (read := _offsets_in(data)) is not None), "")


def read(tree: Tree, place: str, findings: tuple[Finding, ...]) -> Query:
    begun, commits = tree.log(OFFSETS), tree.log(COMMITS)
    times = [entry.file.modified_wall_s for log in (begun, commits) for entry in log.values()]
    numbers = sorted({*begun, *commits})[-BATCHES_SHOWN:]
    return Query(
        place=place,
        id=_id(tree),
        planned=max(begun, default=None),
        committed=max(commits, default=None),
        modified_wall_s=max(times, default=None),
        batches=tuple(_batch(tree, number, begun.get(number), commits.get(number)) for number in numbers),
        operators=tuple(_operators(tree)),
        findings=findings,
    )


def _batch(tree: Tree, number: int, planned: Entry | None, done: Entry | None) -> Batch:
    data = tree.contents.get(planned.file.path) if planned is not None else None
    read = _offsets_in(data) if data is not None else None
    return Batch(
        number,
        planned.file.modified_wall_s if planned is not None else None,
        done.file.modified_wall_s if done is not None else None,
        read.watermark_ms if read is not None else None,
        read.offsets if read is not None else (),
    )


def _offsets_in(data: bytes) -> log_files.Offsets | None:
    try:
        return log_files.offsets(data)
    except log_files.Torn:
        return None


def _id(tree: Tree) -> str:
    try:
        return log_files.metadata(tree.contents.get(METADATA, b""))
    except log_files.Torn:
        return ""


def _operators(tree: Tree) -> Iterator[Operator]:
    stores = state_store.stores(tree)
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


def file_offset(offset: str) -> int | None:
    """How far a file source is, by the number in its own log; None for any other source."""
    try:
        value = json.loads(offset)
    except (ValueError, RecursionError):
        return None
    number = value.get("logOffset") if isinstance(value, dict) else None
    return number if type(number) is int else None
