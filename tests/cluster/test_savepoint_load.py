"""A savepoint of a job that is busy, with a state of some hundred megabytes: how long it pauses, and what starts from it."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.harness.cluster.command import started
from tests.harness.cluster.jobs import FIRST_BATCH_S, SCRIPTS, Jobs, until
from tests.harness.cluster.process_witness import sweep

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

SCRIPT = SCRIPTS / "heavy.py"
ROWS, KEYS = 30_000, 90_000
LOADED = 5
"""Batches after which every key has its kilobyte, and some more."""
CONF = {
    "spark.driver.memory": "1g",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.shuffle.partitions": "2",
}

Line = dict[str, Any]


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    try:
        with (
            started(tmp_path / "c", "--slots", "2") as up,
            Jobs(tmp_path, tmp_path / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield jobs
    finally:
        sweep(tmp_path)


def told(output: Path) -> list[Line]:
    return [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []


def reaches(output: Path, batches: int) -> list[Line]:
    until(lambda: len(told(output)) >= batches, 2 * FIRST_BATCH_S, f"{batches} batches in {output.name}")
    return told(output)


def exact(lines: list[Line]) -> bool:
    """Every number from zero on is counted, and each once."""
    return all(
        (line["rows"], line["sum"]) == (rows, rows * (rows - 1) // 2)
        for line in lines
        for rows in ((line["batch"] + 1) * ROWS,)
    )


def test_a_busy_job_with_a_large_state_goes_on_while_it_is_copied_and_another_goes_on_from_the_copy(
    jobs: Jobs, tmp_path: Path, report: Callable[[str], None]
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    arguments = ("--rows", str(ROWS), "--keys", str(KEYS))
    job = jobs.submit(SCRIPT, "busy", "--output", str(before), *arguments, conf=CONF)
    quiet = reaches(before, LOADED)
    driver = jobs[job]["driver_pid"]
    made = json.loads(jobs.ok("savepoint", job, "--json", timeout_s=300))
    reaches(before, len(told(before)) + 2)
    assert jobs[job]["driver_pid"] == driver and made["running"]
    jobs.ok("cancel", job, "--wait")

    changed = tmp_path / "changed.py"
    changed.write_text(SCRIPT.read_text().replace("VERSION = 1", "VERSION = 2"))
    options = ("--restore", made["id"])
    jobs.submit(changed, "changed", "--output", str(after), *arguments, conf=CONF, options=options)
    lines = reaches(after, 3)
    jobs.ok("cancel", "changed", "--wait")

    first = max(made["batches"].values()) + 1
    assert [line["batch"] for line in lines[:3]] == list(range(first, first + 3))
    assert exact(told(before)) and exact(lines)
    assert {line["version"] for line in lines} == {2}
    took = [later["wall"] - earlier["wall"] for earlier, later in itertools.pairwise(told(before))]
    usual, copied = took[1 : len(quiet) - 1], took[len(quiet) - 1 :]
    report(
        f"savepoint under load: {made['bytes'] / 1e6:.0f} MB in {made['took_s']:.2f} s; a batch took "
        f"{median(usual):.1f} s before (worst {max(usual):.1f} s), and {max(copied):.1f} s at most from then on"
    )
