"""Savepoint of a busy job with a state of some hundred megabytes: duration, and a start from the savepoint."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.harness.cluster.command import start_cluster
from tests.harness.cluster.jobs import FIRST_BATCH_S, SCRIPTS, ClusterJobs, poll_until
from tests.harness.cluster.process_observer import kill_leftovers

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

SCRIPT = SCRIPTS / "heavy.py"
ROWS, KEYS = 30_000, 90_000
WARM_UP_BATCHES = 5
"""Batches after which the state holds a kilobyte for every key."""
CONF = {
    "spark.driver.memory": "1g",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.shuffle.partitions": "2",
}

Line = dict[str, Any]


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[ClusterJobs]:
    try:
        with (
            start_cluster(tmp_path / "c", "--slots", "2") as up,
            ClusterJobs(tmp_path, tmp_path / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield jobs
    finally:
        kill_leftovers(tmp_path)


def read_totals(output: Path) -> list[Line]:
    return [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []


def wait_for_batches(output: Path, batches: int) -> list[Line]:
    poll_until(lambda: len(read_totals(output)) >= batches, 2 * FIRST_BATCH_S, f"{batches} batches in {output.name}")
    return read_totals(output)


def are_totals_exact(lines: list[Line]) -> bool:
    """Return True if each number from zero on is counted exactly once."""
    return all(
        (line["rows"], line["sum"]) == (rows, rows * (rows - 1) // 2)
        for line in lines
        for rows in ((line["batch"] + 1) * ROWS,)
    )


def test_busy_job_continues_during_a_savepoint_and_another_job_starts_from_it(
    jobs: ClusterJobs, tmp_path: Path, report: Callable[[str], None]
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    arguments = ("--rows", str(ROWS), "--keys", str(KEYS))
    job = jobs.submit(SCRIPT, "busy", "--output", str(before), *arguments, conf=CONF)
    warm_up = wait_for_batches(before, WARM_UP_BATCHES)
    driver = jobs[job]["driver_pid"]
    made = json.loads(jobs.run_ok("savepoint", job, "--json", timeout_s=300))
    wait_for_batches(before, len(read_totals(before)) + 2)
    assert jobs[job]["driver_pid"] == driver and made["running"]
    jobs.run_ok("cancel", job, "--wait")

    changed = tmp_path / "changed.py"
    changed.write_text(SCRIPT.read_text().replace("VERSION = 1", "VERSION = 2"))
    options = ("--restore", made["id"])
    jobs.submit(changed, "changed", "--output", str(after), *arguments, conf=CONF, options=options)
    lines = wait_for_batches(after, 3)
    jobs.run_ok("cancel", "changed", "--wait")

    first = max(made["batches"].values()) + 1
    assert [line["batch"] for line in lines[:3]] == list(range(first, first + 3))
    assert are_totals_exact(read_totals(before)) and are_totals_exact(lines)
    assert {line["version"] for line in lines} == {2}
    durations = [later["wall"] - earlier["wall"] for earlier, later in itertools.pairwise(read_totals(before))]
    before_savepoint, after_savepoint = durations[1 : len(warm_up) - 1], durations[len(warm_up) - 1 :]
    report(
        f"savepoint under load: {made['bytes'] / 1e6:.0f} MB in {made['took_s']:.2f} s; a batch took "
        f"{median(before_savepoint):.1f} s before (worst {max(before_savepoint):.1f} s), "
        f"and {max(after_savepoint):.1f} s at most from then on"
    )
