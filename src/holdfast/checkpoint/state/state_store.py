"""State stores of a query: the versions of each store, and the files that the next batch reads.

Batch N starts from version N of every store and writes version N + 1. A version is a snapshot (`N.snapshot` or `N.zip`), or
the snapshot before it and all deltas in between (`N.delta` or `N.changelog`). Version 0 is empty and has no file.

Since Spark 4.0 the names may contain a unique id (`N_ID.zip`). Then the newest commit names the ids that count: a file with
another id is left from a batch that was not committed.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.checkpoint.file_tree import File, FileTree
from holdfast.checkpoint.query_logs import STATE, QueryLogs

_VERSIONED = re.compile(r"([0-9]{1,18})(?:_([\w-]+))?\.(delta|snapshot|zip|changelog)")
SNAPSHOT_SUFFIXES = ("snapshot", "zip")
REPAIR_VERSIONS_MAX = 500
"""Versions that Spark replays at most to skip a damaged snapshot."""
_NUMBER = re.compile(r"[0-9]{1,9}")
_ARCHIVE_FOLDERS = ("SSTs", "logs")
"""Folders of the files that a RocksDB archive refers to."""


@dataclass(frozen=True, slots=True)
class StateFile:
    file: File
    version: int
    id: str
    """Unique id; empty for a file without one."""
    suffix: str

    @property
    def is_snapshot(self) -> bool:
        return self.suffix in SNAPSHOT_SUFFIXES


@dataclass(slots=True)
class StateStore:
    operator: int
    partition: int
    folder: str
    files: list[StateFile] = field(default_factory=list)
    size: int = 0
    _index: dict[tuple[int, str, bool], StateFile] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Return the name of the store below its partition; empty for the only store of an operator."""
        return "/".join(self.folder.split("/")[3:])

    @property
    def versions(self) -> list[int]:
        return sorted({each.version for each in self.files})

    @property
    def uses_rocksdb(self) -> bool:
        return any(each.suffix in ("zip", "changelog") for each in self.files)

    def find(self, version: int, id: str, *, snapshot: bool) -> StateFile | None:
        if not self._index:
            self._index = {(each.version, each.id, each.is_snapshot): each for each in self.files}
        return self._index.get((version, id, snapshot))


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Files that load one version of a store."""

    store: StateStore
    version: int
    files: tuple[StateFile, ...] = ()
    missing: int | None = None
    """First version whose file is missing."""
    lineage_unknown: bool = False
    """True if the changelogs before the newest one could not be found, because its lineage could not be decoded."""


@functools.lru_cache(maxsize=2)
def find_stores(tree: FileTree) -> list[StateStore]:
    """Return the stores, in order. The result is cached, so callers do not change it."""
    stores: dict[str, StateStore] = {}
    for path, file in tree.files.items():
        *folders, name = path.split("/")
        if folders[:1] != [STATE] or len(folders) < 3 or not all(map(_NUMBER.fullmatch, folders[1:3])):
            continue
        owner = [folder for folder in folders if folder not in _ARCHIVE_FOLDERS]
        if any(folder.startswith("_") for folder in owner) or name.startswith("."):
            continue
        folder = "/".join(owner)
        store = stores.setdefault(folder, StateStore(int(folders[1]), int(folders[2]), folder))
        store.size += file.size
        if (match := _VERSIONED.fullmatch(name)) is not None and folders == owner:
            store.files.append(StateFile(file, int(match[1]), match[2] or "", match[3]))
    with_files = (store for store in stores.values() if store.files)
    return sorted(with_files, key=lambda store: (store.operator, store.partition, store.folder))


def plan_loads(tree: FileTree, logs: QueryLogs, lineages: Mapping[str, tuple[tuple[int, str], ...]]) -> list[LoadPlan]:
    """Return the plan of each store that the next batch loads. Stores of unused partitions are left out."""
    if logs.next_batch == 0:
        return []
    ids = newest_ids(logs)
    plans = []
    for store in find_stores(tree):
        if not is_loaded(store, logs):
            continue
        if ids is None:
            plans.append(_plan_plain(store, logs.next_batch))
        else:
            plans.append(_plan_with_ids(store, logs.next_batch, _ids_of(ids, store), lineages))
    return plans


def is_loaded(store: StateStore, logs: QueryLogs) -> bool:
    """Return False for a partition that the query no longer has: a repartitioned state leaves the files of old ones."""
    ids = newest_ids(logs)
    if ids is not None:
        return store.partition < len(ids.get(store.operator, ()))
    newest = logs.newest_offsets
    partitions = newest.shuffle_partitions if newest is not None else None
    return partitions is None or store.partition < partitions


def newest_ids(logs: QueryLogs) -> dict[int, tuple[tuple[str, ...], ...]] | None:
    """Return the ids of the state that the newest commit names, or None if the state has no ids."""
    commit = logs.newest_commit
    return commit.state_ids if commit is not None else None


def _ids_of(ids: Mapping[int, tuple[tuple[str, ...], ...]], store: StateStore) -> tuple[str, ...]:
    return ids[store.operator][store.partition]


def _plan_plain(store: StateStore, version: int) -> LoadPlan:
    """Plan like Spark: the newest snapshot up to the version, and every delta after it."""
    snapshots = [each for each in store.files if each.is_snapshot and not each.id and each.version <= version]
    newest = max(snapshots, key=lambda each: each.version, default=None)
    files = [newest] if newest is not None else []
    for number in range(newest.version + 1 if newest is not None else 1, version + 1):
        delta = store.find(number, "", snapshot=False)
        if delta is None:
            return LoadPlan(store, version, tuple(files), number)
        files.append(delta)
    return LoadPlan(store, version, tuple(files))


def older_plan(plan: LoadPlan) -> LoadPlan | None:
    """Return the plan that Spark falls back to if the snapshot of a plan is damaged, or None without a complete one."""
    first = plan.files[0] if plan.files else None
    if first is None or not first.is_snapshot:
        return None
    rest = [each for each in plan.store.files if each.file.path != first.file.path]
    store = StateStore(plan.store.operator, plan.store.partition, plan.store.folder, rest)
    if first.id:
        changelog = store.find(first.version, first.id, snapshot=False)
        other = (
            _plan_lineage(store, changelog, None) if changelog is not None else LoadPlan(store, plan.version, (), plan.version)
        )
    else:
        other = _plan_plain(store, plan.version)
    start = other.files[0].version if other.files and other.files[0].is_snapshot else 0
    return other if other.missing is None and plan.version - start <= REPAIR_VERSIONS_MAX else None


def _plan_with_ids(
    store: StateStore, version: int, ids: tuple[str, ...], lineages: Mapping[str, tuple[tuple[int, str], ...]]
) -> LoadPlan:
    """Plan like Spark: the snapshot with the id, or the changelog with the id and the files of its lineage."""
    for id in ids:
        if (snapshot := store.find(version, id, snapshot=True)) is not None:
            return LoadPlan(store, version, (snapshot,))
        if (changelog := store.find(version, id, snapshot=False)) is not None:
            return _plan_lineage(store, changelog, lineages.get(changelog.file.path))
    return LoadPlan(store, version, (), version)


def _plan_lineage(store: StateStore, newest: StateFile, lineage: tuple[tuple[int, str], ...] | None) -> LoadPlan:
    if lineage is None:
        return LoadPlan(store, newest.version, (newest,), _version_without_file(store, newest.version), lineage_unknown=True)
    chain = [*lineage, (newest.version, newest.id)]
    snapshots = [snapshot for item in chain if (snapshot := store.find(*item, snapshot=True)) is not None]
    files = snapshots[-1:]
    first = files[0].version + 1 if files else 1
    known = dict(chain)
    for number in range(first, newest.version + 1):
        changelog = store.find(number, known[number], snapshot=False) if number in known else None
        if changelog is None:
            return LoadPlan(store, newest.version, tuple(files), number)
        files.append(changelog)
    return LoadPlan(store, newest.version, tuple(files))


def _version_without_file(store: StateStore, version: int) -> int | None:
    """Return a version that no changelog has after the newest snapshot; ids do not count."""
    start = max((each.version for each in store.files if each.is_snapshot and each.version <= version), default=0)
    present = {each.version for each in store.files if not each.is_snapshot}
    return next((number for number in range(start + 1, version) if number not in present), None)


def newest_changelogs(tree: FileTree, logs: QueryLogs) -> list[File]:
    """Return the changelogs whose lineage says which other files the next batch reads."""
    ids = newest_ids(logs)
    if ids is None or logs.next_batch == 0:
        return []
    return [
        each.file
        for store in find_stores(tree)
        if is_loaded(store, logs)
        for each in store.files
        if each.suffix == "changelog" and each.version == logs.next_batch and each.id in _ids_of(ids, store)
    ]


def metadata_files(tree: FileTree) -> list[File]:
    """Return the metadata and the schemas of the stores."""
    found = []
    for path, file in tree.files.items():
        *folders, name = path.split("/")
        is_metadata = folders[:1] == [STATE] and any(folder.startswith("_") for folder in folders)
        if is_metadata and not name.startswith(".") and not name.endswith(".crc"):
            found.append(file)
    return found


def archive_part(archive: str, name: str) -> str:
    """Return the path of a file that a RocksDB archive refers to."""
    return f"{archive.rpartition('/')[0]}/{_ARCHIVE_FOLDERS[name.endswith('.log')]}/{name}"
