"""Folders of one query: input, checkpoint and output. Each file of the input is one batch."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.harness.checkpoint_trees import crc_file

ROWS_PER_STEP = 6
STEPS_BEFORE = 3
STEPS_AFTER = 2
SCHEMA = "n long, key string, at timestamp"
SINK_LOG = "_spark_metadata"

Rows = Counter[str]


class QueryScene(NamedTuple):
    input: Path
    home: Path

    @property
    def checkpoint(self) -> Path:
        return self.home / "checkpoint"

    @property
    def out(self) -> Path:
        return self.home / "out"

    @property
    def sink_log(self) -> Path:
        return self.out / SINK_LOG

    def copy(self, home: Path) -> "QueryScene":
        """Copy checkpoint and output, and rewrite the absolute paths in the log of a file sink and in operator metadata."""
        shutil.copytree(self.home, home)
        copy = QueryScene(self.input, home)
        for file in copy.sink_log.glob("[0-9]*") if copy.sink_log.is_dir() else ():
            replace_content(file, file.read_bytes().replace(f"file://{self.home}/".encode(), f"file://{home}/".encode()))
        copy.rename_schemas(self.home, home)
        return copy

    def rename_schemas(self, old: Path, new: Path) -> None:
        """Let operator metadata name the schema files of another folder. A checksum that does not match stays wrong."""
        for file in self.checkpoint.glob("state/*/_metadata/v2/[0-9]*"):
            before = file.read_bytes()
            after = before.replace(f'"file:{old}/'.encode(), f'"file:{new}/'.encode())
            checksum = checksum_file(file)
            if checksum.exists() and checksum.read_bytes() == crc_file(before):
                replace_content(file, after)
            else:
                file.write_bytes(after)

    def newest_batch(self, log: str = "offsets") -> int:
        return max((int(path.name) for path in (self.checkpoint / log).iterdir() if path.name.isdigit()), default=-1)


def replace_content(file: Path, data: bytes) -> None:
    """Replace the content of a file, with a checksum file that matches it."""
    file.write_bytes(data)
    checksum_file(file).write_bytes(crc_file(data))


def checksum_file(file: Path) -> Path:
    """Return the path of the checksum file that Hadoop's local file system writes beside a file."""
    return file.with_name(f".{file.name}.crc")


def remove_file(file: Path) -> None:
    """Remove a file with its checksum file."""
    file.unlink(missing_ok=True)
    checksum_file(file).unlink(missing_ok=True)


def add_steps(folder: Path, first: int, end: int) -> None:
    """Write the input files of the steps from `first` up to, but not including, `end`."""
    folder.mkdir(parents=True, exist_ok=True)
    for step in range(first, end):
        hidden = folder / f".{step:03}.json"
        hidden.write_text("".join(f"{json.dumps(row)}\n" for row in step_rows(step)))
        os.utime(hidden, (1_700_000_000 + step, 1_700_000_000 + step))  # Spark reads files in order of modification time
        hidden.rename(folder / f"{step:03}.json")


def step_rows(step: int) -> list[dict[str, object]]:
    """Return the rows of a step, all within one minute of event time."""
    numbers = range(step * ROWS_PER_STEP, (step + 1) * ROWS_PER_STEP)
    minute = f"2026-01-01T{step // 60:02}:{step % 60:02}"
    return [{"n": n, "key": "abc"[n % 3], "at": f"{minute}:{n % ROWS_PER_STEP * 8:02}Z"} for n in numbers]


def written_batches(out: Path) -> list[list[str]]:
    """Return the rows of an output folder with one JSON file per batch or partition, in order."""
    files = sorted(out.glob("*.json"), key=lambda file: tuple(int(part) for part in file.stem.split("-")))
    return [file.read_text().splitlines() for file in files]
