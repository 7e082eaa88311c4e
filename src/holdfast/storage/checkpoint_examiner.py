"""Examination of a checkpoint or of a sink's log, in this process.

One call lists all files, reads the newest files of each log and the state that the next batch needs, verifies checksums and
formats, and returns the result of `holdfast.checkpoint`. Arguments and results are JSON values (see `dispatch`).
"""

import contextlib
import dataclasses
import re
from collections.abc import Iterable
from typing import Any

from holdfast.checkpoint import query
from holdfast.checkpoint.examination import examine
from holdfast.checkpoint.file_sink import examine_sink_log
from holdfast.checkpoint.file_tree import File, FileTree, build_tree, crc_path
from holdfast.checkpoint.finding import Finding, doubt
from holdfast.checkpoint.integrity import check_crc
from holdfast.checkpoint.query_logs import COMMITS, METADATA, OFFSETS, SOURCES, STATE, parse_logs
from holdfast.checkpoint.query_position import REWRITABLE, QueryPosition
from holdfast.checkpoint.relocation.named_paths import find_naming_file
from holdfast.checkpoint.relocation.relocation import Relocation
from holdfast.checkpoint.relocation.spark_path import parse_spark_path
from holdfast.checkpoint.state import state_check
from holdfast.checkpoint.state.state_store import find_stores
from holdfast.checkpoint.verdict import is_temporary
from holdfast.errors import Refused, Unavailable
from holdfast.storage.filesystem.files import Files
from holdfast.storage.state_reader import StateReader

FILES_MAX = 200_000
LOG_FILES_MAX = 50
"""Newest files read of each log. Spark keeps 100."""
LOG_BYTES_MAX = 4 << 20
NAMED_FILES_MAX = 1000
"""Schema files looked up. Spark allows 128 of an operator."""
POSITION_LOG_FILES = 3
ASIDE = "_holdfast/aside"
_UNFINISHED = re.compile(r"/_metadata/v2/\.?[0-9]+\.[0-9a-f]{16}\.tmp$")
"""Temporary files of `Files.replace` beside the metadata of an operator."""


class CheckpointExaminer:
    """Operations on the files of one checkpoint or of one sink's log."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def examine(self) -> list[dict[str, Any]]:
        """Return the fields of a `Query` for the root and each folder directly below it that holds a query."""
        files, truncated = self._list_files()
        tree = build_tree((file for file in files if not file.path.startswith("_holdfast/")), truncated=truncated)
        return [dataclasses.asdict(self._examine_query(tree, place)) for place in query.query_places(tree)]

    def judge(self) -> list[dict[str, Any]]:
        """Return the fields of a `Query` for each folder, at any depth, that holds a query. Report unreadable files."""
        files, truncated = self._list_files()
        tree = build_tree(files, truncated=truncated)
        places = query.all_query_places(tree)
        return [dataclasses.asdict(self._examine_query(tree, place, thorough=True)) for place in places]

    def examine_sink(self) -> dict[str, Any]:
        """Return the fields of a `FileSinkLog`. The root is the folder of the log."""
        files, truncated = self._list_files()
        tree = build_tree(files, truncated=truncated)
        newest = [entry.file.path for entry in list(tree.numbered_files("").values())[-LOG_FILES_MAX:]]
        return dataclasses.asdict(examine_sink_log(self._with_logs(tree, newest, "")))

    def read_position(self) -> dict[str, Any] | None:
        """Return the fields of the root's `QueryPosition`, or None if it holds no query. State is neither listed nor read."""
        # A running query writes offsets before commits. Commits are listed first, so each listed commit has its offsets.
        folders = (COMMITS, OFFSETS, SOURCES)
        tree = build_tree(file for folder in folders for file in self._list_files(folder)[0])
        if not query.is_query(tree):
            return None
        tree = self._with_logs(tree, query.logs_to_read(tree, POSITION_LOG_FILES), "")
        files = tuple((path, text) for path, data in tree.contents.items() if (text := _text(data)) is not None)
        return dataclasses.asdict(QueryPosition(query.build_query(tree, parse_logs(tree), "", ()), files))

    def rewrite_files(self, files: dict[str, str]) -> None:
        """Replace files, in the given order. Remove their checksum files first: Spark refuses a file with a wrong checksum."""
        for path, text in files.items():
            if REWRITABLE.fullmatch(path) is None or not isinstance(text, str):
                raise Refused(
                    f"refusing to rewrite {path} of a checkpoint: only offsets and the initial offsets of sources may change"
                )
            self._files.remove_file(crc_path(path))
            self._files.replace(path, text.encode())

    def adopt_schema_files(self, place: str) -> list[str]:
        """Let the metadata of a query's operators name the schema files in this checkpoint. Return the rewritten files.

        Checksum files are removed first, as in `rewrite_files`.
        """
        root = parse_spark_path(self._files.spark_root)
        assert root is not None, "Spark's form of a location is an absolute path"
        paths = [file.path for file in self._list_files(_in(place, STATE))[0]]
        for path in filter(_UNFINISHED.search, paths):
            self._files.remove_file(path)  # of a killed attempt; releases before 4.3 read every name here as a number
        relocation = Relocation((), root, frozenset(paths))
        rewritten = []
        for path, data in self._files.read_files(filter(find_naming_file, paths), LOG_BYTES_MAX).items():
            rewriter = relocation.open_rewriter(path)
            assert rewriter is not None
            content = rewriter.feed(data) + rewriter.finish()
            if rewriter.has_changed:
                self._files.remove_file(crc_path(path))
                self._files.replace(path, content)
                rewritten.append(path)
        return rewritten

    def set_aside(self, place: str, batch: int, attempt: int) -> str:
        """Move the offsets of a batch and their checksum file. Return the new path, relative to the checkpoint."""
        if type(batch) is not int or batch < 0 or type(attempt) is not int or ".." in place.split("/"):
            raise Refused(f"cannot set batch {batch!r} of '{place}' aside: invalid batch, attempt or folder")
        source = f"{OFFSETS}/{batch}"
        folder = f"{ASIDE}/{place}" if place else ASIDE
        target = f"{folder}/{OFFSETS}-{batch}-{attempt}"
        self._files.move(_in(place, crc_path(source)), crc_path(target))
        self._files.move(_in(place, source), target)
        return target

    def set_leftovers_aside(self, place: str, paths: list[str], attempt: int) -> str:
        """Move temporary files of a batch that was never planned. Return their new folder, relative to the checkpoint."""
        if type(attempt) is not int or ".." in place.split("/") or not all(map(is_temporary, paths)):
            raise Refused(f"cannot set files of '{place}' aside: only temporary files of offsets and commits may be moved")
        folder = f"{ASIDE}/{place}/leftovers-{attempt}" if place else f"{ASIDE}/leftovers-{attempt}"
        for path in paths:
            for each in (crc_path(path), path):
                self._files.move(_in(place, each), f"{folder}/{each.replace('/', '-')}")
        return folder

    def _examine_query(self, whole: FileTree, place: str, *, thorough: bool = False) -> query.Query:
        tree = self._logs_of_truncated(place) if whole.truncated else whole.subtree(place)
        tree = self._with_logs(tree, query.logs_to_read(tree, LOG_FILES_MAX), place, tolerant=thorough)
        if not tree.truncated:
            tree = dataclasses.replace(tree, named_files=self._locate(state_check.named_schemas(tree, parse_logs(tree))))
            reader = StateReader(lambda paths, bytes_max: self._read(tree, paths, place, bytes_max), self._files.read_bytes_max)
            tree = reader.add_state(tree, parse_logs(tree), tolerant=thorough, thorough=thorough)
        try:
            return examine(tree, place)
        finally:
            find_stores.cache_clear()  # the cached tree may have 100,000 files

    def _locate(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the places of files by their absolute paths, as far as they are known."""
        found = {}
        for path in list(dict.fromkeys(paths))[:NAMED_FILES_MAX]:
            with contextlib.suppress(Unavailable):
                if (place := self._files.locate(path)) is not None:
                    found[path] = place
        return found

    def _logs_of_truncated(self, place: str) -> FileTree:
        """Return the logs of a query whose location has too many files to list: all files but those of its state."""
        folders = [self._list_files(_in(place, folder)) for folder in (COMMITS, OFFSETS, SOURCES)]
        files = [file for listed, _ in folders for file in listed]
        path = _in(place, METADATA)
        files += [File(path, len(data), 0.0) for data in self._files.read_files([path], LOG_BYTES_MAX).values()]
        return build_tree(files, truncated=True).subtree(place)

    def _list_files(self, below: str = "") -> tuple[list[File], bool]:
        """Return the files below a folder, without names that are not UTF-8: Spark does not write those."""
        files, truncated = self._files.walk(FILES_MAX, below=below)
        return [file for file in files if _is_utf8(file.path)], truncated

    def _with_logs(self, tree: FileTree, paths: list[str], place: str, *, tolerant: bool = False) -> FileTree:
        contents, unreadable = self._read_each(tree, paths, place) if tolerant else ({}, {})
        if not tolerant:
            contents = self._read(tree, paths, place, LOG_BYTES_MAX)
        damage = self._check_crcs(tree, contents, place)
        return dataclasses.replace(tree, contents=contents, damage=damage, unreadable={**tree.unreadable, **unreadable})

    def _read_each(self, tree: FileTree, paths: list[str], place: str) -> tuple[dict[str, bytes], dict[str, str]]:
        """Return the contents of files, and the reason for each file that cannot be read."""
        try:
            return self._read(tree, paths, place, LOG_BYTES_MAX), {}
        except Unavailable:
            pass
        contents: dict[str, bytes] = {}
        unreadable: dict[str, str] = {}
        for path in paths:
            try:
                contents |= self._read(tree, [path], place, LOG_BYTES_MAX)
            except Unavailable as error:
                unreadable[path] = str(error)
        return contents, unreadable

    def _check_crcs(self, tree: FileTree, contents: dict[str, bytes], place: str) -> dict[str, Finding]:
        """Return a doubt about each file that does not match its checksum file of Hadoop's local file system.

        Spark reads logs without these checksums. A crash between the renames of a file and of its checksum file also leaves
        a mismatch, so it proves no damage.
        """
        crcs = self._read(tree, map(crc_path, contents), place, self._files.read_bytes_max)
        problems: dict[str, Finding] = {}
        for path, data in contents.items():
            crc = crcs.get(crc_path(path))
            if crc is not None and (problem := check_crc(data, crc)) is not None:
                problems[path] = doubt(path, f"{problem}, which Spark does not compare")
        return problems

    def _read(self, tree: FileTree, paths: Iterable[str], place: str, bytes_max: int) -> dict[str, bytes]:
        """Return the contents of the listed files among `paths`, which are relative to the query's folder `place`."""
        listed = {_in(place, path): path for path in paths if path in tree.files}
        return {listed[path]: data for path, data in self._files.read_files(listed, bytes_max).items()}


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _in(place: str, path: str) -> str:
    return f"{place}/{path}" if place else path
