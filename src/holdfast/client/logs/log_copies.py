"""Copies of a cluster's logs in a directory, with display names."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

COPIED_BYTES_MAX = 1 << 30


@dataclass(frozen=True, slots=True)
class LogCopy:
    path: Path
    name: str


@dataclass(slots=True)
class LogCopies:
    directory: Path
    on_copy: Callable[[str], None]
    """Receives the name of each log when its copy begins."""
    files: list[LogCopy] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Sentences about logs that could not be copied."""
    free_bytes: int = COPIED_BYTES_MAX

    def begin(self, name: str) -> "LogCopyWriter":
        self.on_copy(name)
        return LogCopyWriter(self, name)

    def add(self, name: str, pieces: Iterable[bytes]) -> None:
        with self.begin(name) as copying:
            for piece in pieces:
                copying.write(piece)


class LogCopyWriter:
    """Writer of one copy. An empty copy is dropped; a copy that exceeds the size limit is cut and gets a note."""

    def __init__(self, copies: LogCopies, name: str) -> None:
        self._copies = copies
        self._copy = LogCopy(copies.directory / f"{len(copies.files)}.log", name)
        self._file = self._copy.path.open("wb")
        self.full = False

    def __enter__(self) -> "LogCopyWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self._copy.path.stat().st_size:
            self._copies.files.append(self._copy)
        if self.full:
            limit = f"{COPIED_BYTES_MAX / 2**30:g} GB"
            self._copies.notes.append(
                f"the end of {self._copy.name} is missing: at most {limit} of logs are read from a cluster"
            )

    def write(self, piece: bytes) -> None:
        part = piece[: self._copies.free_bytes]
        self.full = self.full or len(part) < len(piece)
        self._copies.free_bytes -= len(part)
        self._file.write(part)
