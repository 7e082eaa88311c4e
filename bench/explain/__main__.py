"""Compare `holdfast explain` with lnav, Drain3 and grep on the same files, in turns.

Holdfast is measured in two ways. *Warm*: Spark is running and its Python workers have read a file before; the time covers the
whole analysis, not only the scan. *Command*: the whole `holdfast explain` process, with the start of Spark.
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
from bench.explain.memory import PeakMemory
from bench.explain.peers import measure_s
from bench.spark import format_median
from holdfast.explain.analyze import analyze
from holdfast.explain.inputs import find_inputs
from holdfast.explain.library import load_library
from holdfast.explain.spark.scan_job import scan_on_spark
from holdfast.explain.spark.spark_session import spark_session
from holdfast.explain.timeline.merge import merge_scans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE_BYTES = 1_000_000_000
TENTH_BYTES = LARGE_BYTES // 10
SMALL_FILES = 5000
ROUNDS = 3
PEERS = {"lnav": (peers.lnav, 2), "Drain3": (peers.drain3, 20), "grep -c": (peers.grep, 0)}
"""Tool, and the target for the speed of Holdfast relative to it; 0 means no target."""
WRITERS = {"short records": write_short, "stack traces": write_traces}


def main() -> None:
    print(f"{os.cpu_count()} cores; inputs of {LARGE_BYTES / 1e9:g} GB; median of {ROUNDS} (lowest to highest)", flush=True)
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
        print(f"  command          {format_median(_rounds(partial(_command, root / 'report.txt')))} s (target: 12)")


def _compare(name: str, large: Path, tenth: Path, small: Path) -> None:
    print(f"\n{name}", flush=True)
    with spark_session(f"local[{os.cpu_count()}]", {}) as session:
        analyze_path = partial(_analyze, session)
        with PeakMemory(os.getpid()) as peak:  # outside the timed turns: sampling memory takes CPU time
            for path in (tenth, large, small):
                analyze_path(path)
        warm = InterleavedTiming(partial(analyze_path, large))
        tenth_ratios = [1 / ratio for ratio in warm.compare(partial(analyze_path, tenth))]
        file_ratios = [1 / ratio for ratio in warm.compare(partial(analyze_path, small))]
        ratios = {peer: warm.compare(partial(work, large)) for peer, (work, _) in PEERS.items()}
    warm_s = format_median(warm.durations_s, ".2f")
    print(f"  warm             {_rate(median(warm.durations_s)):5.0f} MB/s (target: 250)    {warm_s} s")
    print(f"    memory         {peak.mb:,.0f} MB, Java and Python (target: under 2,000)")
    print(f"    ten times the input takes {format_median(tenth_ratios)} times as long (target: at most 10)")
    print(f"    {SMALL_FILES:,} files    {format_median(file_ratios, '.2f')} of that rate (target: 0.5)")
    for peer, (_, target) in PEERS.items():
        note = f" (target: {target})" if target else ""
        print(f"    against {peer:8} {format_median(ratios[peer], '.1f' if target else '.2f')} times as fast{note}", flush=True)
    command = _rounds(partial(_command, large))
    print(f"  command          {_rate(median(command)):5.0f} MB/s    {format_median(command, '.1f')} s", flush=True)


class InterleavedTiming:
    """Times of Holdfast, measured right before and after each competitor, because the speed of a machine varies."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self.durations_s: list[float] = []

    def compare(self, other: Callable[[], None]) -> list[float]:
        """Return the ratio of the other's time to the mean of ours before and after it, for each turn."""
        ratios = []
        for _ in range(ROUNDS):
            before_s, other_s, after_s = measure_s(self._work), measure_s(other), measure_s(self._work)
            self.durations_s += before_s, after_s
            ratios.append(2 * other_s / (before_s + after_s))
        return ratios


def _analyze(session: "SparkSession", path: Path) -> None:
    files = find_inputs([str(path)])
    analyze(merge_scans(files, scan_on_spark(session, files, (), lambda _: None)), load_library(()))


def _command(path: Path) -> None:
    subprocess.run(["holdfast", "explain", str(path)], check=True, capture_output=True, timeout=600)


def _rounds(work: Callable[[], None]) -> list[float]:
    return [measure_s(work) for _ in range(ROUNDS)]


def _rate(duration_s: float) -> float:
    return LARGE_BYTES / 1e6 / duration_s


if __name__ == "__main__":
    main()
