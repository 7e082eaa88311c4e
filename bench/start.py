"""Time from submitting a small streaming job to its first committed batch, under `spark-submit` and under Holdfast.

Every job is the same script. Holdfast runs it without and with a class archive. `spark-submit` comes from the same PySpark and
runs it with its defaults, and with the settings that Holdfast gives every job. The kinds take turns.
Ratios are within one run.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.spark import SAME_CONF, TIMEOUT_S, BenchCluster, format_median, run_bare
from tests.harness.waiting import wait_until

ROUNDS = 5
SCRIPT = "first_batch.py"
Kind = Callable[[Path], contextlib.AbstractContextManager[object]]


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        root = Path(directory)
        without = stack.enter_context(BenchCluster(root / "without", archives="off").running())
        archived = stack.enter_context(BenchCluster(root / "archived", archives=str(root / "archives")).running())
        _wait_for_archive(root / "archives")
        kinds: dict[str, Kind] = {
            "spark-submit, defaults": lambda directory: run_bare(SCRIPT, str(directory), log=directory / "log"),
            "spark-submit, same settings": lambda directory: run_bare(
                SCRIPT, str(directory), conf=SAME_CONF, log=directory / "log"
            ),
            "holdfast, no class archive": lambda directory: without.job(SCRIPT, str(directory), name=directory.name),
            "holdfast, class archive": lambda directory: archived.job(SCRIPT, str(directory), name=directory.name),
        }
        taken: dict[str, list[float]] = {name: [] for name in kinds}
        before: dict[str, list[float]] = {name: [] for name in kinds}
        for round in range(ROUNDS):
            for number, (name, kind) in enumerate(kinds.items()):
                seconds, script_s = _measure(kind, root / f"r{round}-{number}")
                taken[name].append(seconds)
                before[name].append(script_s)
        _print_results(taken, before)


def _wait_for_archive(directory: Path) -> None:
    began = time.monotonic()
    print("  (waiting for the node to build its class archive: it starts after half a minute without load)", flush=True)
    archive = wait_until(lambda: next(directory.glob("*.jsa"), None), TIMEOUT_S, "a class archive")
    print(f"  class archive: {archive.stat().st_size / 1e6:.0f} MB, {time.monotonic() - began:.0f} s after the node started")


def _measure(kind: Kind, directory: Path) -> tuple[float, float]:
    """Return the seconds until the first commit, and until the first line of the script."""
    directory.mkdir()
    commit = directory / "checkpoint" / "commits" / "0"
    began, began_wall = time.monotonic(), time.time()
    with kind(directory):
        wait_until(commit.exists, TIMEOUT_S, f"the first batch of {directory.name}")
        seconds = time.monotonic() - began
    return seconds, float((directory / "times").read_text().split()[0]) - began_wall


def _print_results(taken: dict[str, list[float]], before: dict[str, list[float]]) -> None:
    usual, same = list(taken.values())[:2]
    print(f"  from submit to the first committed batch, median of {ROUNDS} (lowest to highest):")
    for name, seconds in taken.items():
        ratios = f"{median(seconds) / median(usual):.2f} of the first, {median(seconds) / median(same):.2f} of the second"
        print(
            f"    {name:32} {format_median(seconds):24} s   {ratios};   {median(before[name]):.1f} s until the script started"
        )
    print("  targets: no class archive 1.0 of the first or less, class archive 0.6 or less")
