"""A declarative pipeline in a driver: it is watched, stopped and told of like any other script."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cluster.streams import output_of
from tests.harness.drivers import CONF, EXAMPLES, WITHIN_S, Driver
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

FILES = 40


def laid_out(driver: Driver) -> Path:
    """As a runner unpacks it."""
    shutil.copytree(EXAMPLES / "pipeline", driver.code, dirs_exist_ok=True)
    return driver.code / "pipeline.yml"


def readings_in(directory: Path, files: int = FILES) -> Counter[str]:
    """Some files, and the lines that are in them."""
    directory.mkdir()
    lines = [json.dumps({"sensor": f"s{number % 3}", "celsius": number / 2}, separators=(",", ":")) for number in range(files)]
    for number, line in enumerate(lines):
        (directory / f"{number:04d}.json").write_text(f"{line}\n")
    return Counter(lines)


def reading_from(directory: Path) -> str:
    return CONF.replace("pyspark-shell", f"--conf 'spark.readings.input={directory}' pyspark-shell")


def test_a_pipeline_stops_at_a_batch_boundary_and_goes_on_to_its_end(attempts: Callable[[], Driver], tmp_path: Path) -> None:
    rows, conf = readings_in(tmp_path / "readings"), reading_from(tmp_path / "readings")
    first = attempts()
    table = first.checkpoint / "warehouse" / "readings"
    first.start(laid_out(first), PYSPARK_SUBMIT_ARGS=conf)
    eventually(lambda: (first.progress() or {}).get("batch_id") or not first.alive(), WITHIN_S, "a batch is done")
    first.ask_to_stop()
    assert first.wait() == 0, first.output()[-3000:]
    assert first.end()["how"] == "stopped", first.output()[-3000:]
    assert first.end()["reason"] == "it stopped at a batch boundary, as asked"
    before = output_of(table)
    assert 0 < before.total() < FILES and before <= rows

    second = attempts()
    second.start(laid_out(second), PYSPARK_SUBMIT_ARGS=conf)
    assert second.wait() == 0, second.output()[-3000:]
    assert second.end()["how"] == "finished"
    assert output_of(table) == rows


def test_a_pipeline_that_fails_says_of_what(driver: Driver) -> None:
    file = laid_out(driver)
    (file.parent / "transformations" / "hottest.sql").write_text(
        "CREATE MATERIALIZED VIEW hottest AS SELECT no_such FROM readings"
    )
    driver.start(file, PYSPARK_SUBMIT_ARGS=reading_from(driver.work))
    assert driver.wait() == 1
    end = driver.end()
    assert (end["how"], end["condition"]) == ("failed", "UNRESOLVED_COLUMN.WITH_SUGGESTION")
    assert end["reason"].startswith(
        "its pipeline failed: Failed to resolve flow: 'spark_catalog.default.hottest': [UNRESOLVED_COL"
    )
    assert "no_such" in end["reason"]
