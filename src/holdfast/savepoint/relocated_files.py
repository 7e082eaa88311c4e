"""Target of a copy that rewrites the paths which the copied files name."""

import contextlib
from collections.abc import Collection, Iterable, Iterator

from holdfast.checkpoint.file_tree import crc_path
from holdfast.checkpoint.relocation.relocation import LineRewriter, Relocation
from holdfast.checkpoint.relocation.spark_path import parse_spark_path
from holdfast.storage.digest import Write
from holdfast.storage.filesystem.files import Files


class RelocatedFiles:
    """Files of a new checkpoint. What is written to them names paths in the new root instead of the old one."""

    def __init__(self, target: Files, relocation: Relocation) -> None:
        self._target = target
        self._relocation = relocation
        self._rewritten: list[str] = []

    @contextlib.contextmanager
    def open_writer(self, path: str) -> Iterator[Write]:
        rewriter = self._relocation.open_rewriter(path)
        with self._target.open_writer(path) as write:
            if rewriter is None:
                yield write
                return
            yield lambda data: _write_some(write, rewriter.feed(bytes(data)))
            _write_some(write, rewriter.finish())
        self._note_change(path, rewriter)

    def _note_change(self, path: str, rewriter: LineRewriter) -> None:
        if rewriter.has_changed:
            self._rewritten.append(path)  # several threads write, and appending to a list is atomic

    def remove_stale_checksums(self) -> None:
        """Remove the checksum files of Hadoop's local file system beside rewritten files. Spark reads a file without one."""
        for path in self._rewritten:
            if crc_path(path) in self._relocation.files:
                self._target.remove_file(crc_path(path))


def relocate(target: Files, old_roots: Iterable[str], new_root: str, files: Collection[str]) -> RelocatedFiles:
    """Return the target of a copy. The roots are in Spark's form; an empty one is unknown."""
    new = parse_spark_path(new_root)
    assert new is not None, f"{new_root} is not an absolute location"
    old = dict.fromkeys(path for root in old_roots if (path := parse_spark_path(root)) is not None)
    return RelocatedFiles(target, Relocation(tuple(old), new, frozenset(files)))


def _write_some(write: Write, data: bytes) -> None:
    if data:
        write(memoryview(data))
