"""What supervision costs a job that is all work: rows per second, supervised and bare, and the memory of its runner.

The speed of one machine differs by a tenth from one half minute to the next, which is more than what is to be measured. So both
run at the same time, and by turns: one is stopped (SIGSTOP) while the other has the machine for a few seconds. Rows per second
are counted between commits, by the times of the files that Spark writes. What the runner does it does in the turns of both, so
its share of the machine is measured by itself and taken off.
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

from bench.spark import PATIENCE_S, SAME_CONF, Cluster, bare, computed_s, figure
from tests.harness.cluster.process_witness import children_of, stat_of
from tests.harness.waiting import eventually

PAIRS = 3
"""Of drivers: two Javas that run the same program need not have compiled it equally well."""
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
        with Cluster(root / "cluster", archives="off").up() as cluster:
            for number in range(PAIRS):
                pair, runner = _run_pair(cluster, root / f"pair-{number}", root / "in")
                ratios.append(pair)
                runners.append(runner)
        _tell(ratios, runners)


def _write_input(directory: Path) -> None:
    """The same few files under many names: it is read like others, and takes less room."""
    directory.mkdir()
    dice = random.Random(1)
    words = ["".join(dice.choices("abcdefghij", k=8)) for _ in range(1000)]
    for number in range(FILES):
        name = directory / f"{number:04}.json"
        if number >= DISTINCT_FILES:
            os.link(directory / f"{number % DISTINCT_FILES:04}.json", name)
            continue
        rows = (
            json.dumps({"id": number * ROWS_PER_FILE + row, "word": dice.choice(words), "amount": dice.random()})
            for row in range(ROWS_PER_FILE)
        )
        name.write_text("\n".join(rows))


def _run_pair(cluster: Cluster, place: Path, source: Path) -> tuple[list[float], tuple[float, float, float]]:
    """The ratio at each turn; and of the runner its resident memory, its own share of that, and its share of the machine."""
    arguments = (str(source), str(FILES_PER_BATCH))
    for name in ("bare", "supervised"):
        (place / name).mkdir(parents=True)
    with (
        bare(SCRIPT, *arguments, str(place / "bare"), conf=SAME_CONF, log=place / "log") as process,
        cluster.job(SCRIPT, *arguments, str(place / "supervised"), name=place.name),
    ):
        for name in ("bare", "supervised"):
            eventually(_commit(place / name, WARM_UP_BATCHES).exists, PATIENCE_S, f"the {name} job has warmed up")
        drivers = {"bare": process.pid, "supervised": int(cluster.shown(place.name)["driver_pid"])}
        watchdog = _parent(drivers["supervised"])
        runner = _parent(watchdog)
        watchers = [runner, watchdog]
        began, used_s = time.monotonic(), sum(map(computed_s, watchers))
        ratios = [_turn(place, drivers, first=("bare", "supervised")[turn % 2]) for turn in range(TURNS)]
        share = (sum(map(computed_s, watchers)) - used_s) / (time.monotonic() - began) / (os.cpu_count() or 1)
        return ratios, (*_memory_mb(runner), share)


def _turn(place: Path, drivers: dict[str, int], *, first: str) -> float:
    second = next(name for name in drivers if name != first)
    rates = {}
    for name, other in ((first, second), (second, first)):
        with _stopped(drivers[other]):
            rates[name] = _rows_per_s(place / name)
    return rates["supervised"] / rates["bare"]


@contextlib.contextmanager
def _stopped(driver: int) -> Iterator[None]:
    tree = list(_tree(driver))
    try:
        for pid in tree:
            with contextlib.suppress(ProcessLookupError):  # a worker that has just ended
                os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in reversed(tree):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for child in children_of(pid):
        yield from _tree(child)


def _parent(pid: int) -> int:
    stat = stat_of(pid)
    assert stat is not None
    return stat.parent


def _commit(place: Path, batch: int) -> Path:
    return place / "checkpoint" / "commits" / str(batch)


def _rows_per_s(place: Path) -> float:
    """From the first commit of this turn, whose batch may have begun in an earlier one, to the last."""
    began = time.time()
    time.sleep(TURN_S)
    commits = (file for file in (place / "checkpoint" / "commits").iterdir() if file.name.isdigit())
    times = sorted(when for file in commits if (when := file.stat().st_mtime) > began)
    return (len(times) - 1) * FILES_PER_BATCH * ROWS_PER_FILE / (times[-1] - times[0])


def _memory_mb(pid: int) -> tuple[float, float]:
    """Resident, and its share of it where pages are shared with others."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines[1:]}
    return sizes["Rss"], sizes["Pss"]


def _tell(ratios: list[list[float]], runners: list[tuple[float, float, float]]) -> None:
    resident, own, share = (median(values) for values in zip(*runners, strict=True))
    pairs = [median(pair) for pair in ratios]
    print(f"  {PAIRS} pairs of drivers, {TURNS} turns of {TURN_S:g} s for each; supervised against bare, median of each pair:")
    print(f"    {', '.join(f'{pair:.3f}' for pair in pairs)}; all turns: {figure(list(chain.from_iterable(ratios)), '.3f')}")
    print(f"  its runner and watchdog take {share:.2%} of the machine, in the turns of both")
    print(f"  supervised runs at {median(pairs) * (1 - share):.3f} of bare (target: 0.97 or more)")
    print(f"  its runner: {resident:.0f} MB resident, {own:.0f} MB its own share (target: 45 or less)")
