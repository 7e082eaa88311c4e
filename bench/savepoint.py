"""How long it takes to copy a checkpoint of one gigabyte into a savepoint, against `cp -r` and `sync` of the same files.

Both copies end on the disk, and take turns. The checkpoint is laid out like that of a query with state: many small files of its
logs, and some large ones of its state.
"""

import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.spark import figure
from holdfast.savepoint import Savepoints, Source

ROUNDS = 5
BATCHES = 100
PARTITIONS = 4
STATE_FILE_BYTES = 25_000_000
STATE_FILES = 10
SOURCE = Source(job="j1", name="bench", version=1, ancestors=(), running=True)


def main() -> None:
    # Beside the project, not in a directory that may be in memory.
    with tempfile.TemporaryDirectory(dir=Path(__file__).parents[1]) as directory:
        storage = Path(directory)
        checkpoint = storage / "checkpoints" / SOURCE.job / "query-1"
        _write(checkpoint)
        subprocess.run(["sync", "-f", directory], check=True)
        plain: list[float] = []
        ours: list[float] = []
        for round in range(ROUNDS):
            for kind in ("cp", "savepoint") if round % 2 == 0 else ("savepoint", "cp"):
                (plain if kind == "cp" else ours).append(_cp(checkpoint, storage) if kind == "cp" else _savepoint(storage))
        size = sum(file.stat().st_size for file in checkpoint.rglob("*") if file.is_file())
        print(f"  {size / 1e9:.2f} GB in {sum(1 for _ in checkpoint.rglob('*')):,} files, median of {ROUNDS} (best to worst)")
        print(f"    cp -r and sync   {figure(plain)} s")
        print(f"    savepoint        {figure(ours)} s, with a SHA-256 of each file; a running job is not paused")
        print(f"  ratio {median(ours) / median(plain):.2f} (target: 1.3 or less)")


def _write(checkpoint: Path) -> None:
    dice = random.Random(1)
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True)
        for batch in range(BATCHES):
            (checkpoint / folder / str(batch)).write_text("v1\n{}")
    (checkpoint / "metadata").write_text("{}")
    noise = dice.randbytes(1 << 20)
    for partition in range(PARTITIONS):
        state = checkpoint / "state" / "0" / str(partition)
        state.mkdir(parents=True)
        for version in range(BATCHES - STATE_FILES, BATCHES):
            with (state / f"{version}.zip").open("wb") as file:
                while file.tell() < STATE_FILE_BYTES:
                    file.write(noise)


def _cp(checkpoint: Path, storage: Path) -> float:
    target = storage / "copy"
    began = time.monotonic()
    subprocess.run(["cp", "-r", str(checkpoint), str(target)], check=True)
    subprocess.run(["sync", "-f", str(target)], check=True)
    seconds = time.monotonic() - began
    shutil.rmtree(target)
    return seconds


def _savepoint(storage: Path) -> float:
    savepoints = Savepoints(str(storage))
    began = time.monotonic()
    made = savepoints.make(SOURCE, by="bench")
    seconds = time.monotonic() - began
    savepoints.remove(made.id)
    return seconds


if __name__ == "__main__":
    main()
