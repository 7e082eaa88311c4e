"""Upgrades, savepoints and recovery of a stateful job with real Spark drivers: its totals stay exact."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.command import start_cluster
from tests.harness.cluster.jobs import FINAL_PHASES, FIRST_BATCH_S, SCRIPTS, SPARK_CONF, ClusterJobs, poll_until
from tests.harness.cluster.process_observer import kill_leftovers
from tests.harness.cluster.streams import Feeder

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
}
SCRIPT = SCRIPTS / "count.py"
BATCH_PROGRAM = """
import pathlib, sys, time
VERSION = 1
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.1)
"""


class VersionsScene:
    def __init__(self, directory: Path, jobs: ClusterJobs, feeder: Feeder) -> None:
        self.directory = directory
        self.jobs = jobs
        self.feeder = feeder

    def conf(self) -> list[str]:
        conf = {**SPARK_CONF, **ROCKSDB, "spark.local.dir": str(self.directory / "spark")}
        return list(itertools.chain.from_iterable(("--conf", f"{key}={value}") for key, value in conf.items()))

    def submit(self, name: str, *options: str, script: Path = SCRIPT, output: str | None = None) -> str:
        arguments = ("--input", str(self.feeder.directory), "--output", str(self.output(output or name)))
        command = ["submit", str(script), "--name", name, "--json", *self.conf(), *options, "--", *arguments]
        return str(json.loads(self.jobs.run_ok(*command, timeout_s=FIRST_BATCH_S))["id"])

    def id_of(self, name: str) -> str:
        return str(json.loads(self.jobs.run_ok("show", name, "--json"))["id"])

    def output(self, name: str) -> Path:
        return self.directory / f"{name}.totals"

    def read_totals(self, name: str) -> list[dict[str, Any]]:
        file = self.output(name)
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def wait_for_batch(self, name: str, *, matching: Callable[[dict[str, Any]], bool] = lambda _: True) -> None:
        known = len(self.read_totals(name))
        poll_until(
            lambda: any(matching(line) for line in self.read_totals(name)[known:]),
            FIRST_BATCH_S,
            f"{name} completes another batch",
        )

    def wait_for_exact_totals(self, name: str) -> None:
        """Wait until the job has read all input, and check that each row is counted once."""
        with self.feeder.pause() as rows:
            numbers = [int(row.split()[1]) for row in rows]
            expected = (len(numbers), sum(numbers))

            def caught_up() -> bool:
                lines = self.read_totals(name)
                return bool(lines) and (lines[-1]["rows"], lines[-1]["sum"]) == expected

            poll_until(caught_up, FIRST_BATCH_S, f"the totals of {name} are {expected}")

    def check_each_batch_once(self, name: str) -> None:
        """Check that batches are contiguous and not repeated."""
        batches = [line["batch"] for line in self.read_totals(name)]
        assert batches == list(range(len(batches))), batches

    def write_version(self, text: str) -> Path:
        """Write another version of the script."""
        file = self.directory / f"count{abs(hash(text))}.py"
        file.write_text(text)
        return file


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VersionsScene]:
    directory = tmp_path_factory.mktemp("versions")
    try:
        with (
            start_cluster(directory / "c", "--slots", "4") as up,
            Feeder(directory / "in") as feeder,
            ClusterJobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield VersionsScene(directory, jobs, feeder)
        leftovers = kill_leftovers(directory)
        assert not leftovers, "down leaves no process running"
    finally:
        kill_leftovers(directory)


@pytest.fixture
def counting(scene: VersionsScene, request: pytest.FixtureRequest) -> Iterator[str]:
    """Start a job and yield its name. Cancel all jobs that contain the name afterwards."""
    name = f"c{abs(hash(request.node.name)) % 10**8}"
    scene.submit(name)
    scene.wait_for_batch(name)
    yield name
    for id, job in scene.jobs.list_jobs().items():
        if name in job["name"] and job["phase"] not in FINAL_PHASES:
            scene.jobs.run_ok("cancel", id, "--wait")


def test_broken_version_is_rolled_back_without_losing_rows(scene: VersionsScene, counting: str) -> None:
    broken = scene.write_version(SCRIPT.read_text().replace("VERSION = 1", "VERSION = 1 / 0"))
    done = scene.jobs.run("upgrade", counting, str(broken), "--wait", timeout_s=FIRST_BATCH_S)
    assert done.returncode == 1
    sentence = "version 2 failed before its first batch: the script failed: ZeroDivisionError: division by zero"
    assert sentence in done.stderr and "rolled back to version 1" in done.stderr
    scene.wait_for_batch(counting)
    assert any(event["reason"].startswith(sentence) for event in scene.jobs.events(counting))
    scene.wait_for_exact_totals(counting)
    scene.check_each_batch_once(counting)
    assert {line["version"] for line in scene.read_totals(counting)} == {1}


def test_version_without_a_batch_in_time_is_rolled_back(scene: VersionsScene, counting: str) -> None:
    stuck = scene.write_version(SCRIPT.read_text().replace("VERSION = 1", "import time\nVERSION = 9\ntime.sleep(600)"))
    done = scene.jobs.run("upgrade", counting, str(stuck), "--within", "15s", "--wait", timeout_s=FIRST_BATCH_S)
    assert done.returncode == 1
    assert "failed before its first batch: it completed no batch within 15 s; rolled back to version 1" in done.stderr
    scene.wait_for_batch(counting)
    scene.wait_for_exact_totals(counting)


def test_batch_program_that_runs_longer_than_its_trial_keeps_its_new_version(scene: VersionsScene) -> None:
    permission = scene.directory / "permission"
    id = scene.jobs.submit(scene.write_version(BATCH_PROGRAM), "batch", str(permission), spark=False)
    scene.jobs.wait_for_phase(id, "RUNNING", timeout_s=FIRST_BATCH_S)
    changed = scene.write_version(BATCH_PROGRAM.replace("VERSION = 1", "VERSION = 2"))
    scene.jobs.run_ok("upgrade", id, str(changed), "--within", "20s", "--wait", timeout_s=FIRST_BATCH_S)
    view = scene.jobs[id]
    assert (view["phase"], view["attempt"]) == ("RUNNING", 2), view
    permission.touch()
    scene.jobs.wait_for_phase(id, "FINISHED")
    assert not [event for event in scene.jobs.events(id) if "rolled back" in event["reason"]]


def test_upgrade_continues_without_gaps_or_repeats(scene: VersionsScene, counting: str) -> None:
    better = scene.write_version(SCRIPT.read_text().replace("VERSION = 1", "VERSION = 2"))
    scene.jobs.run_ok("upgrade", counting, str(better), "--wait", timeout_s=FIRST_BATCH_S)
    scene.wait_for_batch(counting, matching=lambda line: line["version"] == 2)
    scene.wait_for_exact_totals(counting)
    scene.check_each_batch_once(counting)
    shown = json.loads(scene.jobs.run_ok("show", counting, "--json"))
    assert [version["version"] for version in shown["versions"]] == [1, 2]
    assert "@" in shown["versions"][1]["by"]


def test_savepoint_of_a_running_job_starts_another_job_with_changed_code(
    scene: VersionsScene, counting: str, report: Callable[[str], None]
) -> None:
    before = json.loads(scene.jobs.run_ok("show", counting, "--json"))
    made = json.loads(scene.jobs.run_ok("savepoint", counting, "--json"))
    report(f"savepoint of a running job: {made['bytes'] / 1e6:.1f} MB in {made['took_s']:.2f} s; the job was not paused")
    other = scene.write_version(SCRIPT.read_text().replace("VERSION = 1", "VERSION = 7"))
    branch = f"{counting}-branch"
    scene.submit(branch, "--restore", made["id"], script=other)
    scene.wait_for_batch(branch, matching=lambda line: line["version"] == 7)
    assert scene.read_totals(branch)[0]["batch"] == made["batches"][""] + 1
    scene.wait_for_exact_totals(branch)
    scene.wait_for_exact_totals(counting)
    assert made["running"] and scene.jobs[before["id"]]["driver_pid"] == before["driver_pid"]


def test_one_command_replaces_a_live_job_and_its_resurrected_copy(scene: VersionsScene, counting: str) -> None:
    """Perform the recovery that incident 001 needed."""
    live, resurrected = scene.id_of(counting), scene.submit(f"{counting}-resurrected")
    scene.wait_for_batch(f"{counting}-resurrected")
    replaced = ("--restore", counting, "--instead-of", counting, "--instead-of", f"{counting}-resurrected")
    fresh = scene.submit(counting, *replaced)
    assert scene.jobs[live]["phase"] == scene.jobs[resurrected]["phase"] == "CANCELLED"
    scene.wait_for_batch(counting, matching=lambda line: line["job"] == fresh)
    scene.wait_for_exact_totals(counting)
    scene.check_each_batch_once(counting)


def test_new_job_continues_from_a_failed_job(scene: VersionsScene) -> None:
    write = "    with open(ctx.args.output"
    text = SCRIPT.read_text().replace(write, f'    assert number < 3, "on purpose"\n{write}')
    failing = scene.submit("failing", "--restart", "never", script=scene.write_version(text))
    poll_until(lambda: scene.jobs[failing]["phase"] == "FAILED", FIRST_BATCH_S, "the job fails")
    scene.submit("mended", "--restore", failing, output="failing")
    scene.wait_for_batch("failing")
    scene.wait_for_exact_totals("failing")
    scene.check_each_batch_once("failing")
    scene.jobs.run_ok("cancel", "mended", "--wait")
