"""Input of the batch programs, and their results, computed without Spark.

The programs need some seconds for their input, so they can be paused in the middle.
"""

import itertools
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.programs.rows import Result, Row, to_result

SLICES, POINTS = 16, 300_000
TEXT_FILES, TEXT_LINES = 16, 12_000
CENTERS = [(0.0, 0.0), (100.0, 0.0), (0.0, 100.0), (100.0, 100.0)]
PAGES, LINKS, ITERATIONS = 2_000, 12, 10
CHAINS, CHAIN_LENGTH = 40, 40
DIGITS = 6
"""Decimal places of a result that count: the order of additions changes the last ones."""


@dataclass(frozen=True, slots=True)
class BatchData:
    arguments: list[str]
    expected: Result


def read_rows(directory: Path) -> list[Row]:
    """Return the rows that a batch program wrote, or none before its end."""
    files = directory.glob("part-*") if (directory / "_SUCCESS").exists() else ()
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def round_rows(rows: Iterable[Mapping[str, object]]) -> Result:
    return to_result(
        {key: round(value, DIGITS) + 0.0 if isinstance(value, float) else value for key, value in row.items()} for row in rows
    )


def throw_points(directory: Path) -> BatchData:
    inside = 0
    for seed in range(SLICES):
        draw = random.Random(seed).random
        inside += sum(draw() ** 2 + draw() ** 2 <= 1 for _ in range(POINTS))
    result = round_rows([{"inside": inside, "pi": 4 * inside / (SLICES * POINTS)}])
    return BatchData(["--slices", str(SLICES), "--points", str(POINTS)], result)


def write_texts(directory: Path) -> BatchData:
    draw = random.Random("texts")
    words = [f"word{number}" for number in range(500)]
    counts: Counter[str] = Counter()
    for number in range(TEXT_FILES):
        lines = [draw.choices(words, k=12) for _ in range(TEXT_LINES)]
        counts.update(word for line in lines for word in line)
        (directory / f"{number:03d}.txt").write_text("".join(f"{' '.join(line)}\n" for line in lines))
    return BatchData(["--input", str(directory)], to_result({"word": word, "count": count} for word, count in counts.items()))


def write_clusters(directory: Path) -> BatchData:
    """Write points around centers that are far apart. Every point has its mirror image, so the mean is the center itself."""
    draw = random.Random("clusters")
    rows: list[Row] = []
    for size, (x, y) in enumerate(CENTERS, 1):
        for _ in range(2_000 * size):
            right, up = draw.uniform(-5, 5), draw.uniform(-5, 5)
            rows += [{"x": x + right, "y": y + up}, {"x": x - right, "y": y - up}]
    draw.shuffle(rows)
    _write_rows(directory, rows)
    result = round_rows({"x": x, "y": y, "size": 4_000 * size} for size, (x, y) in enumerate(CENTERS, 1))
    return BatchData(["--input", str(directory), "--clusters", str(len(CENTERS))], result)


def write_links(directory: Path) -> BatchData:
    draw = random.Random("links")
    targets = {page: sorted(draw.sample(range(PAGES), LINKS)) for page in range(PAGES)}
    lines = [f"p{page} p{target}\n" for page, found in targets.items() for target in found]
    (directory / "links.txt").write_text("".join(lines))
    ranks = dict.fromkeys(targets, 1.0)
    for _ in range(ITERATIONS):
        totals: dict[int, float] = defaultdict(float)
        for page, rank in ranks.items():
            for target in targets[page]:
                totals[target] += rank / LINKS
        ranks = {page: 0.15 + 0.85 * total for page, total in totals.items()}
    result = round_rows({"page": f"p{page}", "rank": rank} for page, rank in ranks.items())
    return BatchData(["--input", str(directory), "--iterations", str(ITERATIONS)], result)


def write_edges(directory: Path) -> BatchData:
    """Write separate chains of nodes, each with one edge back, so that paths have all lengths and one chain has a cycle."""
    edges: list[tuple[int, int]] = []
    for chain in range(CHAINS):
        nodes = [chain * 1000 + place for place in range(CHAIN_LENGTH)]
        edges += list(itertools.pairwise(nodes))
        edges.append((nodes[chain % 10 + 5], nodes[chain % 10]))
    _write_rows(directory, [{"source": source, "target": target} for source, target in edges])
    following = defaultdict(set)
    for source, target in edges:
        following[source].add(target)
    paths = [{"source": source, "target": target} for source in following for target in _reachable(source, following)]
    return BatchData(["--input", str(directory)], to_result(paths))


def _reachable(source: int, following: Mapping[int, set[int]]) -> set[int]:
    found: set[int] = set()
    waiting = [source]
    while waiting:
        new = following.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def _write_rows(directory: Path, rows: Iterable[Row]) -> None:
    (directory / "rows.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
