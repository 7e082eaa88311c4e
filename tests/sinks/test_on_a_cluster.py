"""Jobs that write through sinks on a real cluster, while whatever keeps them running is killed: each row once.

`HOLDFAST_KILLS=20 python -m pytest tests/sinks/test_on_a_cluster.py` kills more often than a usual run does.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.command import Up, started
from tests.harness.cluster.jobs import FIRST_BATCH_S, SPARK, Attempt, Jobs, until
from tests.harness.cluster.process_witness import Sightings, sweep
from tests.sinks.windows import READERS, Input, in_one_batch

KILLS = int(os.environ.get("HOLDFAST_KILLS", "3"))
SEED = int(os.environ.get("HOLDFAST_SEED", "0")) or random.randrange(1, 10**6)
LONGEST_S = 1.5
SCRIPT = Path(__file__).parent / "scripts" / "words.py"
CONF = {
    **SPARK,
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    # Old batches stay, so that a gap among them could be seen.
    "spark.sql.streaming.minBatchesToRetain": "1000",
}

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(300 + 90 * KILLS)]


class Scene:
    def __init__(self, directory: Path, up: Up, jobs: Jobs, sightings: Sightings) -> None:
        self.directory = directory
        self.up = up
        self.jobs = jobs
        self.sightings = sightings

    def attempt(self, job: str) -> Attempt:
        return Attempt(until(lambda: self.sightings.driver(job), FIRST_BATCH_S, f"{job} has a driver"))

    def reach(self, job: str, batch: int) -> None:
        until(lambda: max(self.jobs.batches(job, "offsets"), default=-1) >= batch, FIRST_BATCH_S, f"{job} plans batch {batch}")

    def kill(self, victim: str, job: str) -> None:
        """The driver may be between two attempts: then there is nothing to be killed, and nobody is."""
        attempt = self.attempt(job)
        match victim:
            case "driver":
                pid = attempt.driver.pid
            case "java":
                pid = attempt.java
            case "runner":
                pid = attempt.runner
            case _:  # the agent of the node that leads
                leader = until(lambda: self.jobs.leader()[0], 60, "a leader")
                pid = self.up.node(leader)["agent_pid"]
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("sinks")
    try:
        with (
            started(directory / "c", "--nodes", "2") as up,
            Sightings(directory) as seen,
            Jobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield Scene(directory, up, jobs, seen)
        left = sweep(directory)
        assert not left, "down leaves nothing running"
    finally:
        sweep(directory)


@pytest.mark.parametrize("kind", ["parquet", "postgres"])
def test_a_job_of_a_cluster_writes_each_row_once_whoever_is_killed(
    scene: Scene, kind: str, request: pytest.FixtureRequest, tmp_path: Path, report: Callable[[str], None]
) -> None:
    output = request.getfixturevalue("dsn") if kind == "postgres" else str(tmp_path / "output")
    chance = random.Random(SEED)
    source = Input(tmp_path / "input", chance)
    source.add(1)
    arguments = ("--kind", kind, "--output", output, "--input", str(source.folder))
    # Without a pause after a failure: the kills are meant, and a test has no hour.
    options = ("--restart", f"fixed:{KILLS + 5}:0s")
    job = scene.jobs.submit(SCRIPT, f"to-{kind}", *arguments, options=options, conf=CONF)
    scene.reach(job, 0)
    victims = []

    for _ in range(KILLS):
        planned = max(scene.jobs.batches(job, "offsets"))
        source.add(3)
        scene.reach(job, planned + chance.randrange(1, 4))
        time.sleep(chance.random() * LONGEST_S)  # the random moment itself
        victims.append(chance.choice(["driver", "java", "runner", "agent"]))
        scene.kill(victims[-1], job)

    source.close()
    spark = request.getfixturevalue("spark")
    expected = in_one_batch(spark, source.folder)
    until(lambda: READERS[kind](spark, output)[0] == expected, FIRST_BATCH_S, f"{len(expected)} rows", every_s=1)
    scene.jobs.ok("stop", job, "--wait", timeout_s=FIRST_BATCH_S)
    rows, ids = READERS[kind](spark, output)
    attempts = scene.jobs[job]["attempt"]
    report(f"{kind}: killed {', '.join(victims)} (seed {SEED}); {attempts} attempts, {len(ids)} batches, {len(rows)} rows")
    assert rows == expected
    assert ids == list(range(len(ids)))
    assert scene.jobs.batches(job) == list(range(len(ids)))
    assert attempts == 1 + len(victims) - victims.count("agent"), "an agent that dies costs no attempt"
    assert not scene.sightings.overlaps
    scene.jobs.ok("cancel", job, "--wait")
