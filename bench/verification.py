"""Time until a job with 1,000 state files commits its next batch: under `spark-submit`, and under Holdfast with verification.

Both jobs run the same script on checkpoints of the same content, and they take turns. In each turn a job is started, commits
one batch and is stopped.
"""

import contextlib
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.spark import SAME_CONF, TIMEOUT_S, BenchCluster, format_median, run_bare
from tests.harness.waiting import wait_until

ROUNDS = 5
PARTITIONS = 50
BATCHES = 20
KEYS = 1000
SCRIPT = "counts.py"
JOB = "counts"


@dataclass(frozen=True, slots=True)
class CountsJob:
    """Input, output directory and arguments of one of the two jobs."""

    directory: Path

    @property
    def arguments(self) -> tuple[str, str, str]:
        return str(self.directory / "in"), str(PARTITIONS), str(self.directory)

    def add_input(self, number: int) -> None:
        """Add the file of one batch. Spark lists the folder while this runs, so the file appears at once."""
        folder = self.directory / "in"
        folder.mkdir(parents=True, exist_ok=True)
        hidden = folder / f".{number}"
        hidden.write_text("\n".join(json.dumps({"key": key}) for key in range(KEYS)))
        hidden.rename(folder / f"{number:04}.json")

    def wait_for_commit(self, batch: int) -> None:
        commit = self.directory / "checkpoint" / "commits" / str(batch)
        wait_until(commit.exists, TIMEOUT_S, f"batch {batch} of {self.directory.name}")

    def count_state_files(self) -> int:
        """Return the number of state files without Hadoop's hidden checksum files."""
        files = (self.directory / "checkpoint" / "state").rglob("*")
        return sum(file.is_file() and not file.name.startswith(".") for file in files)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        root = Path(directory)
        bare, supervised = CountsJob(root / "bare"), CountsJob(root / "supervised")
        for job in (bare, supervised):
            for number in range(BATCHES):
                job.add_input(number)
        cluster = stack.enter_context(BenchCluster(root / "cluster", archives="off").running())
        with run_bare(SCRIPT, *bare.arguments, conf=SAME_CONF, log=root / "log"):
            bare.wait_for_commit(BATCHES - 1)
        stack.enter_context(cluster.job(SCRIPT, *supervised.arguments, name=JOB))
        supervised.wait_for_commit(BATCHES - 1)
        _stop(cluster)

        def run_supervised(batch: int) -> float:
            began = time.monotonic()
            cluster.holdfast("resume", JOB)
            supervised.wait_for_commit(batch)
            seconds = time.monotonic() - began
            _stop(cluster)
            return seconds

        def run_unsupervised(batch: int) -> float:
            began = time.monotonic()
            with run_bare(SCRIPT, *bare.arguments, conf=SAME_CONF, log=root / "log"):
                bare.wait_for_commit(batch)
                return time.monotonic() - began

        kinds: dict[str, tuple[CountsJob, Callable[[int], float]]] = {
            "spark-submit": (bare, run_unsupervised),
            "holdfast": (supervised, run_supervised),
        }
        taken: dict[str, list[float]] = {name: [] for name in kinds}
        for batch in range(BATCHES, BATCHES + ROUNDS):
            for name, (job, run) in kinds.items():
                job.add_input(batch)
                taken[name].append(run(batch))
        _print_results(taken, supervised.count_state_files())


def _stop(cluster: BenchCluster) -> None:
    cluster.holdfast("stop", JOB)
    wait_until(lambda: cluster.show(JOB)["driver_pid"] is None, TIMEOUT_S, "the job is stopped")


def _print_results(taken: dict[str, list[float]], files: int) -> None:
    print(f"  {files:,} state files; from start to the next committed batch, median of {ROUNDS} (lowest to highest):")
    for name, seconds in taken.items():
        print(f"    {name:13} {format_median(seconds)} s")
    print(f"  ratio {median(taken['holdfast']) / median(taken['spark-submit']):.2f} (Holdfast verifies the checkpoint first)")


if __name__ == "__main__":
    main()
