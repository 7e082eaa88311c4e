"""Time to copy a checkpoint of one gigabyte into a savepoint, compared with `cp -r` and `sync` of the same files.

Both copies are synced to disk, and they take turns. The checkpoint has the layout of a stateful query: many small log files and
a few large state files.
"""

import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.spark import format_median
from holdfast.savepoint import SavepointSource, SavepointStore

ROUNDS = 5
BATCHES = 100
PARTITIONS = 4
STATE_FILE_BYTES = 25_000_000
STATE_FILES = 10
SOURCE = SavepointSource(job="j1", name="bench", version=1, ancestors=(), running=True)


def main() -> None:
    # In the project directory: the system's temporary directory may be in memory.
    with tempfile.TemporaryDirectory(dir=Path(__file__).parents[1]) as directory:
        storage = Path(directory)
        checkpoint = storage / "checkpoints" / SOURCE.job / "query-1"
        _write_checkpoint(checkpoint)
        subprocess.run(["sync", "-f", directory], check=True)
        copy_s: list[float] = []
        savepoint_s: list[float] = []
        for round in range(ROUNDS):
            for kind in ("cp", "savepoint") if round % 2 == 0 else ("savepoint", "cp"):
                (copy_s if kind == "cp" else savepoint_s).append(
                    _cp(checkpoint, storage) if kind == "cp" else _savepoint(storage)
                )
        size = sum(file.stat().st_size for file in checkpoint.rglob("*") if file.is_file())
        print(
            f"  {size / 1e9:.2f} GB in {sum(1 for _ in checkpoint.rglob('*')):,} files, median of {ROUNDS} (lowest to highest)"
        )
        print(f"    cp -r and sync   {format_median(copy_s)} s")
        print(f"    savepoint        {format_median(savepoint_s)} s, with a SHA-256 of each file; a running job is not paused")
        print(f"  ratio {median(savepoint_s) / median(copy_s):.2f} (target: 1.3 or less)")


def _write_checkpoint(checkpoint: Path) -> None:
    rng = random.Random(1)
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True)
        for batch in range(BATCHES):
            (checkpoint / folder / str(batch)).write_text("v1\n{}")
    (checkpoint / "metadata").write_text("{}")
    noise = rng.randbytes(1 << 20)
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
    savepoints = SavepointStore(str(storage))
    began = time.monotonic()
    made = savepoints.create(SOURCE, by="bench")
    seconds = time.monotonic() - began
    savepoints.remove(made.id)
    return seconds


if __name__ == "__main__":
    main()
