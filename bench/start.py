"""How long it takes from submitting a small streaming job to its first committed batch: bare, supervised, with a class archive.

Every job is the same plain script. Bare means `spark-submit` from the same PySpark, once as it comes, as users have it today,
and once with the settings that Holdfast gives every job. Ratios are within one run, and the kinds take turns.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.spark import PATIENCE_S, SAME_CONF, Cluster, bare, figure
from tests.harness.waiting import eventually

ROUNDS = 5
SCRIPT = "first_batch.py"
Kind = Callable[[Path], contextlib.AbstractContextManager[object]]


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        root = Path(directory)
        without = stack.enter_context(Cluster(root / "without", archives="off").up())
        archived = stack.enter_context(Cluster(root / "archived", archives=str(root / "archives")).up())
        _wait_for_archive(root / "archives")
        kinds: dict[str, Kind] = {
            "spark-submit, as it comes": lambda place: bare(SCRIPT, str(place), log=place / "log"),
            "spark-submit, the same settings": lambda place: bare(SCRIPT, str(place), conf=SAME_CONF, log=place / "log"),
            "holdfast, no class archive": lambda place: without.job(SCRIPT, str(place), name=place.name),
            "holdfast, class archive": lambda place: archived.job(SCRIPT, str(place), name=place.name),
        }
        taken: dict[str, list[float]] = {name: [] for name in kinds}
        before: dict[str, list[float]] = {name: [] for name in kinds}
        for round in range(ROUNDS):
            for number, (name, kind) in enumerate(kinds.items()):
                seconds, script_s = _measure(kind, root / f"r{round}-{number}")
                taken[name].append(seconds)
                before[name].append(script_s)
        _tell(taken, before)


def _wait_for_archive(directory: Path) -> None:
    began = time.monotonic()
    print(
        "  (the node makes its class archive first: half a minute after its start, and only if nothing else runs)", flush=True
    )
    archive = eventually(lambda: next(directory.glob("*.jsa"), None), PATIENCE_S, "a class archive")
    print(f"  class archive: {archive.stat().st_size / 1e6:.0f} MB, {time.monotonic() - began:.0f} s after the node was up")


def _measure(kind: Kind, place: Path) -> tuple[float, float]:
    """Until the first commit, and until the first line of the script."""
    place.mkdir()
    commit = place / "checkpoint" / "commits" / "0"
    began, began_wall = time.monotonic(), time.time()
    with kind(place):
        eventually(commit.exists, PATIENCE_S, f"the first batch of {place.name}")
        seconds = time.monotonic() - began
    return seconds, float((place / "times").read_text().split()[0]) - began_wall


def _tell(taken: dict[str, list[float]], before: dict[str, list[float]]) -> None:
    usual, same = list(taken.values())[:2]
    print(f"  from submit to the first committed batch, median of {ROUNDS} (best to worst):")
    for name, seconds in taken.items():
        ratios = f"{median(seconds) / median(usual):.2f} of the first, {median(seconds) / median(same):.2f} of the second"
        print(f"    {name:32} {figure(seconds):24} s   {ratios};   {median(before[name]):.1f} s until the script began")
    print("  targets: no class archive 1.0 of the first or less, class archive 0.6 or less")
