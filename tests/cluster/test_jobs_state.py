"""Restarts of jobs with stateful queries: the checkpoint that Spark leaves passes verification, and the job continues."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.command import start_cluster
from tests.harness.cluster.jobs import FIRST_BATCH_S, SCRIPTS, ClusterJobs, poll_until
from tests.harness.cluster.process_observer import kill_leftovers

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]

PARTITIONS = {"spark.sql.shuffle.partitions": "2"}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterJobs]:
    directory = tmp_path_factory.mktemp("state")
    try:
        with (
            start_cluster(directory / "c", "--nodes", "1") as up,
            ClusterJobs(directory, up.directory / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield jobs
    finally:
        kill_leftovers(directory)


def newest_committed_batch(jobs: ClusterJobs, id: str, query: str) -> int:
    """Return the newest committed batch of a named query, or -1."""
    commits = jobs.checkpoint(id) / query / "commits"
    return max((int(path.name) for path in commits.glob("[0-9]*")), default=-1)


def wait_for_batches(jobs: ClusterJobs, id: str, after: dict[str, int], *, attempt: int) -> None:
    """Wait until this attempt runs and every query has committed a batch after the given one."""

    def done() -> bool:
        view = jobs[id]
        assert view["phase"] not in ("PARKED", "FAILED"), view["reason"]
        return view["attempt"] == attempt and all(
            newest_committed_batch(jobs, id, query) > batch for query, batch in after.items()
        )

    poll_until(done, FIRST_BATCH_S, f"attempt {attempt} commits batches after {after}")


def test_global_aggregate_and_limits_continue_after_a_kill(jobs: ClusterJobs) -> None:
    queries = ["count", "limit", "distinct_limit", "by_key"]
    id = jobs.submit(SCRIPTS / "stateful.py", "global", "--queries", ",".join(queries), conf=PARTITIONS)
    wait_for_batches(jobs, id, dict.fromkeys(queries, 0), attempt=1)
    os.kill(jobs[id]["driver_pid"], signal.SIGKILL)
    poll_until(lambda: jobs[id]["attempt"] == 2, 60, "a second attempt starts")
    wait_for_batches(jobs, id, {query: newest_committed_batch(jobs, id, query) for query in queries}, attempt=2)
    jobs.run_ok("cancel", id, "--wait")
    partitions = [
        sorted(path.name for path in (jobs.checkpoint(id) / query / "state" / "0").glob("[0-9]*")) for query in queries
    ]
    assert partitions == [["0"], ["0"], ["0"], ["0", "1"]], "Spark itself keeps one partition where there is no key"


def test_stateful_job_continues_after_its_first_batch_failed_and_was_killed(jobs: ClusterJobs, tmp_path: Path) -> None:
    attempts = tmp_path / "attempts"
    arguments = ("--queries", "by_key", "--fail-first-batch", str(attempts))
    id = jobs.submit(SCRIPTS / "stateful.py", "first-batch", *arguments, conf=PARTITIONS)
    wait_for_batches(jobs, id, {"by_key": 0}, attempt=3)
    assert attempts.read_text().split() == ["1", "2"]
    jobs.run_ok("cancel", id, "--wait")
