"""Rewrite of the paths that a copied checkpoint names: paths inside the old root become the same paths inside the new one."""

import json
from collections.abc import Collection
from dataclasses import dataclass

from holdfast.checkpoint.relocation.named_paths import NamingFile, find_naming_file, rename_paths
from holdfast.checkpoint.relocation.spark_path import SparkPath, join_below, parse_spark_path, path_below

LINE_BYTES_MAX = 4 << 20
"""Longer lines are copied unchanged. Spark writes none: a line describes one operator or one file."""


@dataclass(frozen=True, slots=True)
class Relocation:
    """Move of a checkpoint's content to another root."""

    old_roots: tuple[SparkPath, ...]
    """Known locations of the checkpoint from which the files were copied."""
    new_root: SparkPath
    files: Collection[str]
    """Files of the copy, relative to the root."""

    def open_rewriter(self, path: str) -> "LineRewriter | None":
        """Return a rewriter for the content of a file, or None if the file names no paths."""
        file = find_naming_file(path)
        return LineRewriter(self, file) if file is not None else None

    def rename(self, text: str, file: NamingFile) -> str:
        """Return the new path of a path that a file names. Paths outside of the old root stay."""
        path = parse_spark_path(text)
        if path is None:
            return text
        below = self._schema_in_copy(path, file) or self._path_in_old_root(path, file)
        return join_below(self.new_root, below, like=path, encoded=file.is_log) if below is not None else text

    def _schema_in_copy(self, path: SparkPath, file: NamingFile) -> str | None:
        """Return the path of a copied schema file, whatever its root was.

        The name of a schema file contains a random UUID, so the file is the same. The root can be an unknown one: of a
        checkpoint that was moved by hand, or of one that an earlier release has restored without a rewrite.
        """
        if file.is_log:
            return None
        _, folder, name = path.path.rpartition(f"/{file.schemas_in_query}")
        copied = f"{file.schemas}{name}"
        return copied if folder and copied in self.files else None

    def _path_in_old_root(self, path: SparkPath, file: NamingFile) -> str | None:
        found = (path_below(root, path, encoded=file.is_log) for root in self.old_roots)
        return next((below for below in found if below is not None), None)


class LineRewriter:
    """Rewriter of one file, which takes the content in parts and holds at most one line of it."""

    def __init__(self, relocation: Relocation, file: NamingFile) -> None:
        self._relocation = relocation
        self._file = file
        self._rest = bytearray()
        self._passes_line = False
        self.has_changed = False
        """True if a path was rewritten. The checksum of the file is then wrong."""

    def feed(self, data: bytes) -> bytes:
        """Return the rewritten content of all lines that are complete."""
        *complete, rest = data.split(b"\n")
        result = bytearray()
        for line in complete:
            result += self._end_line(line) + b"\n"
        self._rest += rest
        if self._passes_line or len(self._rest) > LINE_BYTES_MAX:
            result += self._rest
            self._rest.clear()
            self._passes_line = True
        return bytes(result)

    def finish(self) -> bytes:
        """Return the rewritten last line."""
        return self._end_line(b"")

    def _end_line(self, end: bytes) -> bytes:
        line = bytes(self._rest) + end
        self._rest.clear()
        if self._passes_line:
            self._passes_line = False
            return line
        return self._rewrite(line)

    def _rewrite(self, line: bytes) -> bytes:
        if not line.startswith(b"{"):
            return line
        try:
            value = json.loads(line)
            if not rename_paths(self._file, value, lambda path: self._relocation.rename(path, self._file)):
                return line
            rewritten = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        except (ValueError, RecursionError):
            return line
        self.has_changed = True
        return rewritten
