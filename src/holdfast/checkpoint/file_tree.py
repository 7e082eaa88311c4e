"""File tree of one query's checkpoint or of one sink's log, as plain data."""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.checkpoint.finding import Finding

COMPACT = ".compact"
HERE, ELSEWHERE, MISSING = "here", "elsewhere", "missing"
"""Places of a file that is named by an absolute path: in the location of the checkpoint, outside of it, or nowhere."""
_NUMBERED = re.compile(r"(0|[1-9][0-9]{0,17})(\.compact)?")


@dataclass(frozen=True, slots=True)
class File:
    path: str
    """Path relative to the root of the tree, with slashes."""
    size: int
    modified_wall_s: float
    """Modification time, by the clock of the file system."""


@dataclass(frozen=True, slots=True)
class Entry:
    """File of a Spark metadata log. A compact file also contains all earlier batches."""

    number: int
    file: File
    compact: bool


@dataclass(frozen=True)
class FileTree:
    files: Mapping[str, File]
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """Bytes of the files that were read completely."""
    damage: Mapping[str, Finding] = field(default_factory=dict)
    """Problem of each file that was read: found by its checksum or its format."""
    lineages: Mapping[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    """Versions and ids of the state files that a changelog continues, by path of the changelog."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Reason why a file or a folder could not be read, by path."""
    named_files: Mapping[str, str] = field(default_factory=dict)
    """Place of each schema file that the metadata of an operator names, by its absolute path. Unknown ones are left out."""
    truncated: bool = False
    """True if there were too many files to list them all."""

    def __hash__(self) -> int:
        return id(self)

    def numbered_files(self, folder: str) -> dict[int, Entry]:
        """Return the numbered files of a folder, ordered. A compact file replaces a plain one with the same number."""
        entries: dict[int, Entry] = {}
        for name, file in self.files_in(folder):
            if (match := _NUMBERED.fullmatch(name)) is not None:
                entry = Entry(int(match[1]), file, match[2] is not None)
                if entry.number not in entries or entry.compact:
                    entries[entry.number] = entry
        return dict(sorted(entries.items()))

    @functools.cached_property
    def _folders(self) -> dict[str, list[tuple[str, File]]]:
        """Files by folder. A checkpoint can have 100,000 files, so they are sorted into folders once."""
        folders: dict[str, list[tuple[str, File]]] = {}
        for path, file in self.files.items():
            folder, _, name = path.rpartition("/")
            folders.setdefault(folder, []).append((name, file))
        return folders

    def files_in(self, folder: str) -> Iterator[tuple[str, File]]:
        """Yield (name, file) for the files directly in a folder."""
        yield from self._folders.get(folder, ())

    def missing_but_checksummed(self, folder: str) -> list[str]:
        """Return missing files whose checksum file still exists. Spark cannot write such a file again."""
        names = (
            name[1:].removesuffix(".crc") for name, _ in self.files_in(folder) if name.startswith(".") and name.endswith(".crc")
        )
        # A crash also leaves the checksum files of Spark's temporary files, whose names start with a dot.
        paths = [f"{folder}/{name}" if folder else name for name in names if not name.startswith(".")]
        return [path for path in paths if path not in self.files]

    def content_of(self, file: File) -> bytes | None:
        """Return the bytes of a file; None if they were not read. An empty file does not have to be read."""
        return b"" if file.size == 0 else self.contents.get(file.path)

    def subfolders(self, folder: str) -> list[str]:
        """Return the names of the folders directly in a folder."""
        prefix = f"{folder}/" if folder else ""
        return sorted(
            {path[len(prefix) :].partition("/")[0] for path in self._folders if path.startswith(prefix) and path != folder}
        )

    def subtree(self, folder: str) -> "FileTree":
        """Return the files below a folder, with paths relative to it."""
        prefix = f"{folder}/" if folder else ""
        return FileTree(
            {
                path.removeprefix(prefix): File(path.removeprefix(prefix), file.size, file.modified_wall_s)
                for path, file in self.files.items()
                if path.startswith(prefix)
            },
            {path.removeprefix(prefix): data for path, data in self.contents.items() if path.startswith(prefix)},
            unreadable={path.removeprefix(prefix): why for path, why in self.unreadable.items() if path.startswith(prefix)},
            truncated=self.truncated,
        )


def build_tree(files: Iterable[File], *, truncated: bool = False) -> FileTree:
    return FileTree({file.path: file for file in files}, truncated=truncated)


def first_missing(numbers: Iterable[int], first: int) -> int | None:
    """Return the first missing number at or after `first` that a larger number follows, or None."""
    expected = first
    for number in sorted(number for number in numbers if number >= first):
        if number != expected:
            return expected
        expected += 1
    return None


def crc_path(path: str) -> str:
    """Return the path of the checksum file that Hadoop's local file system keeps for a file."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"
