"""Summary of one query's checkpoint. The field names are part of the JSON output."""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.checkpoint import log_files
from holdfast.checkpoint.file_tree import FileTree
from holdfast.checkpoint.finding import Finding
from holdfast.checkpoint.metadata_files import FOLDER
from holdfast.checkpoint.query_logs import COMMITS, METADATA, OFFSETS, SOURCES, STATE, QueryLogs
from holdfast.checkpoint.state import state_check, state_store

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
    sources: tuple[str, ...] = ()
    """Name of each source: the name that the script gave it, or its position."""

    def offset_of(self, source: int, name: str = "") -> str | None:
        """Return the offset of a source, or None if it has none.

        Offsets have the names of the sources only if Spark keeps them (offsets of version 2). Otherwise the position counts.
        """
        by_name = dict(zip(self.sources, self.offsets, strict=False))
        if name in by_name:
            return by_name[name]
        if all(each.isascii() and each.isdigit() for each in self.sources):
            return by_name.get(str(source)) if by_name else (self.offsets[source] if source < len(self.offsets) else None)
        return None


@dataclass(frozen=True, slots=True)
class Formats:
    """Versions of the formats of a checkpoint; None if unknown."""

    offsets: int | None = None
    commits: int | None = None
    operator_metadata: int | None = None
    has_state_ids: bool = False
    state_files: tuple[str, ...] = ()
    """Kinds of state files: `delta` and `snapshot`, or `changelog` and `zip`."""
    settings: tuple[tuple[str, str], ...] = ()
    """Settings that the newest offsets record."""


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
    mode: str = ""
    """`micro-batch`, `continuous` or `asynchronous` execution, as far as the logs show."""
    formats: Formats = Formats()


def is_query(tree: FileTree) -> bool:
    return METADATA in tree.files or any(tree.numbered_files(folder) for folder in (OFFSETS, COMMITS))


def query_places(tree: FileTree) -> list[str]:
    """Return the folders that hold a query: the root (an empty path) or folders directly below it."""
    below = [
        folder for folder in tree.subfolders("") if not folder.startswith((".", FOLDER)) and is_query(tree.subtree(folder))
    ]
    return [*([""] if is_query(tree) else []), *below]


def all_query_places(tree: FileTree) -> list[str]:
    """Return the folders that hold a query, at any depth. Folders inside a query hold none."""
    found: set[str] = set()
    for path in tree.files:
        folder, _, name = path.rpartition("/")
        above, _, log = folder.rpartition("/")
        if name == METADATA and not folder.endswith("_metadata"):
            found.add(folder)
        elif log in (OFFSETS, COMMITS) and name.isascii() and name.isdigit():
            found.add(above)
    return sorted(place for place in found if not any(_is_inside(place, other) for other in found))


def _is_inside(place: str, query: str) -> bool:
    """Return True if a folder belongs to the files of a query."""
    prefix = f"{query}/" if query else ""
    if place == query or not place.startswith(prefix):
        return False
    first = place[len(prefix) :].partition("/")[0]
    return first in (OFFSETS, COMMITS, SOURCES, STATE) or first.startswith(("_", "."))


def logs_to_read(tree: FileTree, files_max: int) -> list[str]:
    """Return the small files to read: metadata, and the newest `files_max` files of each log."""
    folders = [OFFSETS, COMMITS, *(f"{SOURCES}/{source}" for source in tree.subfolders(SOURCES))]
    paths = [METADATA]
    for operator in tree.subfolders(STATE):
        paths += state_check.schema_files(tree, operator)
    paths += [file.path for file in state_store.metadata_files(tree)]
    for folder in folders:
        paths += [entry.file.path for entry in list(tree.numbered_files(folder).values())[-files_max:]]
    return [path for path in dict.fromkeys(paths) if path in tree.files]


def build_query(tree: FileTree, logs: QueryLogs, place: str, findings: tuple[Finding, ...]) -> Query:
    times = [entry.file.modified_wall_s for log in (logs.offset_files, logs.commit_files) for entry in log.values()]
    numbers = sorted({*logs.offset_files, *logs.commit_files})[-BATCHES_SHOWN:]
    return Query(
        place=place,
        id=_query_id(tree),
        planned=logs.planned,
        committed=logs.committed,
        modified_wall_s=max(times, default=None),
        batches=tuple(_build_batch(logs, number) for number in numbers),
        operators=tuple(_build_operators(tree)),
        findings=findings,
        mode=logs.mode,
        formats=_build_formats(tree, logs),
    )


def _build_batch(logs: QueryLogs, number: int) -> Batch:
    planned, done, offsets = logs.offset_files.get(number), logs.commit_files.get(number), logs.offsets.get(number)
    return Batch(
        number,
        planned.file.modified_wall_s if planned is not None else None,
        done.file.modified_wall_s if done is not None else None,
        offsets.watermark_ms if offsets is not None else None,
        offsets.offsets if offsets is not None else (),
        offsets.sources if offsets is not None else (),
    )


def _build_formats(tree: FileTree, logs: QueryLogs) -> Formats:
    offsets, commit = logs.newest_offsets, logs.newest_commit
    metadata = [file.path for file in state_store.metadata_files(tree) if "/_metadata/" in file.path]
    versions = [2 if "/_metadata/v2/" in path else 1 for path in metadata if not path.endswith("/schema")]
    return Formats(
        offsets=offsets.version if offsets is not None else None,
        commits=commit.version if commit is not None else None,
        operator_metadata=max(versions, default=None),
        has_state_ids=bool(state_store.newest_ids(logs)),
        state_files=tuple(sorted({each.suffix for store in state_store.find_stores(tree) for each in store.files})),
        settings=tuple(sorted(offsets.conf.items())) if offsets is not None else (),
    )


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
