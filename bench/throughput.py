"""What supervision costs a job that is all work: rows per second, supervised and bare, and the memory of its runner.

The same script over the same files, with the same settings of Spark, taking turns. The first batches are left out, in which
Java warms up. Rows per second are counted between commits, by the times of the files that Spark writes.
"""

import json
import random
import tempfile
from pathlib import Path
from statistics import median

from bench.spark import PATIENCE_S, SAME_CONF, Cluster, bare, figure
from tests.waiting import eventually

ROUNDS = 6
ROWS_PER_FILE = 25_000
FILES_PER_BATCH = 4
BATCHES = 36
WARM_UP_BATCHES = 6
SCRIPT = "busy.py"


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        source = root / "in"
        _write_input(source)
        rates: dict[str, list[float]] = {"bare": [], "supervised": []}
        memory: list[tuple[float, float]] = []
        with Cluster(root / "cluster", archives="off").up() as cluster:
            for round in range(ROUNDS):
                # Whoever comes second finds the machine as the first has left it, so they change places.
                for name in ("bare", "supervised") if round % 2 == 0 else ("supervised", "bare"):
                    place = root / f"{name}-{round}"
                    place.mkdir()
                    arguments = (str(source), str(FILES_PER_BATCH), str(place))
                    if name == "bare":
                        _run_bare(place, arguments)
                    else:
                        memory.append(_run_supervised(cluster, place, arguments))
                    rates[name].append(_rows_per_s(place))
        _tell(rates, memory)


def _write_input(directory: Path) -> None:
    directory.mkdir()
    dice = random.Random(1)
    words = ["".join(dice.choices("abcdefghij", k=8)) for _ in range(1000)]
    for number in range(BATCHES * FILES_PER_BATCH):
        rows = (
            json.dumps({"id": number * ROWS_PER_FILE + row, "word": dice.choice(words), "amount": dice.random()})
            for row in range(ROWS_PER_FILE)
        )
        (directory / f"{number:03}.json").write_text("\n".join(rows))


def _run_bare(place: Path, arguments: tuple[str, ...]) -> None:
    with bare(SCRIPT, *arguments, conf=SAME_CONF, log=place / "log") as process:
        assert process.wait(PATIENCE_S) == 0, (place / "log").read_text()[-2000:]


def _run_supervised(cluster: Cluster, place: Path, arguments: tuple[str, ...]) -> tuple[float, float]:
    with cluster.job(SCRIPT, *arguments, name=place.name):
        eventually(_commit(place, WARM_UP_BATCHES).exists, PATIENCE_S, "the job has warmed up")
        memory = _memory_mb(cluster.runner())
        eventually(_commit(place, BATCHES - 1).exists, PATIENCE_S, "the last batch is committed")
    return memory


def _commit(place: Path, batch: int) -> Path:
    return place / "checkpoint" / "commits" / str(batch)


def _rows_per_s(place: Path) -> float:
    first, last = (_commit(place, batch).stat().st_mtime for batch in (WARM_UP_BATCHES - 1, BATCHES - 1))
    return (BATCHES - WARM_UP_BATCHES) * FILES_PER_BATCH * ROWS_PER_FILE / (last - first)


def _memory_mb(pid: int) -> tuple[float, float]:
    """Resident, and its share of it where pages are shared with others."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines[1:]}
    return sizes["Rss"], sizes["Pss"]


def _tell(rates: dict[str, list[float]], memory: list[tuple[float, float]]) -> None:
    for name, values in rates.items():
        print(f"  {name:10} {figure(values, ',.0f')} rows per second, median of {ROUNDS}")
    # Each against its neighbour: what changes on the machine from one minute to the next hits both.
    ratios = [ours / theirs for ours, theirs in zip(rates["supervised"], rates["bare"], strict=True)]
    print(f"  supervised runs at {figure(ratios, '.3f')} of the bare one beside it (target: 0.97 or more)")
    resident, share = (median(values) for values in zip(*memory, strict=True))
    print(f"  its runner: {resident:.0f} MB resident, {share:.0f} MB its own share (target: 45 or less)")
