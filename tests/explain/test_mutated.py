"""Ten thousand mutated logs: nothing crashes, all counts add up, and the result does not depend on how a file is split.

`HOLDFAST_SEED` reproduces a run, `HOLDFAST_MUTANTS` is the number of inputs.
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

from holdfast.cli.render.diagnosis import print_answer
from holdfast.explain import range_scan
from holdfast.explain.analyze import analyze
from holdfast.explain.inputs import InputFile, find_inputs
from holdfast.explain.library import load_library
from holdfast.explain.range_scan import scan_ranges
from holdfast.explain.report.answer import Answer
from holdfast.explain.report.html import render_page
from holdfast.explain.report.parquet import events_table
from holdfast.explain.report.perfetto import perfetto_trace
from holdfast.explain.scan.ranges import ByteRange, plan_tasks
from holdfast.explain.scan.templates import TEMPLATES_PER_RANGE_MAX
from holdfast.explain.timeline.merge import merge_scans
from tests.explain.invariants import check_counts, check_json, check_positions
from tests.explain.mutations import Mutant, mutants, seeds

SEED = int(os.environ.get("HOLDFAST_SEED", "0")) or random.randrange(1, 10**6)
MUTANTS = int(os.environ.get("HOLDFAST_MUTANTS", "10000"))
RENDER_EVERY = 20
"""Every such input is also rendered in all formats."""
SLOW_S = 1.0
RANGES_MAX = 12
LONG_LINES = 5
KNOWN = load_library()

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120 + MUTANTS // 20)]


def test_mutated_logs_are_read_without_errors_and_their_counts_add_up(tmp_path: Path, report: Callable[[str], None]) -> None:
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
            taken_s, diagnoses = check_input(
                tmp_path / "logs", files, random.Random(number), everything=not number % RENDER_EVERY
            )
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


def test_lines_of_ten_megabytes_are_read(tmp_path: Path) -> None:
    (tmp_path / "seeds").mkdir()
    known = seeds(tmp_path / "seeds", random.Random(SEED))
    for number in range(LONG_LINES):
        rng = random.Random(f"{SEED}-long-{number}")
        lines = rng.choice(rng.choice(known)).splitlines(keepends=True)
        at = rng.randrange(len(lines))
        lines[at] = (
            rng.choice((b"", lines[at].rstrip(b"\n"))) + (lines[at].rstrip(b"\n") or b"x") * (10**7 // len(lines[at])) + b"\n"
        )
        data = b"".join(lines)
        check_input(tmp_path, [Mutant("long.log", data, data)], rng, everything=True)


def check_input(directory: Path, files: list[Mutant], rng: random.Random, *, everything: bool) -> tuple[float, int]:
    """Check one input; return the processor time of one analysis and the number of diagnoses."""
    paths = [directory / one.name for one in files]
    for path, one in zip(paths, files, strict=True):
        path.write_bytes(one.stored)
    try:
        inputs_found = find_inputs([str(path) for path in paths])
        begun = time.process_time()
        found = explain_ranges(inputs_found, [range for task in plan_tasks(inputs_found) for range in task])
        text = check_json(found.as_json())
        taken_s = time.process_time() - begun
        check_counts(found, files)
        check_positions(found, files)
        assert comparable(found) == comparable(explain_split(inputs_found, rng)), "however it is split"
        assert comparable(found) == comparable(explain_in_small_blocks(inputs_found, rng)), "however it is read"
        if everything:
            check_renderers(found)
            again = explain_ranges(inputs_found, [range for task in plan_tasks(inputs_found) for range in task])
            assert check_json(again.as_json()) == text, "the same again"
    finally:
        for path in paths:
            path.unlink()
    return taken_s, len(found.diagnoses)


def explain_ranges(inputs_found: list[InputFile], ranges: list[ByteRange]) -> Answer:
    return analyze(
        merge_scans(inputs_found, [scan_ranges(some, KNOWN, compiled=True) for some in (ranges[::2], ranges[1::2])]), KNOWN
    )


def explain_split(inputs_found: list[InputFile], rng: random.Random) -> Answer:
    ranges = []
    for number, one in enumerate(inputs_found):
        step = max(rng.choice((60, 300, 2000)), one.size // RANGES_MAX) if not one.compression else max(one.size, 1)
        ranges += [
            ByteRange(number, one.path, one.compression, begin, min(begin + step, one.size))
            for begin in range(0, max(one.size, 1), step)
        ]
    rng.shuffle(ranges)
    return explain_ranges(inputs_found, ranges)


def explain_in_small_blocks(inputs_found: list[InputFile], rng: random.Random) -> Answer:
    whole = range_scan.BLOCK_BYTES
    try:
        range_scan.BLOCK_BYTES = max(rng.choice((100, 700, 5000)), max(one.size for one in inputs_found) // RANGES_MAX)
        return explain_ranges(inputs_found, [range for task in plan_tasks(inputs_found) for range in task])
    finally:
        range_scan.BLOCK_BYTES = whole


def comparable(found: Answer) -> tuple[object, ...]:
    """Return all results that must not depend on splitting: templates only if all of them are counted."""
    is_complete = not found.scan.uncounted_records and len(found.scan.templates) < TEMPLATES_PER_RANGE_MAX
    templates = found.scan.templates if is_complete else ()
    answer = found.as_json()
    # A range classifies each template by its first record there, so error lines and undated records may depend on splitting.
    # Production ranges depend only on the files.
    del answer["errors"], answer["summary"], answer["complete"]
    return json.dumps(answer), found.scan.counts_by_file, found.scan.events, found.scan.dropped, templates


def check_renderers(found: Answer) -> None:
    assert render_page(found)
    json.dumps(perfetto_trace(found), allow_nan=False).encode()
    assert events_table(found).num_rows == len(found.scan.events)
    screen = io.StringIO()
    print_answer(found, Console(file=screen, width=100, emoji=False, markup=False, highlight=False))
    text = screen.getvalue()
    text.encode()
    assert all(letter.isprintable() or letter == "\n" for letter in text), "no control characters"
