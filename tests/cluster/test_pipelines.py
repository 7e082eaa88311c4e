"""Declarative pipeline as a job of a real cluster, whose driver is killed in the middle."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from tests.driver.test_declarative_pipeline import FILES, write_readings
from tests.harness.cluster.command import start_cluster
from tests.harness.cluster.jobs import FIRST_BATCH_S, ClusterJobs, poll_until
from tests.harness.cluster.process_observer import ProcessObserver, kill_leftovers
from tests.harness.cluster.streams import read_committed_lines
from tests.harness.drivers import EXAMPLES

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[ClusterJobs]:
    try:
        with (
            start_cluster(tmp_path / "c", "--nodes", "1") as up,
            ClusterJobs(tmp_path, tmp_path / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield jobs
    finally:
        kill_leftovers(tmp_path)


def test_pipeline_processes_each_row_once_after_its_driver_is_killed(jobs: ClusterJobs, tmp_path: Path) -> None:
    rows = write_readings(tmp_path / "readings")
    with ProcessObserver(tmp_path) as observer:
        id = jobs.submit(
            EXAMPLES / "pipeline" / "pipeline.yml", "readings", conf={"spark.readings.input": str(tmp_path / "readings")}
        )
        done = poll_until(lambda: jobs[id]["progress"]["batch_id"], FIRST_BATCH_S, "the pipeline has completed a batch")
        assert done < FILES - 1, "the pipeline is not finished"
        os.kill(jobs[id]["driver_pid"], signal.SIGKILL)
        jobs.wait_for_phase(id, "FINISHED", timeout_s=FIRST_BATCH_S)
        assert not observer.overlaps
    assert jobs[id]["attempt"] == 2
    warehouse = jobs.checkpoint(id) / "warehouse"
    assert read_committed_lines(warehouse / "readings") == rows
    hottest = pyarrow.parquet.read_table(str(warehouse / "hottest")).to_pylist()
    expected = {f"s{sensor}": max(number for number in range(FILES) if number % 3 == sensor) / 2 for sensor in range(3)}
    assert {row["sensor"]: row["celsius"] for row in hottest} == expected
    assert sum(row["readings"] for row in hottest) == FILES
