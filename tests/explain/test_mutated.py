"""Ten thousand logs that are broken in every way: nothing crashes, nothing is lost, and however they are cut they say the same.

`HOLDFAST_SEED` chooses the same ones again, `HOLDFAST_MUTANTS` how many.
"""

import io
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from holdfast.cli.render.diagnosis import show
from holdfast.explain import range_scan as scanning
from holdfast.explain.analyze import answer
from holdfast.explain.inputs import Input, inputs
from holdfast.explain.library import library
from holdfast.explain.range_scan import scan
from holdfast.explain.report.answer import Answer
from holdfast.explain.report.html import page
from holdfast.explain.report.parquet import events_table
from holdfast.explain.report.perfetto import trace
from holdfast.explain.scan.ranges import Range, tasks
from holdfast.explain.scan.templates import LOOKS_MAX
from holdfast.explain.timeline.merge import gathered
from tests.explain.invariants import contract_is_kept, counts_add_up, evidence_stands_where_it_is_said_to
from tests.explain.mutations import Mutant, mutants, seeds

SEED = int(os.environ.get("HOLDFAST_SEED", "0")) or random.randrange(1, 10**6)
MUTANTS = int(os.environ.get("HOLDFAST_MUTANTS", "10000"))
TOLD_EVERY = 20
"""So often everything that can be written is written."""
SLOW_S = 1.0
RANGES_MAX = 12
LONG_LINES = 5
KNOWN = library()

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120 + MUTANTS // 20)]


def test_mutated_logs_crash_nothing_and_their_counts_add_up(tmp_path: Path, report: Callable[[str], None]) -> None:
    (tmp_path / "seeds").mkdir()
    (tmp_path / "logs").mkdir()
    known = seeds(tmp_path / "seeds", random.Random(SEED))
    slowest = (0.0, "")
    bytes_read = diagnosed = 0
    begun = time.perf_counter()
    for number in range(MUTANTS):
        files = mutants(random.Random(f"{SEED}-{number}"), known)
        story = f"HOLDFAST_SEED={SEED}, mutant {number}: {'; '.join(one.story for one in files)}"
        try:
            taken_s, diagnoses = examined(tmp_path / "logs", files, random.Random(number), everything=not number % TOLD_EVERY)
        except BaseException as error:
            error.add_note(story)
            raise
        slowest = max(slowest, (taken_s, story)) if number else slowest  # the first one compiles
        assert not number or taken_s < SLOW_S, story
        bytes_read += sum(len(one.data) for one in files)
        diagnosed += diagnoses > 0
    report(
        f"explain: {MUTANTS:,} mutated inputs ({bytes_read / 1e6:.0f} MB) in {time.perf_counter() - begun:.0f} s, seed {SEED}; "
        f"something was found in {diagnosed:,}; the slowest took {slowest[0] * 1000:.0f} ms ({slowest[1]})"
    )
    assert diagnosed > MUTANTS // 10, "most mutants are still logs"


def test_lines_of_ten_megabytes_are_read_like_others(tmp_path: Path) -> None:
    (tmp_path / "seeds").mkdir()
    known = seeds(tmp_path / "seeds", random.Random(SEED))
    for number in range(LONG_LINES):
        chance = random.Random(f"{SEED}-long-{number}")
        lines = chance.choice(chance.choice(known)).splitlines(keepends=True)
        at = chance.randrange(len(lines))
        lines[at] = (
            chance.choice((b"", lines[at].rstrip(b"\n")))
            + (lines[at].rstrip(b"\n") or b"x") * (10**7 // len(lines[at]))
            + b"\n"
        )
        data = b"".join(lines)
        examined(tmp_path, [Mutant("long.log", data, data)], chance, everything=True)


def examined(directory: Path, files: list[Mutant], chance: random.Random, *, everything: bool) -> tuple[float, int]:
    """How long one look at it took, and how much was found."""
    paths = [directory / one.name for one in files]
    for path, one in zip(paths, files, strict=True):
        path.write_bytes(one.stored)
    try:
        given = inputs([str(path) for path in paths])
        begun = time.process_time()
        found = looked_at(given, [range for task in tasks(given) for range in task])
        text = contract_is_kept(found.json())
        taken_s = time.process_time() - begun
        counts_add_up(found, files)
        evidence_stands_where_it_is_said_to(found, files)
        assert said(found) == said(cut_up(given, chance)), "however it is cut"
        assert said(found) == said(in_blocks(given, chance)), "however it is read"
        if everything:
            told_in_every_way(found)
            again = looked_at(given, [range for task in tasks(given) for range in task])
            assert contract_is_kept(again.json()) == text, "the same again"
    finally:
        for path in paths:
            path.unlink()
    return taken_s, len(found.diagnoses)


def looked_at(given: list[Input], ranges: list[Range]) -> Answer:
    return answer(gathered(given, [scan(some, KNOWN, compiled=True) for some in (ranges[::2], ranges[1::2])]), KNOWN)


def cut_up(given: list[Input], chance: random.Random) -> Answer:
    ranges = []
    for number, one in enumerate(given):
        step = max(chance.choice((60, 300, 2000)), one.size // RANGES_MAX) if not one.compression else max(one.size, 1)
        ranges += [
            Range(number, one.path, one.compression, begin, min(begin + step, one.size))
            for begin in range(0, max(one.size, 1), step)
        ]
    chance.shuffle(ranges)
    return looked_at(given, ranges)


def in_blocks(given: list[Input], chance: random.Random) -> Answer:
    whole = scanning.BLOCK_BYTES
    try:
        scanning.BLOCK_BYTES = max(chance.choice((100, 700, 5000)), max(one.size for one in given) // RANGES_MAX)
        return looked_at(given, [range for task in tasks(given) for range in task])
    finally:
        scanning.BLOCK_BYTES = whole


def said(found: Answer) -> tuple[object, ...]:
    """All of it, but for the looks of records where they are too many."""
    all_looks = not found.gathered.other_records and len(found.gathered.looks) < LOOKS_MAX
    looks = found.gathered.looks if all_looks else ()
    return json.dumps(found.json()), found.gathered.of_files, found.gathered.events, found.gathered.dropped, looks


def told_in_every_way(found: Answer) -> None:
    assert page(found)
    json.dumps(trace(found), allow_nan=False).encode()
    assert events_table(found).num_rows == len(found.gathered.events)
    screen = io.StringIO()
    show(found, Console(file=screen, width=100, emoji=False, markup=False, highlight=False))
    said = screen.getvalue()
    said.encode()
    assert all(letter.isprintable() or letter == "\n" for letter in said), "nothing that a terminal would act upon"
