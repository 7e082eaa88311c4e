"""Copies of what a cluster has to tell, in a directory, under names that people know."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

COPIED_BYTES_MAX = 1 << 30


@dataclass(frozen=True, slots=True)
class Copy:
    path: Path
    name: str


@dataclass(slots=True)
class Copies:
    directory: Path
    say: Callable[[str], None]
    """Told what is being copied."""
    files: list[Copy] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What could not be had, in sentences."""
    left: int = COPIED_BYTES_MAX
    """Bytes that there is room for."""

    def begin(self, name: str) -> "Copying":
        self.say(name)
        return Copying(self, name)

    def add(self, name: str, pieces: Iterable[bytes]) -> None:
        with self.begin(name) as copying:
            for piece in pieces:
                copying.write(piece)


class Copying:
    """One that is being made, piece by piece. Of nothing there is no copy; for what there is no room, there is a note."""

    def __init__(self, copies: Copies, name: str) -> None:
        self._copies = copies
        self._copy = Copy(copies.directory / f"{len(copies.files)}.log", name)
        self._file = self._copy.path.open("wb")
        self.full = False

    def __enter__(self) -> "Copying":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self._copy.path.stat().st_size:
            self._copies.files.append(self._copy)
        if self.full:
            limit = f"{COPIED_BYTES_MAX / 2**30:g} GB"
            self._copies.notes.append(f"{self._copy.name} is not in this to its end: {limit} of a cluster are read at most")

    def write(self, piece: bytes) -> None:
        part = piece[: self._copies.left]
        self.full = self.full or len(part) < len(piece)
        self._copies.left -= len(part)
        self._file.write(part)
