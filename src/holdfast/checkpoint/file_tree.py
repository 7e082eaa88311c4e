"""The files of one query's checkpoint, or of one sink's log, as plain data."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

COMPACT = ".compact"
_NUMBERED = re.compile(r"(0|[1-9][0-9]{0,17})(\.compact)?")


@dataclass(frozen=True, slots=True)
class File:
    path: str
    """Relative, with slashes."""
    size: int
    modified_wall_s: float
    """By the clock of whoever keeps the file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a log: its batch, and whether it stands for all before it as well."""

    number: int
    file: File
    compact: bool


@dataclass(frozen=True)
class Tree:
    files: Mapping[str, File]
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """Of the files that were read as a whole."""
    damage: Mapping[str, str] = field(default_factory=dict)
    """What a checksum, or the shape of the content, says against a file: the rest of a sentence that begins with the file."""
    cut: bool = False
    """Whether there were too many files to list them all."""

    def __hash__(self) -> int:
        return id(self)

    def log(self, folder: str) -> dict[int, Entry]:
        """The numbered files of a folder. Of a plain and a compact one with the same number, the compact one counts."""
        found: dict[int, Entry] = {}
        for name, file in self.within(folder):
            if (match := _NUMBERED.fullmatch(name)) is not None:
                entry = Entry(int(match[1]), file, match[2] is not None)
                if entry.number not in found or entry.compact:
                    found[entry.number] = entry
        return dict(sorted(found.items()))

    def within(self, folder: str) -> Iterator[tuple[str, File]]:
        """The files right in a folder, by name."""
        prefix = f"{folder}/" if folder else ""
        for path, file in self.files.items():
            if path.startswith(prefix) and "/" not in path[len(prefix) :]:
                yield path[len(prefix) :], file

    def lost(self, folder: str) -> list[str]:
        """The files of a folder that have left nothing but their checksums. Spark cannot write such a file anew."""
        names = (
            name[1:].removesuffix(".crc") for name, _ in self.within(folder) if name.startswith(".") and name.endswith(".crc")
        )
        # Spark's own temporary files begin with a dot, too, and a crash leaves their checksums behind.
        paths = [f"{folder}/{name}" if folder else name for name in names if not name.startswith(".")]
        return [path for path in paths if path not in self.files]

    def folders(self, folder: str) -> list[str]:
        """The names of those right in a folder."""
        prefix = f"{folder}/" if folder else ""
        below = (path[len(prefix) :] for path in self.files if path.startswith(prefix))
        return sorted({path.partition("/")[0] for path in below if "/" in path})

    def below(self, folder: str) -> "Tree":
        """The part in a folder, as a tree of its own."""
        prefix = f"{folder}/" if folder else ""
        return Tree(
            {
                path.removeprefix(prefix): File(path.removeprefix(prefix), file.size, file.modified_wall_s)
                for path, file in self.files.items()
                if path.startswith(prefix)
            },
            {path.removeprefix(prefix): data for path, data in self.contents.items() if path.startswith(prefix)},
            {path.removeprefix(prefix): words for path, words in self.damage.items() if path.startswith(prefix)},
            self.cut,
        )


def tree_of(files: Iterable[File], *, cut: bool = False) -> Tree:
    return Tree({file.path: file for file in files}, cut=cut)


def first_missing(numbers: Iterable[int], first: int) -> int | None:
    """The first number from `first` on that is not there although a later one is."""
    expected = first
    for number in sorted(number for number in numbers if number >= first):
        if number != expected:
            return expected
        expected += 1
    return None


def crc_of(path: str) -> str:
    """Where Hadoop's local file system keeps the checksums of a file."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"
