"""Every way to damage one file of a checkpoint, one at a time, and back again."""

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.checkpoint.file_tree import crc_of


def _noise(data: bytes) -> bytes:
    return random.Random(len(data)).randbytes(max(len(data), 16))


def _one_bit(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


HOW = {
    "emptied": lambda data: b"",
    "cut in half": lambda data: data[: len(data) // 2],
    "cut by one byte": lambda data: data[:-1],
    "cut after its first line": lambda data: data.partition(b"\n")[0],
    "zeroed": lambda data: b"\0" * len(data),
    "filled with noise": _noise,
    "changed by one bit": _one_bit,
    "lengthened": lambda data: data + b"\n{}",
}
REMOVED, SWAPPED = "removed", "swapped"


@dataclass(frozen=True)
class Damage:
    root: Path
    path: str
    how: str
    other: str = ""
    """What it is swapped with."""
    checksums: bool = True
    """Whether the checksums of a local disk are there; a swapped file has its own with it then, if any."""

    def __str__(self) -> str:
        what = f"{self.how} with {self.other}" if self.other else self.how
        return f"{self.path} {what}{'' if self.checksums else ', without checksums'}"

    @contextlib.contextmanager
    def done(self) -> Iterator[None]:
        involved = [path for path in (self.path, self.other) if path]
        involved += [crc_of(path) for path in involved]
        before = {path: (self.root / path).read_bytes() for path in involved if (self.root / path).exists()}
        try:
            self.inflict()
            yield
        finally:
            for path, data in before.items():
                (self.root / path).write_bytes(data)

    def inflict(self) -> None:
        target, other = self.root / self.path, self.root / self.other
        data = target.read_bytes()
        if self.how == REMOVED:
            target.unlink()
        elif self.how == SWAPPED:
            target.write_bytes(other.read_bytes())
            other.write_bytes(data)
        else:
            target.write_bytes(HOW[self.how](data))
        if not self.checksums:
            for path in (self.path, self.other or self.path):
                (self.root / crc_of(path)).unlink(missing_ok=True)


def damages(root: Path) -> Iterator[Damage]:
    """Of all files below, the checksums included."""
    paths = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    for path in paths:
        if path.rpartition("/")[2].startswith("."):
            yield from (Damage(root, path, how) for how in ("emptied", "cut in half", "filled with noise", REMOVED))
            continue
        folder = path.rpartition("/")[0]
        others = [other for other in paths if other > path and other.rpartition("/")[0] == folder and _plain(other)]
        for checksums in (True, False):
            yield from (Damage(root, path, how, checksums=checksums) for how in (*HOW, REMOVED))
            yield from (Damage(root, path, SWAPPED, other, checksums) for other in others[:2])


def _plain(path: str) -> bool:
    return not path.rpartition("/")[2].startswith(".")
