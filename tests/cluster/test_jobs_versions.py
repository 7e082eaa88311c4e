"""Upgrades, savepoints and recoveries of a job with state, with real Spark drivers: totals go on exactly."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.command import started
from tests.harness.cluster.jobs import ENDED, FIRST_BATCH_S, SCRIPTS, SPARK, Jobs, until
from tests.harness.cluster.process_witness import sweep
from tests.harness.cluster.streams import Feeder

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
}
SCRIPT = SCRIPTS / "count.py"


class Scene:
    def __init__(self, directory: Path, jobs: Jobs, feeder: Feeder) -> None:
        self.directory = directory
        self.jobs = jobs
        self.feeder = feeder

    def conf(self) -> list[str]:
        conf = {**SPARK, **ROCKSDB, "spark.local.dir": str(self.directory / "spark")}
        return list(itertools.chain.from_iterable(("--conf", f"{key}={value}") for key, value in conf.items()))

    def submit(self, name: str, *options: str, script: Path = SCRIPT, output: str | None = None) -> str:
        arguments = ("--input", str(self.feeder.directory), "--output", str(self.output(output or name)))
        command = ["submit", str(script), "--name", name, "--json", *self.conf(), *options, "--", *arguments]
        return str(json.loads(self.jobs.ok(*command, timeout_s=FIRST_BATCH_S))["id"])

    def id_of(self, name: str) -> str:
        return str(json.loads(self.jobs.ok("show", name, "--json"))["id"])

    def output(self, name: str) -> Path:
        return self.directory / f"{name}.totals"

    def told(self, name: str) -> list[dict[str, Any]]:
        file = self.output(name)
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def advances(self, name: str, *, by: Callable[[dict[str, Any]], bool] = lambda _: True) -> None:
        seen = len(self.told(name))
        until(lambda: any(by(line) for line in self.told(name)[seen:]), FIRST_BATCH_S, f"{name} makes another batch")

    def right(self, name: str) -> None:
        """Once it has read all there is: every row is counted, and each once."""
        with self.feeder.resting() as rows:
            numbers = [int(row.split()[1]) for row in rows]
            expected = (len(numbers), sum(numbers))

            def caught_up() -> bool:
                lines = self.told(name)
                return bool(lines) and (lines[-1]["rows"], lines[-1]["sum"]) == expected

            until(caught_up, FIRST_BATCH_S, f"the totals of {name} are {expected}")

    def once(self, name: str) -> None:
        """Each batch, in order, without a gap or a repeat."""
        batches = [line["batch"] for line in self.told(name)]
        assert batches == list(range(len(batches))), batches

    def version(self, text: str) -> Path:
        """Another program."""
        file = self.directory / f"count{abs(hash(text))}.py"
        file.write_text(text)
        return file


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("versions")
    try:
        with (
            started(directory / "c", "--slots", "4") as up,
            Feeder(directory / "in") as feeder,
            Jobs(directory, directory / "c" / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield Scene(directory, jobs, feeder)
        left = sweep(directory)
        assert not left, "down leaves nothing running"
    finally:
        sweep(directory)


@pytest.fixture
def counting(scene: Scene, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a job that runs; nothing of that name, or with it in its name, runs afterwards."""
    name = f"c{abs(hash(request.node.name)) % 10**8}"
    scene.submit(name)
    scene.advances(name)
    yield name
    for id, job in scene.jobs.listed().items():
        if name in job["name"] and job["phase"] not in ENDED:
            scene.jobs.ok("cancel", id, "--wait")


def test_a_version_that_is_broken_makes_room_for_the_one_before_and_no_row_is_lost(scene: Scene, counting: str) -> None:
    broken = scene.version(SCRIPT.read_text().replace("VERSION = 1", "VERSION = 1 / 0"))
    done = scene.jobs.run("upgrade", counting, str(broken), "--wait", timeout_s=FIRST_BATCH_S)
    assert done.returncode == 1
    sentence = "version 2 did not come to its first batch: its script failed: ZeroDivisionError: division by zero"
    assert sentence in done.stderr and "version 1 is back" in done.stderr
    scene.advances(counting)
    assert any(event["reason"].startswith(sentence) for event in scene.jobs.events(counting))
    scene.right(counting)
    scene.once(counting)
    assert {line["version"] for line in scene.told(counting)} == {1}


def test_a_version_that_makes_no_batch_in_time_makes_room_as_well(scene: Scene, counting: str) -> None:
    stuck = scene.version(SCRIPT.read_text().replace("VERSION = 1", "import time\nVERSION = 9\ntime.sleep(600)"))
    done = scene.jobs.run("upgrade", counting, str(stuck), "--within", "15s", "--wait", timeout_s=FIRST_BATCH_S)
    assert done.returncode == 1
    assert "did not come to its first batch: 15 s were not enough for it; version 1 is back" in done.stderr
    scene.advances(counting)
    scene.right(counting)


def test_a_good_version_goes_on_without_a_gap_or_a_repeat(scene: Scene, counting: str) -> None:
    better = scene.version(SCRIPT.read_text().replace("VERSION = 1", "VERSION = 2"))
    scene.jobs.ok("upgrade", counting, str(better), "--wait", timeout_s=FIRST_BATCH_S)
    scene.advances(counting, by=lambda line: line["version"] == 2)
    scene.right(counting)
    scene.once(counting)
    shown = json.loads(scene.jobs.ok("show", counting, "--json"))
    assert [version["version"] for version in shown["versions"]] == [1, 2]
    assert "@" in shown["versions"][1]["by"]


def test_a_savepoint_of_a_running_job_starts_another_with_changed_code(
    scene: Scene, counting: str, report: Callable[[str], None]
) -> None:
    before = json.loads(scene.jobs.ok("show", counting, "--json"))
    made = json.loads(scene.jobs.ok("savepoint", counting, "--json"))
    report(f"savepoint of a running job: {made['bytes'] / 1e6:.1f} MB in {made['took_s']:.2f} s; the job was not paused")
    other = scene.version(SCRIPT.read_text().replace("VERSION = 1", "VERSION = 7"))
    branch = f"{counting}-branch"
    scene.submit(branch, "--restore", made["id"], script=other)
    scene.advances(branch, by=lambda line: line["version"] == 7)
    assert scene.told(branch)[0]["batch"] == made["batches"][""] + 1
    scene.right(branch)
    scene.right(counting)
    assert made["running"] and scene.jobs[before["id"]]["driver_pid"] == before["driver_pid"]


def test_a_live_job_and_a_resurrected_one_are_replaced_by_one_command(scene: Scene, counting: str) -> None:
    """Incident 001's recovery."""
    live, resurrected = scene.id_of(counting), scene.submit(f"{counting}-resurrected")
    scene.advances(f"{counting}-resurrected")
    replaced = ("--restore", counting, "--instead-of", counting, "--instead-of", f"{counting}-resurrected")
    fresh = scene.submit(counting, *replaced)
    assert scene.jobs[live]["phase"] == scene.jobs[resurrected]["phase"] == "CANCELLED"
    scene.advances(counting, by=lambda line: line["job"] == fresh)
    scene.right(counting)
    scene.once(counting)


def test_a_failed_job_is_gone_on_from(scene: Scene) -> None:
    write = "    with open(ctx.args.output"
    text = SCRIPT.read_text().replace(write, f'    assert number < 3, "on purpose"\n{write}')
    failing = scene.submit("failing", "--restart", "never", script=scene.version(text))
    until(lambda: scene.jobs[failing]["phase"] == "FAILED", FIRST_BATCH_S, "it fails")
    scene.submit("mended", "--restore", failing, output="failing")
    scene.advances("failing")
    scene.right("failing")
    scene.once("failing")
    scene.jobs.ok("cancel", "mended", "--wait")
