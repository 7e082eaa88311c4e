"""Two jobs whose scripts name the same checkpoint location: one owns it, the other is parked before its first batch."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.command import start_cluster
from tests.harness.cluster.jobs import FIRST_BATCH_S, ClusterJobs, poll_until
from tests.harness.cluster.process_observer import kill_leftovers

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

SCRIPT = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
location, output = sys.argv[1:]
rate = spark.readStream.format("rate").load()
query = rate.writeStream.format("parquet").option("path", output).option("checkpointLocation", location).start()
query.awaitTermination()
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[ClusterJobs]:
    try:
        with (
            start_cluster(tmp_path / "c", "--nodes", "2") as up,
            ClusterJobs(tmp_path, tmp_path / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield jobs
    finally:
        kill_leftovers(tmp_path)


def last_batch(location: Path) -> int:
    commits = location / "commits"
    names = [path.name for path in commits.iterdir()] if commits.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)


def wait_for_batch_after(location: Path, batch: int) -> None:
    poll_until(lambda: last_batch(location) > batch, FIRST_BATCH_S, f"a batch after {batch} is committed")


def test_second_job_is_parked_and_the_owner_continues_undisturbed(jobs: ClusterJobs, tmp_path: Path) -> None:
    """Invariant 2: at most one driver uses a checkpoint, also before its first batch and at any location."""
    script, location = tmp_path / "copy.py", tmp_path / "shared checkpoint"
    script.write_text(SCRIPT)

    owner = jobs.submit(script, "owner", str(location), str(tmp_path / "output"))
    wait_for_batch_after(location, -1)
    pid = jobs.wait_for_phase(owner, "RUNNING")["driver_pid"]

    second = jobs.submit(script, "second", f"file://{location}/", str(tmp_path / "other output"))
    parked = jobs.wait_for_phase(second, "PARKED", timeout_s=FIRST_BATCH_S)
    assert parked["reason"] == (
        f"the checkpoint {location} belongs to the job {owner}, which is RUNNING: choose another checkpointLocation, "
        f"or run 'holdfast cancel {owner}', then run 'holdfast resume {second}'"
    )
    assert parked["attempt"] == 1
    assert not (tmp_path / "other output").exists(), "the second job wrote nothing"
    wait_for_batch_after(location, last_batch(location) + 1)
    assert (jobs[owner]["phase"], jobs[owner]["driver_pid"], jobs[owner]["attempt"]) == ("RUNNING", pid, 1)

    inside = jobs.submit(script, "inside", str(jobs.checkpoint(owner) / "query-1"), str(tmp_path / "third output"))
    assert f"belongs to the job {owner}" in jobs.wait_for_phase(inside, "PARKED", timeout_s=FIRST_BATCH_S)["reason"]

    jobs.run_ok("cancel", owner)
    jobs.wait_for_phase(owner, "CANCELLED")
    before = last_batch(location)
    jobs.run_ok("resume", second)
    wait_for_batch_after(location, before)
    assert jobs[second]["attempt"] == 2, "the second job continues the checkpoint of the ended one"
