"""Damages to one file of a checkpoint, applied one at a time and undone."""

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.checkpoint.file_tree import crc_path


def _random_bytes(data: bytes) -> bytes:
    return random.Random(len(data)).randbytes(max(len(data), 16))


def _flip_one_bit(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


MUTATIONS: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda data: b"",
    "cut in half": lambda data: data[: len(data) // 2],
    "cut by one byte": lambda data: data[:-1],
    "cut after its first line": lambda data: data.partition(b"\n")[0],
    "zeroed": lambda data: b"\0" * len(data),
    "filled with noise": _random_bytes,
    "changed by one bit": _flip_one_bit,
    "lengthened": lambda data: data + b"\n{}",
}
REMOVED, SWAPPED = "removed", "swapped"


@dataclass(frozen=True)
class Damage:
    root: Path
    path: str
    how: str
    other: str = ""
    """File with which it is swapped."""
    checksums: bool = True
    """False if the checksum files of a local disk are deleted too. A swapped file keeps its checksum file."""

    def __str__(self) -> str:
        damage = f"{self.how} with {self.other}" if self.other else self.how
        return f"{self.path} {damage}{'' if self.checksums else ', without checksums'}"

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        involved = [path for path in (self.path, self.other) if path]
        involved += [crc_path(path) for path in involved]
        before = {path: (self.root / path).read_bytes() for path in involved if (self.root / path).exists()}
        try:
            self.apply()
            yield
        finally:
            for path, data in before.items():
                (self.root / path).write_bytes(data)

    def apply(self) -> None:
        target, other = self.root / self.path, self.root / self.other
        data = target.read_bytes()
        if self.how == REMOVED:
            target.unlink()
        elif self.how == SWAPPED:
            target.write_bytes(other.read_bytes())
            other.write_bytes(data)
        else:
            target.write_bytes(MUTATIONS[self.how](data))
        if not self.checksums:
            for path in (self.path, self.other or self.path):
                (self.root / crc_path(path)).unlink(missing_ok=True)


def all_damages(root: Path) -> Iterator[Damage]:
    """Yield every damage to every file below the root, including checksum files."""
    paths = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    for path in paths:
        if path.rpartition("/")[2].startswith("."):
            yield from (Damage(root, path, how) for how in ("emptied", "cut in half", "filled with noise", REMOVED))
            continue
        folder = path.rpartition("/")[0]
        others = [other for other in paths if other > path and other.rpartition("/")[0] == folder and _is_data_file(other)]
        for checksums in (True, False):
            yield from (Damage(root, path, how, checksums=checksums) for how in (*MUTATIONS, REMOVED))
            yield from (Damage(root, path, SWAPPED, other, checksums) for other in others[:2])


def _is_data_file(path: str) -> bool:
    return not path.rpartition("/")[2].startswith(".")
