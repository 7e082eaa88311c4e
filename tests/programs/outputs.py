"""Outputs of the programs: the rows that count, also while the program writes."""

import json
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.harness.cluster.streams import read_committed_lines
from tests.programs.rows import Result, Row, to_result

ALL_BATCHES = 2**60
SINK_LOG = "_spark_metadata"


class ProgramOutput(Protocol):
    """Output of a program."""

    @property
    def has_everything(self) -> bool:
        """True if a batch writes the whole result, and not only what it adds or changes."""

    def read(self, directory: Path, last_batch: int = ALL_BATCHES) -> list[Row]:
        """Return the rows of all batches up to this one. Raises FileNotFoundError while they are being replaced."""

    def result(self, rows: Iterable[Row]) -> Result:
        """Return the result that the rows of all batches add up to."""

    def copy_log(self, directory: Path, target: Path, last_batch: int) -> bool:
        """Copy the log of the batches up to this one to a new output, which then includes their rows. Return True if done."""


@dataclass(frozen=True, slots=True)
class WholeResult:
    """One folder, which every batch replaces."""

    has_everything: bool = True

    def read(self, directory: Path, last_batch: int = ALL_BATCHES) -> list[Row]:
        return list(_read_complete_folder(directory))

    def result(self, rows: Iterable[Row]) -> Result:
        return to_result(rows)

    def copy_log(self, directory: Path, target: Path, last_batch: int) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class FileSink:
    """Spark's file sink, whose log names the files that count."""

    has_everything: bool = False

    def read(self, directory: Path, last_batch: int = ALL_BATCHES) -> list[Row]:
        lines = read_committed_lines(directory, last_batch=last_batch)
        return [json.loads(line) for line in lines.elements()]

    def result(self, rows: Iterable[Row]) -> Result:
        return to_result(rows)

    def copy_log(self, directory: Path, target: Path, last_batch: int) -> bool:
        """Copy the log, without which Spark fails at the next compaction. It names the files of the first output."""
        (target / SINK_LOG).mkdir(parents=True)
        for file in (directory / SINK_LOG).iterdir():
            number = file.name.partition(".")[0]
            if number.isdigit() and int(number) <= last_batch:
                shutil.copy(file, target / SINK_LOG)
        return True


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """One folder for each batch, with the rows that it changed. The newest row of a key counts."""

    key: str
    has_everything: bool = False

    def read(self, directory: Path, last_batch: int = ALL_BATCHES) -> list[Row]:
        return list(_read_batch_folders(directory, last_batch))

    def result(self, rows: Iterable[Row]) -> Result:
        """Return the newest row of each key. The rows are in order of their batches."""
        return to_result({row[self.key]: row for row in rows}.values())

    def copy_log(self, directory: Path, target: Path, last_batch: int) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class RowsAndTotals:
    """Two folders for each batch: its rows, and one row with their number and sum."""

    has_everything: bool = False

    def read(self, directory: Path, last_batch: int = ALL_BATCHES) -> list[Row]:
        return [row for name in ("rows", "totals") for row in _read_batch_folders(directory / name, last_batch)]

    def result(self, rows: Iterable[Row]) -> Result:
        single: list[Row] = []
        totals: dict[str, int] = defaultdict(int)
        for row in rows:
            if "number" in row:
                single.append(row)
            else:
                totals["rows"] += row["rows"]
                totals["sum"] += row.get("sum", 0)
        return to_result([*single, dict(totals)])

    def copy_log(self, directory: Path, target: Path, last_batch: int) -> bool:
        return False


def _read_batch_folders(directory: Path, last_batch: int) -> Iterator[Row]:
    """Yield the rows of all complete batches in their order."""
    folders = {int(path.name.removeprefix("batch=")): path for path in directory.glob("batch=*")}
    for number, folder in sorted(folders.items()):
        if number <= last_batch and (folder / "_SUCCESS").exists():
            yield from _read_complete_folder(folder)


def _read_complete_folder(directory: Path) -> Iterator[Row]:
    """Yield the rows of a folder. Raises FileNotFoundError if Spark has not completed it."""
    done = (directory / "_SUCCESS").stat().st_mtime_ns
    rows = [json.loads(line) for file in sorted(directory.glob("part-*")) for line in file.read_text().splitlines()]
    if (directory / "_SUCCESS").stat().st_mtime_ns != done:
        raise FileNotFoundError(f"{directory} was replaced while it was read")
    yield from rows
