"""One run: the same gigabytes for `holdfast explain`, lnav, Drain3 and grep, in turns.

Ours is measured twice over. *Warm*: Spark runs and its Python has read something before; the time is that of the whole answer,
not of the scan alone. *The command*: `holdfast explain` as it is typed, with all that starts and ends.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.explain import peers
from bench.explain.logs import split, write_report, write_short, write_traces
from bench.explain.memory import Peak
from bench.explain.peers import seconds
from bench.spark import figure
from holdfast.explain.analyze import answer
from holdfast.explain.inputs import inputs
from holdfast.explain.library import library
from holdfast.explain.spark.scan_job import scanned
from holdfast.explain.spark.session import spark
from holdfast.explain.timeline.merge import gathered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE_BYTES = 1_000_000_000
TENTH_BYTES = LARGE_BYTES // 10
SMALL_FILES = 5000
ROUNDS = 3
PEERS = {"lnav": (peers.lnav, 2), "Drain3": (peers.drain3, 20), "grep -c": (peers.grep, 0)}
"""Each with how many times as fast ours should be, if it should."""
WRITERS = {"short records": write_short, "stack traces": write_traces}


def main() -> None:
    print(f"{os.cpu_count()} cores; inputs of {LARGE_BYTES / 1e9:g} GB; median of {ROUNDS} (best to worst)", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for name, write in WRITERS.items():
            large, tenth, small = root / "large.log", root / "tenth.log", root / "small"
            write(large, LARGE_BYTES)
            write(tenth, TENTH_BYTES)
            small.mkdir(exist_ok=True)
            split(large, small, SMALL_FILES)
            _compare(name, large, tenth, small)
        write_report(root / "report.txt")
        print("\na pasted report")
        print(f"  the command      {figure(_rounds(partial(_command, root / 'report.txt')))} s (target: 12)")


def _compare(name: str, large: Path, tenth: Path, small: Path) -> None:
    print(f"\n{name}", flush=True)
    with spark(f"local[{os.cpu_count()}]", {}) as session:
        ask = partial(_ask, session)
        with Peak(os.getpid()) as peak:  # not while the time is taken: to look takes some of it
            for path in (tenth, large, small):
                ask(path)
        warm = Turns(partial(ask, large))
        longer = [1 / ratio for ratio in warm.beside(partial(ask, tenth))]
        files = [1 / ratio for ratio in warm.beside(partial(ask, small))]
        times = {peer: warm.beside(partial(work, large)) for peer, (work, _) in PEERS.items()}
    print(f"  warm             {_rate(median(warm.took_s)):5.0f} MB/s (target: 250)    {figure(warm.took_s, '.2f')} s")
    print(f"    memory         {peak.mb:,.0f} MB, Java and Python (target: under 2,000)")
    print(f"    ten times as much takes {figure(longer)} times as long (target: at most 10)")
    print(f"    {SMALL_FILES:,} files    {figure(files, '.2f')} of that rate (target: 0.5)")
    for peer, (_, target) in PEERS.items():
        wanted = f" (target: {target})" if target else ""
        print(f"    against {peer:8} {figure(times[peer], '.1f' if target else '.2f')} times as fast{wanted}", flush=True)
    command = _rounds(partial(_command, large))
    print(f"  the command      {_rate(median(command)):5.0f} MB/s    {figure(command, '.1f')} s", flush=True)


class Turns:
    """What ours takes, next to whatever it is compared with: a machine is not as fast in one minute as in the next."""

    def __init__(self, ours: Callable[[], None]) -> None:
        self._ours = ours
        self.took_s: list[float] = []

    def beside(self, other: Callable[[], None]) -> list[float]:
        """How many times as fast ours is, in each turn: before the other and after it."""
        found = []
        for _ in range(ROUNDS):
            before_s, other_s, after_s = seconds(self._ours), seconds(other), seconds(self._ours)
            self.took_s += before_s, after_s
            found.append(2 * other_s / (before_s + after_s))
        return found


def _ask(session: "SparkSession", path: Path) -> None:
    files = inputs([str(path)])
    answer(gathered(files, scanned(session, files, (), lambda _: None)), library(()))


def _command(path: Path) -> None:
    subprocess.run(["holdfast", "explain", str(path)], check=True, capture_output=True, timeout=600)


def _rounds(work: Callable[[], None]) -> list[float]:
    return [seconds(work) for _ in range(ROUNDS)]


def _rate(took_s: float) -> float:
    return LARGE_BYTES / 1e6 / took_s


if __name__ == "__main__":
    main()
