"""Reading of the state files that the next batch loads, and verification of their checksums and formats."""

import dataclasses
from collections.abc import Callable, Iterable

from holdfast.checkpoint import integrity
from holdfast.checkpoint.damage_rules import (
    ARCHIVE_PART_WRONG,
    ARCHIVE_UNREADABLE,
    CHANGELOG_UNREADABLE,
    SNAPSHOT_UNREADABLE,
    STATE_CHECKSUM_WRONG,
    STATE_FILE_UNREADABLE,
    DamageRule,
)
from holdfast.checkpoint.file_tree import File, FileTree, crc_path
from holdfast.checkpoint.finding import Finding, damage, doubt
from holdfast.checkpoint.query_logs import QueryLogs
from holdfast.checkpoint.state import state_store
from holdfast.checkpoint.state.state_lineage import read_lineage
from holdfast.errors import Unavailable

Read = Callable[[Iterable[str], int], dict[str, bytes]]
"""Function that returns the contents of files with at most a given number of bytes each. Raises Unavailable."""
CHECKSUM_BYTES_MAX = 4 << 20
"""Bytes of state whose CRC-32C is computed before an attempt. Larger state is only checked by size and format."""
THOROUGH_CHECKSUM_BYTES_MAX = 256 << 20
_RULES = {"delta": STATE_FILE_UNREADABLE, "snapshot": SNAPSHOT_UNREADABLE, "changelog": CHANGELOG_UNREADABLE}


class StateReader:
    """Reader of state with a budget of bytes, which is spent on the smallest files first."""

    def __init__(self, read: Read, bytes_max: int) -> None:
        self._read = read
        self._bytes_max = bytes_max
        self._unreadable: dict[str, str] = {}
        self._tolerant = False

    def add_state(self, tree: FileTree, logs: QueryLogs, *, tolerant: bool, thorough: bool) -> FileTree:
        """Return the tree with the damage of the state that the next batch loads."""
        self._tolerant = tolerant
        changelogs = state_store.newest_changelogs(tree, logs)
        contents = self._read_files(changelogs, self._bytes_max)
        lineages = {path: lineage for path, data in contents.items() if (lineage := read_lineage(data)) is not None}
        needed = [each.file for plan in state_store.plan_loads(tree, logs, lineages) for each in plan.files]
        budget = self._bytes_max - sum(map(len, contents.values()))
        contents |= self._read_files([file for file in needed if file.path not in contents], budget)
        found = self._check_archives(tree, contents, self._bytes_max - sum(map(len, contents.values())))
        found |= self._check_spark_checksums(tree, contents, THOROUGH_CHECKSUM_BYTES_MAX if thorough else CHECKSUM_BYTES_MAX)
        newest = logs.newest_offsets
        for path, data in contents.items():
            problem = integrity.check_state_file(path, data, codec=newest.codec if newest is not None else "")
            if problem is not None:
                found[path] = damage(_rule_of(path), path, problem)
        found |= {file.path: damage(_rule_of(file.path), file.path, "is empty") for file in needed if file.size == 0}
        self._check_local_checksums(tree, contents, found)
        return dataclasses.replace(
            tree, damage={**tree.damage, **found}, lineages=lineages, unreadable={**tree.unreadable, **self._unreadable}
        )

    def _read_files(self, files: Iterable[File], budget: int) -> dict[str, bytes]:
        paths = _within_budget(files, budget)
        try:
            return self._read(paths, self._bytes_max)
        except Unavailable:
            if not self._tolerant:
                raise
        contents: dict[str, bytes] = {}
        for path in paths:
            try:
                contents |= self._read([path], self._bytes_max)
            except Unavailable as error:
                self._unreadable[path] = str(error)
        return contents

    def _check_archives(self, tree: FileTree, contents: dict[str, bytes], budget: int) -> dict[str, Finding]:
        """Check the files that RocksDB archives refer to, and add their contents."""
        found: dict[str, Finding] = {}
        parts: list[File] = []
        owners: dict[str, str] = {}
        for archive, data in contents.items():
            for name, size in integrity.list_archive_parts(data) if archive.endswith(".zip") else ():
                path = state_store.archive_part(archive, name)
                if (file := tree.files.get(path)) is None:
                    found[archive] = damage(ARCHIVE_PART_WRONG, archive, f"refers to {path}, which is missing")
                elif file.size != size:
                    problem = f"refers to {path}, which has {file.size} bytes, but {size} were written"
                    found[archive] = damage(ARCHIVE_PART_WRONG, archive, problem)
                else:
                    parts.append(file)
                    owners[path] = archive
        read = self._read_files({file.path: file for file in parts}.values(), budget)
        crcs = self._read([crc_path(path) for path in read], self._bytes_max)
        for path, data in read.items():
            crc = crcs.get(crc_path(path))
            mismatch = integrity.check_crc(data, crc) if crc is not None else None
            if data and not data.strip(b"\0"):
                mismatch = "contains only zero bytes"
            if mismatch is not None:
                found[owners[path]] = damage(ARCHIVE_PART_WRONG, owners[path], f"refers to {path}, which {mismatch}")
        return found

    def _check_spark_checksums(self, tree: FileTree, contents: dict[str, bytes], budget: int) -> dict[str, Finding]:
        """Check files with a unique id against the checksum files that Spark writes beside them, on any store."""
        found: dict[str, Finding] = {}
        paths = [path for path in contents if f"{path}.crc" in tree.files]
        checksums = self._read([f"{path}.crc" for path in paths], self._bytes_max)
        for path in sorted(paths, key=lambda path: len(contents[path])):
            budget -= len(contents[path])
            checksum = checksums.get(f"{path}.crc")
            if budget < 0 or checksum is None:
                break
            if (problem := integrity.check_spark_checksum(contents[path], checksum)) is not None:
                found[path] = damage(STATE_CHECKSUM_WRONG, path, problem)
        return found

    def _check_local_checksums(self, tree: FileTree, contents: dict[str, bytes], found: dict[str, Finding]) -> None:
        """Check files against the checksum files of Hadoop's local file system.

        Spark compares them only when it reads an archive without an id. Elsewhere a mismatch proves nothing.
        """
        crcs = self._read([crc_path(path) for path in contents], self._bytes_max)
        for path, data in contents.items():
            crc = crcs.get(crc_path(path))
            problem = integrity.check_crc(data, crc) if crc is not None and path not in found else None
            if problem is None:
                continue
            if path.endswith(".zip") and f"{path}.crc" not in tree.files and "_" not in path.rpartition("/")[2]:
                found[path] = damage(ARCHIVE_UNREADABLE, path, problem)
            else:
                found[path] = doubt(path, f"{problem}, which Spark does not compare")


def _rule_of(path: str) -> DamageRule:
    return _RULES.get(path.rpartition(".")[2], ARCHIVE_UNREADABLE)


def _within_budget(files: Iterable[File], budget: int) -> list[str]:
    """Return the paths of the smallest files that together have at most `budget` bytes."""
    chosen: list[str] = []
    for file in sorted(files, key=lambda file: file.size):
        budget -= file.size
        if budget < 0:
            break
        chosen.append(file.path)
    return chosen
