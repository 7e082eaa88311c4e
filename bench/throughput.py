"""Cost of supervision for a CPU-bound job: rows per second under Holdfast and under `spark-submit`, and the runner's memory.

The speed of a machine varies by a tenth from one half minute to the next, which is more than the expected difference. So both
jobs are started together and take turns: one is stopped (SIGSTOP) while the other runs for a few seconds. Rows per second are
counted between commits, by the modification times of Spark's files. The runner works during the turns of both jobs, so its CPU
share is measured separately and subtracted.
"""

import contextlib
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from statistics import median

from bench.spark import SAME_CONF, TIMEOUT_S, BenchCluster, cpu_seconds, format_median, run_bare
from tests.harness.cluster.process_observer import child_pids, read_stat
from tests.harness.waiting import wait_until

PAIRS = 3
"""Pairs of drivers: two JVMs with the same program may compile it differently."""
TURNS = 10
TURN_S = 6.0
ROWS_PER_FILE = 25_000
FILES_PER_BATCH = 4
FILES = 1200
DISTINCT_FILES = 60
WARM_UP_BATCHES = 15
SCRIPT = "busy.py"


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        _write_input(root / "in")
        ratios: list[list[float]] = []
        runners: list[tuple[float, float, float]] = []
        with BenchCluster(root / "cluster", archives="off").running() as cluster:
            for number in range(PAIRS):
                pair, runner = _run_pair(cluster, root / f"pair-{number}", root / "in")
                ratios.append(pair)
                runners.append(runner)
        _print_results(ratios, runners)


def _write_input(directory: Path) -> None:
    """Write a few files and link them under many names: Spark reads all of them, and they take less disk space."""
    directory.mkdir()
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghij", k=8)) for _ in range(1000)]
    for number in range(FILES):
        name = directory / f"{number:04}.json"
        if number >= DISTINCT_FILES:
            os.link(directory / f"{number % DISTINCT_FILES:04}.json", name)
            continue
        rows = (
            json.dumps({"id": number * ROWS_PER_FILE + row, "word": rng.choice(words), "amount": rng.random()})
            for row in range(ROWS_PER_FILE)
        )
        name.write_text("\n".join(rows))


def _run_pair(cluster: BenchCluster, place: Path, source: Path) -> tuple[list[float], tuple[float, float, float]]:
    """Return the ratio of each turn, and the runner's (resident MB, proportional MB, share of the machine's CPU)."""
    arguments = (str(source), str(FILES_PER_BATCH))
    for name in ("bare", "supervised"):
        (place / name).mkdir(parents=True)
    with (
        run_bare(SCRIPT, *arguments, str(place / "bare"), conf=SAME_CONF, log=place / "log") as process,
        cluster.job(SCRIPT, *arguments, str(place / "supervised"), name=place.name),
    ):
        for name in ("bare", "supervised"):
            wait_until(_commit_file(place / name, WARM_UP_BATCHES).exists, TIMEOUT_S, f"the {name} job is warmed up")
        drivers = {"bare": process.pid, "supervised": int(cluster.show(place.name)["driver_pid"])}
        watchdog = _parent_pid(drivers["supervised"])
        runner = _parent_pid(watchdog)
        watchers = [runner, watchdog]
        started, used_s = time.monotonic(), sum(map(cpu_seconds, watchers))
        ratios = [_run_turn(place, drivers, first=("bare", "supervised")[turn % 2]) for turn in range(TURNS)]
        share = (sum(map(cpu_seconds, watchers)) - used_s) / (time.monotonic() - started) / (os.cpu_count() or 1)
        return ratios, (*_memory_mb(runner), share)


def _run_turn(place: Path, drivers: dict[str, int], *, first: str) -> float:
    second = next(name for name in drivers if name != first)
    rates = {}
    for name, other in ((first, second), (second, first)):
        with _paused(drivers[other]):
            rates[name] = _rows_per_s(place / name)
    return rates["supervised"] / rates["bare"]


@contextlib.contextmanager
def _paused(driver: int) -> Iterator[None]:
    tree = list(_process_tree(driver))
    try:
        for pid in tree:
            with contextlib.suppress(ProcessLookupError):  # a worker that has ended meanwhile
                os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in reversed(tree):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _process_tree(pid: int) -> Iterator[int]:
    yield pid
    for child in child_pids(pid):
        yield from _process_tree(child)


def _parent_pid(pid: int) -> int:
    stat = read_stat(pid)
    assert stat is not None
    return stat.parent


def _commit_file(place: Path, batch: int) -> Path:
    return place / "checkpoint" / "commits" / str(batch)


def _rows_per_s(place: Path) -> float:
    """Return rows per second between the first and the last commit of this turn. The first batch may have started earlier."""
    started = time.time()
    time.sleep(TURN_S)
    commits = (file for file in (place / "checkpoint" / "commits").iterdir() if file.name.isdigit())
    times = sorted(when for file in commits if (when := file.stat().st_mtime) > started)
    return (len(times) - 1) * FILES_PER_BATCH * ROWS_PER_FILE / (times[-1] - times[0])


def _memory_mb(pid: int) -> tuple[float, float]:
    """Return resident and proportional set size in MB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines[1:]}
    return sizes["Rss"], sizes["Pss"]


def _print_results(ratios: list[list[float]], runners: list[tuple[float, float, float]]) -> None:
    resident, proportional, share = (median(values) for values in zip(*runners, strict=True))
    pairs = [median(pair) for pair in ratios]
    print(f"  {PAIRS} pairs of drivers, {TURNS} turns of {TURN_S:g} s each; Holdfast relative to spark-submit:")
    turns = format_median(list(chain.from_iterable(ratios)), ".3f")
    print(f"    median of each pair {', '.join(f'{pair:.3f}' for pair in pairs)}; all turns {turns}")
    print(f"  runner and watchdog use {share:.2%} of the CPUs, during the turns of both")
    print(f"  under Holdfast the job runs at {median(pairs) * (1 - share):.3f} of spark-submit (target: 0.97 or more)")
    print(f"  runner: {resident:.0f} MB resident, {proportional:.0f} MB proportional (target: 45 or less)")
