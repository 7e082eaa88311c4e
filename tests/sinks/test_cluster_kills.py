"""Jobs that write through sinks on a real cluster, while drivers, JVMs, runners and agents are killed: each row once.

`HOLDFAST_KILLS=20 python -m pytest tests/sinks/test_cluster_kills.py` kills more often than the default of three.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.command import RunningCluster, start_cluster
from tests.harness.cluster.jobs import FIRST_BATCH_S, SPARK_CONF, AttemptProcesses, ClusterJobs, poll_until
from tests.harness.cluster.process_observer import ProcessObserver, kill_leftovers
from tests.sinks.word_windows import READERS, WordInput, expected_rows

KILLS = int(os.environ.get("HOLDFAST_KILLS", "3"))
SEED = int(os.environ.get("HOLDFAST_SEED", "0")) or random.randrange(1, 10**6)
KILL_DELAY_S_MAX = 1.5
SCRIPT = Path(__file__).parent / "scripts" / "words.py"
CONF = {
    **SPARK_CONF,
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    # Keep old batches, so that the test can detect a gap.
    "spark.sql.streaming.minBatchesToRetain": "1000",
}

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(300 + 90 * KILLS)]


class SinkCluster:
    """Cluster with its jobs and its observed processes."""

    def __init__(self, directory: Path, up: RunningCluster, jobs: ClusterJobs, observer: ProcessObserver) -> None:
        self.directory = directory
        self.up = up
        self.jobs = jobs
        self.observer = observer

    def attempt(self, job: str) -> AttemptProcesses:
        return AttemptProcesses(poll_until(lambda: self.observer.running_driver(job), FIRST_BATCH_S, f"{job} has a driver"))

    def wait_for_planned_batch(self, job: str, batch: int) -> None:
        poll_until(
            lambda: max(self.jobs.batches(job, "offsets"), default=-1) >= batch, FIRST_BATCH_S, f"{job} plans batch {batch}"
        )

    def kill(self, victim: str, job: str) -> None:
        """Kill one process. Waits for a running driver, because the job may be between two attempts."""
        attempt = self.attempt(job)
        match victim:
            case "driver":
                pid = attempt.driver.pid
            case "java":
                pid = attempt.java
            case "runner":
                pid = attempt.runner
            case _:  # the agent of the leading node
                leader = poll_until(lambda: self.jobs.leader()[0], 60, "a leader")
                pid = self.up.node(leader)["agent_pid"]
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def sink_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SinkCluster]:
    directory = tmp_path_factory.mktemp("sinks")
    try:
        with (
            start_cluster(directory / "c", "--nodes", "2") as up,
            ProcessObserver(directory) as observer,
            ClusterJobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield SinkCluster(directory, up, jobs, observer)
        leftovers = kill_leftovers(directory)
        assert not leftovers, "`holdfast down` leaves no process running"
    finally:
        kill_leftovers(directory)


@pytest.mark.parametrize("kind", ["parquet", "postgres"])
def test_cluster_job_writes_each_row_once_despite_kills(
    sink_cluster: SinkCluster, kind: str, request: pytest.FixtureRequest, tmp_path: Path, report: Callable[[str], None]
) -> None:
    output = request.getfixturevalue("dsn") if kind == "postgres" else str(tmp_path / "output")
    rng = random.Random(SEED)
    source = WordInput(tmp_path / "input", rng)
    source.add_files(1)
    arguments = ("--kind", kind, "--output", output, "--input", str(source.folder))
    # No delay after a failure, because the kills are intended.
    options = ("--restart", f"fixed:{KILLS + 5}:0s")
    job = sink_cluster.jobs.submit(SCRIPT, f"to-{kind}", *arguments, options=options, conf=CONF)
    sink_cluster.wait_for_planned_batch(job, 0)
    victims = []

    for _ in range(KILLS):
        planned = max(sink_cluster.jobs.batches(job, "offsets"))
        source.add_files(3)
        sink_cluster.wait_for_planned_batch(job, planned + rng.randrange(1, 4))
        time.sleep(rng.random() * KILL_DELAY_S_MAX)  # kill at a random moment
        victims.append(rng.choice(["driver", "java", "runner", "agent"]))
        sink_cluster.kill(victims[-1], job)

    source.close()
    spark = request.getfixturevalue("spark")
    expected = expected_rows(spark, source.folder)
    poll_until(lambda: READERS[kind](spark, output)[0] == expected, FIRST_BATCH_S, f"{len(expected)} rows", interval_s=1)
    sink_cluster.jobs.run_ok("stop", job, "--wait", timeout_s=FIRST_BATCH_S)
    rows, ids = READERS[kind](spark, output)
    attempts = sink_cluster.jobs[job]["attempt"]
    report(f"{kind}: killed {', '.join(victims)} (seed {SEED}); {attempts} attempts, {len(ids)} batches, {len(rows)} rows")
    assert rows == expected
    assert ids == list(range(len(ids)))
    assert sink_cluster.jobs.batches(job) == list(range(len(ids)))
    assert attempts == 1 + len(victims) - victims.count("agent"), "the death of an agent costs no attempt"
    assert not sink_cluster.observer.overlaps
    sink_cluster.jobs.run_ok("cancel", job, "--wait")
