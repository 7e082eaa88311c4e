"""State stores of a query: the versions of each store, and the files that the next batch reads.

Batch N starts from version N of every store and writes version N + 1. A version is a snapshot (`N.snapshot` or `N.zip`), or
the snapshot before it and all deltas in between (`N.delta` or `N.changelog`). Version 0 is empty and has no file.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.checkpoint import integrity, log_files
from holdfast.checkpoint.file_tree import File, FileTree
from holdfast.checkpoint.finding import ONLY_CHECKSUM_LEFT, Finding

STATE = "state"
LIMIT = "globalLimit"
"""Name of the operator of a streaming `limit`."""
_VERSIONED = re.compile(r"([0-9]{1,18})(?:_[\w-]+)?\.(delta|snapshot|zip|changelog)")
_SNAPSHOT_SUFFIXES = ("snapshot", "zip")
_NUMBER = re.compile(r"[0-9]{1,9}")
_ARCHIVE_FOLDERS = ("SSTs", "logs")
"""Folders of the files that a RocksDB archive refers to."""


@dataclass(slots=True)
class StateStore:
    operator: int
    partition: int
    folder: str
    snapshots: dict[int, list[File]] = field(default_factory=dict)
    deltas: dict[int, list[File]] = field(default_factory=dict)
    size: int = 0

    @property
    def versions(self) -> list[int]:
        return sorted({*self.snapshots, *self.deltas})

    def files_to_load(self, version: int) -> tuple[list[File], int | None]:
        """Return the files that load a version, and the first missing version on the way to it (None if complete)."""
        files: list[File] = []
        first = max((number for number in self.snapshots if number <= version), default=1)
        for number in range(first, version + 1):
            version_files = self.snapshots.get(number) or self.deltas.get(number)
            if version_files is None:
                return files, number
            files += version_files
        return files, None


def find_stores(tree: FileTree) -> list[StateStore]:
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
            versions = store.snapshots if match[2] in _SNAPSHOT_SUFFIXES else store.deltas
            versions.setdefault(int(match[1]), []).append(file)
    return sorted(stores.values(), key=lambda store: (store.operator, store.partition, store.folder))


def files_to_load(tree: FileTree, version: int) -> list[File]:
    """Return the state files that the next batch reads, and the metadata of the stores."""
    read = {file.path: file for store in find_stores(tree) for file in store.files_to_load(version)[0]}
    for path, file in tree.files.items():
        *folders, name = path.split("/")
        is_metadata = folders[:1] == [STATE] and any(folder.startswith("_") for folder in folders)
        if is_metadata and not name.startswith(".") and not name.endswith(".crc"):
            read[path] = file
    return list(read.values())


def referenced_files(tree: FileTree, contents: Mapping[str, bytes]) -> tuple[list[File], dict[str, str]]:
    """Return the files that the archives refer to, and a problem for each damaged file."""
    files: list[File] = []
    damage: dict[str, str] = {}
    for path, data in contents.items():
        for name, size in integrity.list_archive_parts(data) if path.endswith(".zip") else ():
            part = f"{path.rpartition('/')[0]}/{_ARCHIVE_FOLDERS[name.endswith('.log')]}/{name}"
            if (file := tree.files.get(part)) is None:
                damage[path] = f"refers to {part}, which is missing"
            elif file.size != size:
                damage[part] = f"has {file.size} bytes, but {size} were written"
            else:
                files.append(file)
    return files, damage


def find_problems(tree: FileTree, version: int) -> Iterator[Finding]:
    """Yield problems of the state from which the next batch starts."""
    stores = find_stores(tree)
    yield from _find_missing_partitions(tree, stores, version)
    for store in stores:
        _, missing = store.files_to_load(version)
        if missing is not None:
            yield Finding(store.folder, f"has no version {missing} of the state, which batch {version} needs")
    damage = {path: problem for path, problem in tree.damage.items() if path.startswith(f"{STATE}/")}
    folders = {path.rpartition("/")[0] for path in tree.files if path.startswith(f"{STATE}/")}
    for folder in sorted(folder for folder in folders if folder.endswith("/_metadata")):
        yield from (Finding(path, ONLY_CHECKSUM_LEFT) for path in tree.missing_but_checksummed(folder))
    empty = {file.path: "is empty" for file in files_to_load(tree, version) if file.size == 0}
    for path, problem in {**damage, **empty}.items():
        yield Finding(path, problem)


def operator_descriptions(tree: FileTree, operator: str) -> list[str]:
    """Return the paths of an operator's metadata and of the schemas of its stores. Partition 0 holds the schemas."""
    folder = f"{STATE}/{operator}/0/"
    schemas = [path for path in tree.files if path.startswith(folder) and path.endswith("/_metadata/schema")]
    return [f"{STATE}/{operator}/_metadata/metadata", *schemas]


def _find_missing_partitions(tree: FileTree, stores: list[StateStore], version: int) -> Iterator[Finding]:
    """Yield torn operator metadata, and missing partitions of a version that has files."""
    for operator in tree.subfolders(STATE):
        path, *schemas = operator_descriptions(tree, operator)
        if (data := tree.contents.get(path)) is None:
            continue
        try:
            described = log_files.parse_operator(data)
        except log_files.TornFile as torn:
            yield Finding(path, str(torn))
            continue
        if version == 0:
            continue  # Spark writes the metadata before the first task runs, and version 0 has no file
        single = _has_one_partition(described, [tree.contents.get(schema, b"") for schema in schemas])
        count = 1 if single else described.shuffle_partitions or 0
        present = {store.partition for store in stores if str(store.operator) == operator}
        missing = next((partition for partition in range(count) if partition not in present), None)
        if missing is not None:
            yield Finding(
                f"{STATE}/{operator}/{missing}",
                f"is missing, but batch {version} needs it: the state has {count} partition{'' if count == 1 else 's'}",
            )


def _has_one_partition(operator: log_files.StatefulOperator, schemas: list[bytes]) -> bool:
    """Return True for a limit and for a global aggregate: without a key, all rows go to partition 0.

    Their metadata records the query's number of shuffle partitions, like that of any other operator. Spark always writes
    the schemas, so an operator whose schemas are gone counts as keyed: its checkpoint is damaged.
    """
    return operator.name == LIMIT or (bool(schemas) and not any(map(log_files.state_has_key, schemas)))
