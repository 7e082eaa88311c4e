"""Declarative pipelines in a driver: they are monitored, stopped and reported like any other script."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cluster.streams import read_committed_lines
from tests.harness.drivers import DRIVER_TIMEOUT_S, EXAMPLES, SUBMIT_ARGUMENTS, DriverProcess
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

FILES = 40


def copy_pipeline(driver: DriverProcess) -> Path:
    """Copy the example pipeline into the code folder, as a runner unpacks it. Return the specification."""
    shutil.copytree(EXAMPLES / "pipeline", driver.code, dirs_exist_ok=True)
    return driver.code / "pipeline.yml"


def write_readings(directory: Path, files: int = FILES) -> Counter[str]:
    """Write files with one reading each. Return their lines."""
    directory.mkdir()
    lines = [json.dumps({"sensor": f"s{number % 3}", "celsius": number / 2}, separators=(",", ":")) for number in range(files)]
    for number, line in enumerate(lines):
        (directory / f"{number:04d}.json").write_text(f"{line}\n")
    return Counter(lines)


def submit_arguments(directory: Path) -> str:
    return SUBMIT_ARGUMENTS.replace("pyspark-shell", f"--conf 'spark.readings.input={directory}' pyspark-shell")


def test_pipeline_stops_at_a_batch_boundary_and_continues_to_its_end(
    attempts: Callable[[], DriverProcess], tmp_path: Path
) -> None:
    rows, conf = write_readings(tmp_path / "readings"), submit_arguments(tmp_path / "readings")
    first = attempts()
    table = first.checkpoint / "warehouse" / "readings"
    first.start(copy_pipeline(first), PYSPARK_SUBMIT_ARGS=conf)
    wait_until(lambda: (first.progress() or {}).get("batch_id") or not first.alive(), DRIVER_TIMEOUT_S, "a batch is committed")
    first.request_stop()
    assert first.wait() == 0, first.output()[-3000:]
    assert first.exit_record()["how"] == "stopped", first.output()[-3000:]
    assert first.exit_record()["reason"] == "the job stopped at a batch boundary, as requested"
    before = read_committed_lines(table)
    assert 0 < before.total() < FILES and before <= rows

    second = attempts()
    second.start(copy_pipeline(second), PYSPARK_SUBMIT_ARGS=conf)
    assert second.wait() == 0, second.output()[-3000:]
    assert second.exit_record()["how"] == "finished"
    assert read_committed_lines(table) == rows


def test_failed_pipeline_names_the_cause(driver: DriverProcess) -> None:
    file = copy_pipeline(driver)
    (file.parent / "transformations" / "hottest.sql").write_text(
        "CREATE MATERIALIZED VIEW hottest AS SELECT no_such FROM readings"
    )
    driver.start(file, PYSPARK_SUBMIT_ARGS=submit_arguments(driver.work))
    assert driver.wait() == 1
    end = driver.exit_record()
    assert (end["how"], end["condition"]) == ("failed", "UNRESOLVED_COLUMN.WITH_SUGGESTION")
    assert end["reason"].startswith(
        "the pipeline failed: Failed to resolve flow: 'spark_catalog.default.hottest': [UNRESOLVED_COL"
    )
    assert "no_such" in end["reason"]
