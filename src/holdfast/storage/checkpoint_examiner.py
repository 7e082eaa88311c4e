"""Looks at a checkpoint, or at a sink's log, in this process. Values in and out are plain: a call may come from another one.

One call lists everything, reads the newest files of each log and the state that the next batch needs, checks what can be
checked, and gives what `holdfast.checkpoint` makes of it.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

from holdfast.checkpoint import integrity, query, state_store
from holdfast.checkpoint.examination import examine
from holdfast.checkpoint.file_sink import sink_of
from holdfast.checkpoint.file_tree import File, Tree, crc_of, tree_of
from holdfast.checkpoint.query_position import REWRITABLE, Standing
from holdfast.errors import Refused
from holdfast.storage.filesystem.files import Files

FOLDER = "checkpoint"
FILES_MAX = 200_000
LOG_FILES_MAX = 50
"""Of each log the newest are read. Spark keeps a hundred."""
LOG_BYTES_MAX = 4 << 20
STANDING_FILES = 3
ASIDE = "_holdfast/aside"


class Examiner:
    def __init__(self, files: Files) -> None:
        self._files = files

    def examine(self) -> list[dict[str, Any]]:
        found, cut = self._files.walk(FILES_MAX)
        whole = tree_of((file for file in found if not file.path.startswith("_holdfast/")), cut=cut)
        return [dataclasses.asdict(self._examined(whole.below(place), place)) for place in query.places(whole)]

    def examine_sink(self) -> dict[str, Any]:
        found, cut = self._files.walk(FILES_MAX)
        tree = tree_of(found, cut=cut)
        newest = [entry.file.path for entry in list(tree.log("").values())[-LOG_FILES_MAX:]]
        return dataclasses.asdict(sink_of(self._with_logs(tree, newest, "")))

    def standing(self) -> dict[str, Any] | None:
        """Of the query in this very place; None if there is none. Its state is neither listed nor read."""
        folders = (query.COMMITS, query.OFFSETS, query.SOURCES)  # a running query writes offsets first: so none is missed
        tree = tree_of(file for folder in folders for file in self._files.walk(FILES_MAX, below=folder)[0])
        if not query.is_query(tree):
            return None
        tree = self._with_logs(tree, query.logs_to_read(tree, STANDING_FILES), "")
        files = tuple((path, text) for path, data in tree.contents.items() if (text := _text(data)) is not None)
        return dataclasses.asdict(Standing(query.read(tree, "", ()), files))

    def rewrite(self, files: dict[str, str]) -> None:
        """In this order. Spark's checksum of a file goes first: without one it is not checked, with a wrong one refused."""
        for path, text in files.items():
            if REWRITABLE.fullmatch(path) is None or not isinstance(text, str):
                raise Refused(f"{path} of a checkpoint is not rewritten")
            self._files.remove(crc_of(path))
            self._files.replace(path, text.encode())

    def set_aside(self, place: str, batch: int, attempt: int) -> str:
        """The offsets of a batch, and their checksums. Says where it is now, relative to the checkpoint."""
        if type(batch) is not int or batch < 0 or type(attempt) is not int or ".." in place.split("/"):
            raise Refused(f"'{place}' has no batch {batch!r} that could be set aside")
        source = f"{query.OFFSETS}/{batch}"
        folder = f"{ASIDE}/{place}" if place else ASIDE
        target = f"{folder}/{query.OFFSETS}-{batch}-{attempt}"
        self._files.move(_in(place, crc_of(source)), crc_of(target))
        self._files.move(_in(place, source), target)
        return target

    def _examined(self, tree: Tree, place: str) -> query.Query:
        tree = self._with_logs(tree, query.logs_to_read(tree, LOG_FILES_MAX), place)
        if not tree.cut:
            tree = self._with_state(tree, place)
        return examine(tree, place)

    def _with_logs(self, tree: Tree, paths: list[str], place: str) -> Tree:
        contents = self._read(tree, paths, place, LOG_BYTES_MAX)
        return dataclasses.replace(tree, contents=contents, damage=self._by_checksum(tree, contents, place))

    def _with_state(self, tree: Tree, place: str) -> Tree:
        """Within the budget, and the smallest first: what is torn is more often small."""
        committed = query.committed(tree)
        needed = state_store.needed(tree, 0 if committed is None else committed + 1)
        budget = self._files.read_bytes_max
        contents = self._read(tree, _affordable(needed, budget), place, budget)
        files, misfits = state_store.referred(tree, contents)
        contents |= self._read(tree, _affordable(files, budget - sum(map(len, contents.values()))), place, budget)
        damage = {**tree.damage, **misfits, **self._by_checksum(tree, contents, place)}
        lz4 = query.codec_of(tree) == "lz4"
        for path, data in contents.items():
            if path not in damage and (problem := integrity.of_state(path, data, lz4=lz4)) is not None:
                damage[path] = problem
        return dataclasses.replace(tree, damage=damage)

    def _by_checksum(self, tree: Tree, contents: dict[str, bytes], place: str) -> dict[str, str]:
        kept = [crc_of(path) for path in contents if crc_of(path) in tree.files]
        sums = self._read(tree, kept, place, self._files.read_bytes_max)
        found = ((path, sums.get(crc_of(path)), data) for path, data in contents.items())
        judged = ((path, integrity.against_crc(data, crc)) for path, crc, data in found if crc is not None)
        return {path: problem for path, problem in judged if problem is not None}

    def _read(self, tree: Tree, paths: Iterable[str], place: str, limit: int) -> dict[str, bytes]:
        there = {_in(place, path): path for path in paths if path in tree.files}
        return {there[path]: data for path, data in self._files.read(there, limit).items()}


def _affordable(files: list[File], budget: int) -> list[str]:
    chosen: list[str] = []
    for file in sorted(files, key=lambda file: file.size):
        budget -= file.size
        if budget < 0:
            break
        chosen.append(file.path)
    return chosen


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _in(place: str, path: str) -> str:
    return f"{place}/{path}" if place else path
