"""The state of a query: which versions each store has, and which files the next batch reads.

Batch N begins with version N of every store and leaves version N + 1. A version is a full file (`N.snapshot` or `N.zip`), or
the full one before it and all steps in between (`N.delta` or `N.changelog`). Version 0 is empty and has no file.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.checkpoint import integrity, log_files
from holdfast.checkpoint.file_tree import File, Tree
from holdfast.checkpoint.finding import LOST, Finding

STATE = "state"
LIMIT = "globalLimit"
"""Name of the operator of a streaming `limit`."""
_VERSIONED = re.compile(r"([0-9]{1,18})(?:_[\w-]+)?\.(delta|snapshot|zip|changelog)")
_FULL = ("snapshot", "zip")
_OWN_NAME = re.compile(r"[0-9]{1,9}")
_PARTS = ("SSTs", "logs")
"""Folders of what the archives of a store refer to."""


@dataclass(slots=True)
class Store:
    operator: int
    partition: int
    folder: str
    full: dict[int, list[File]] = field(default_factory=dict)
    steps: dict[int, list[File]] = field(default_factory=dict)
    size: int = 0

    @property
    def versions(self) -> list[int]:
        return sorted({*self.full, *self.steps})

    def needed(self, version: int) -> tuple[list[File], int | None]:
        """The files that are read to load a version, and the first version on the way to it that is not there."""
        files: list[File] = []
        first = max((number for number in self.full if number <= version), default=1)
        for number in range(first, version + 1):
            found = self.full.get(number) or self.steps.get(number)
            if found is None:
                return files, number
            files += found
        return files, None


def stores(tree: Tree) -> list[Store]:
    found: dict[str, Store] = {}
    for path, file in tree.files.items():
        *folders, name = path.split("/")
        if folders[:1] != [STATE] or len(folders) < 3 or not all(map(_OWN_NAME.fullmatch, folders[1:3])):
            continue
        owner = [folder for folder in folders if folder not in _PARTS]
        if any(folder.startswith("_") for folder in owner) or name.startswith("."):
            continue
        folder = "/".join(owner)
        store = found.setdefault(folder, Store(int(folders[1]), int(folders[2]), folder))
        store.size += file.size
        if (match := _VERSIONED.fullmatch(name)) is not None and folders == owner:
            versions = store.full if match[2] in _FULL else store.steps
            versions.setdefault(int(match[1]), []).append(file)
    return sorted(found.values(), key=lambda store: (store.operator, store.partition, store.folder))


def needed(tree: Tree, version: int) -> list[File]:
    """The files of the state that the next batch reads, and what says how it is laid out."""
    read = {file.path: file for store in stores(tree) for file in store.needed(version)[0]}
    for path, file in tree.files.items():
        *folders, name = path.split("/")
        laid_out = folders[:1] == [STATE] and any(folder.startswith("_") for folder in folders)
        if laid_out and not name.startswith(".") and not name.endswith(".crc"):
            read[path] = file
    return list(read.values())


def referred(tree: Tree, contents: Mapping[str, bytes]) -> tuple[list[File], dict[str, str]]:
    """What the archives among these files refer to, and what is wrong with that, by file."""
    files: list[File] = []
    damage: dict[str, str] = {}
    for path, data in contents.items():
        for name, size in integrity.parts(data) if path.endswith(".zip") else ():
            part = f"{path.rpartition('/')[0]}/{_PARTS[name.endswith('.log')]}/{name}"
            if (file := tree.files.get(part)) is None:
                damage[path] = f"refers to {part}, which is not there"
            elif file.size != size:
                damage[part] = f"has {file.size} bytes, and {size} were written"
            else:
                files.append(file)
    return files, damage


def findings(tree: Tree, version: int) -> Iterator[Finding]:
    """What is wrong with the state that the next batch begins with."""
    found = stores(tree)
    yield from _partitions(tree, found, version)
    for store in found:
        _, missing = store.needed(version)
        if missing is not None:
            yield Finding(store.folder, f"lacks version {missing} of the state, which batch {version} needs")
    damage = {path: problem for path, problem in tree.damage.items() if path.startswith(f"{STATE}/")}
    folders = {path.rpartition("/")[0] for path in tree.files if path.startswith(f"{STATE}/")}
    for folder in sorted(folder for folder in folders if folder.endswith("/_metadata")):
        yield from (Finding(path, LOST) for path in tree.lost(folder))
    empty = {file.path: "is empty" for file in needed(tree, version) if file.size == 0}
    for path, problem in {**damage, **empty}.items():
        yield Finding(path, problem)


def descriptions(tree: Tree, operator: str) -> list[str]:
    """Return the paths of an operator's metadata and of the schemas of its stores. Partition 0 holds the schemas."""
    folder = f"{STATE}/{operator}/0/"
    schemas = [path for path in tree.files if path.startswith(folder) and path.endswith("/_metadata/schema")]
    return [f"{STATE}/{operator}/_metadata/metadata", *schemas]


def _partitions(tree: Tree, found: list[Store], version: int) -> Iterator[Finding]:
    """Yield torn operator metadata, and missing partitions of a version that has files."""
    for operator in tree.folders(STATE):
        path, *schemas = descriptions(tree, operator)
        if (data := tree.contents.get(path)) is None:
            continue
        try:
            described = log_files.operator(data)
        except log_files.Torn as torn:
            yield Finding(path, str(torn))
            continue
        if version == 0:
            continue  # Spark writes the metadata before the first task runs, and version 0 has no file
        single = _has_one_partition(described, [tree.contents.get(schema, b"") for schema in schemas])
        count = 1 if single else described.shuffle_partitions or 0
        there = {store.partition for store in found if str(store.operator) == operator}
        missing = next((partition for partition in range(count) if partition not in there), None)
        if missing is not None:
            yield Finding(f"{STATE}/{operator}/{missing}", f"is not there, and the state has {count} partitions")


def _has_one_partition(operator: log_files.StatefulOperator, schemas: list[bytes]) -> bool:
    """Return True for a limit and for a global aggregate: without a key, all rows go to partition 0.

    Their metadata records the query's number of shuffle partitions, like that of any other operator. Spark always writes
    the schemas, so an operator whose schemas are gone counts as keyed: its checkpoint is damaged.
    """
    return operator.name == LIMIT or (bool(schemas) and not any(map(log_files.state_has_key, schemas)))
