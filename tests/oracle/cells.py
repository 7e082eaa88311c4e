"""The matrix as data: which query, state store, moment of death and damage make a cell."""

import fnmatch
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.oracle.damage import SCENE_CHANGES, changes_of
from tests.oracle.program import Program
from tests.oracle.programs import PROGRAMS
from tests.oracle.stores import STORES

STATELESS = "none"
CLEAN = "clean stop"
_DEATHS = (CLEAN, "before commit", "before sink", "in log write", "in rename", "in first batch", "before first batch")
_TASK_DEATHS = ("between tasks", "before tasks")
_AGES = ("newest", "previous", "oldest")
_LOGS = ("metadata", *(f"{log} {age}" for log in ("offsets", "commits", "source log") for age in _AGES))
_DESCRIPTIONS = ("operator metadata", "operator metadata v2", "state schema")
_DELTAS = (*(f"state delta {age}" for age in _AGES), "state delta checksum newest")
_CHANGELOGS = (*(f"state changelog {age}" for age in _AGES), "state changelog checksum newest")
_ZIPS = (*(f"state zip {age}" for age in _AGES), "state zip checksum newest", "state sst", "state log")
_SINK = tuple(f"sink log {age}" for age in _AGES)
_STORES_OF = {
    "keyed": tuple(STORES),
    "join-left": ("rocksdb", "rocksdb-changelog", "rocksdb-changelog-v2"),
    "transform": tuple(store for store in STORES if store.startswith("rocksdb")),
}
_FAILURES = ("failed batch", "failed batch twice", "failed first batch")
_REPARTITIONS = (
    "repartitioned to 3",
    "repartitioned to 1",
    "repartitioned twice",
    "killed in repartition",
    "failed batch after repartition",
)
_REPARTITIONED = (
    *(("keyed", store) for store in ("rocksdb", "rocksdb-changelog", "rocksdb-v2", "rocksdb-changelog-v2")),
    ("windows", "rocksdb"),
    ("join-left", "rocksdb"),
    ("global", "rocksdb"),
    ("limit", "rocksdb"),
    ("transform", "rocksdb-changelog"),
)
LOSES_A_SOURCE = "source-removed"
"""After a death it repeats its last batch without the source: Spark then omits rows because of the new plan."""
UNPROVABLE = ("folder state removed", "newest two state files exchanged")
"""Damage that no file proves unless the commits list the ids of the state: the rest is like a healthy checkpoint."""
_KILLS = ("killed in sink", "killed after sink", "killed in state write")
_KILLED = (("keyed", "hdfs"), ("keyed", "rocksdb-changelog-v2"), ("windows", "hdfs"))
_DEATHS_ON_OTHER_STORES = (CLEAN, "before commit", "between tasks", "before tasks", "in first batch")
_DAMAGED = {
    ("rows", STATELESS): _LOGS,
    ("rows-parquet", STATELESS): (*_SINK, "offsets newest", "commits newest"),
    ("windows-parquet", "hdfs"): _SINK,
    ("windows", "hdfs"): ("commits newest", "offsets newest"),
    ("keyed", "hdfs"): (*_LOGS, *_DESCRIPTIONS, *_DELTAS),
    ("keyed", "hdfs-snapshots"): (*_DELTAS, "state snapshot newest", "state snapshot checksum newest"),
    ("keyed", "hdfs-zstd"): _DELTAS[:1],
    ("keyed", "hdfs-snappy"): _DELTAS[:1],
    ("keyed", "hdfs-no-checksums"): _DELTAS[:1],
    ("keyed", "rocksdb"): (*_DESCRIPTIONS, *_ZIPS),
    ("keyed", "rocksdb-changelog"): _CHANGELOGS,
    ("keyed", "rocksdb-changelog-snapshots"): (*_CHANGELOGS, *_ZIPS),
    ("keyed", "rocksdb-changelog-no-checksums"): _CHANGELOGS,
    ("keyed", "rocksdb-v2"): _ZIPS,
    ("keyed", "rocksdb-changelog-v2"): ("commits newest", *_CHANGELOGS),
    ("join-left", "rocksdb-changelog"): (*_DESCRIPTIONS, *_CHANGELOGS),
    ("join-format-3", "rocksdb-changelog"): (*_DESCRIPTIONS, *_CHANGELOGS),
    ("transform", "rocksdb-changelog"): (*_DESCRIPTIONS, *_CHANGELOGS),
    ("transform-pandas", "rocksdb-changelog"): ("operator metadata v2",),
}


@dataclass(frozen=True, slots=True)
class Cell:
    program: str
    store: str
    death: str
    damage: str = ""

    @property
    def name(self) -> str:
        return "/".join(filter(None, (self.program, self.store, self.death, self.damage)))


def all_cells() -> list[Cell]:
    """Return the cells, ordered by query and store: cells of one checkpoint follow each other."""
    cells = dict.fromkeys([*_cells_with_death(), *_cells_with_damage()])
    programs = sorted(PROGRAMS, key=lambda program: program.source == "kafka")
    order = {program.name: position for position, program in enumerate(programs)}
    return sorted(cells, key=lambda cell: (order[cell.program], cell.store))


def select_cells(cells: Iterable[Cell], patterns: Iterable[str]) -> list[Cell]:
    """Return the cells whose name matches one of the patterns, pattern by pattern. `*` also matches a slash."""
    candidates = list(cells)
    return list(dict.fromkeys(cell for each in patterns for cell in candidates if fnmatch.fnmatchcase(cell.name, each)))


def default_store(program: Program) -> str:
    if not program.stateful:
        return STATELESS
    return "rocksdb-changelog" if program.needs_rocksdb else "hdfs"


def _cells_with_death() -> Iterator[Cell]:
    for program in PROGRAMS:
        own = default_store(program)
        if program.name == LOSES_A_SOURCE:
            yield Cell(program.name, own, CLEAN)
            continue
        yield from (Cell(program.name, own, death) for death in (*_DEATHS, *(_TASK_DEATHS if program.stateful else ())))
        for store in _STORES_OF.get(program.name, ()):
            yield from (Cell(program.name, store, death) for death in (*_DEATHS_ON_OTHER_STORES, "failed batch twice"))
        if program.sink == "batches":
            yield from (Cell(program.name, own, failure) for failure in _FAILURES)
    for name, store in _REPARTITIONED:
        yield from (Cell(name, store, repartition) for repartition in _REPARTITIONS)
    yield Cell("keyed", "hdfs", "failed repartition")
    for name, store in _KILLED:
        yield from (Cell(name, store, kill) for kill in _KILLS)


def _cells_with_damage() -> Iterator[Cell]:
    for (program, store), roles in _DAMAGED.items():
        for role in roles:
            for change in changes_of(role):
                yield Cell(program, store, CLEAN, f"{role}: {change}")
                if role == "offsets newest":
                    yield Cell(program, store, "before commit", f"{role}: {change}")
                    yield Cell(program, store, "before sink", f"{role}: {change}")
        if not program.startswith("windows"):
            changes = [change for change in SCENE_CHANGES if change not in UNPROVABLE or store.endswith("-v2")]
            yield from (Cell(program, store, CLEAN, change) for change in changes)


def programs_of(cells: Iterable[Cell]) -> list[Program]:
    names = {cell.program for cell in cells}
    return [program for program in PROGRAMS if program.name in names]
