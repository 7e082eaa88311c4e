"""A declarative pipeline as a job of a real cluster: its driver is killed in the middle, and nothing is lost or done twice."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from tests.driver.test_declarative_pipeline import FILES, readings_in
from tests.harness.cluster.command import started
from tests.harness.cluster.jobs import FIRST_BATCH_S, Jobs, until
from tests.harness.cluster.process_witness import Sightings, sweep
from tests.harness.cluster.streams import output_of
from tests.harness.drivers import EXAMPLES

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    try:
        with (
            started(tmp_path / "c", "--nodes", "1") as up,
            Jobs(tmp_path, tmp_path / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield jobs
    finally:
        sweep(tmp_path)


def test_a_pipeline_whose_driver_is_killed_has_each_row_once_when_it_is_finished(jobs: Jobs, tmp_path: Path) -> None:
    rows = readings_in(tmp_path / "readings")
    with Sightings(tmp_path) as seen:
        id = jobs.submit(
            EXAMPLES / "pipeline" / "pipeline.yml", "readings", conf={"spark.readings.input": str(tmp_path / "readings")}
        )
        done = until(lambda: jobs[id]["progress"]["batch_id"], FIRST_BATCH_S, "it has done a batch")
        assert done < FILES - 1, "it is in the middle"
        os.kill(jobs[id]["driver_pid"], signal.SIGKILL)
        jobs.in_phase(id, "FINISHED", within_s=FIRST_BATCH_S)
        assert not seen.overlaps
    assert jobs[id]["attempt"] == 2
    warehouse = jobs.checkpoint(id) / "warehouse"
    assert output_of(warehouse / "readings") == rows
    hottest = pyarrow.parquet.read_table(str(warehouse / "hottest")).to_pylist()
    expected = {f"s{sensor}": max(number for number in range(FILES) if number % 3 == sensor) / 2 for sensor in range(3)}
    assert {row["sensor"]: row["celsius"] for row in hottest} == expected
    assert sum(row["readings"] for row in hottest) == FILES
