"""Jobs whose state has schema files that Spark names by absolute paths continue from a copy after the original is deleted."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.client.checkpoints import judge_location
from tests.harness.cluster.command import start_cluster
from tests.harness.cluster.jobs import FIRST_BATCH_S, SCRIPTS, ClusterJobs, poll_until
from tests.harness.cluster.process_observer import kill_leftovers
from tests.oracle.scene import add_steps, step_rows

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

SCRIPT = SCRIPTS / "named_schemas.py"
STEPS_BEFORE, STEPS_RESTORED, STEPS_RESUMED = 3, 6, 8
TIMER_MS = 210_000
Rows = Counter[str]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterJobs]:
    directory = tmp_path_factory.mktemp("restored")
    try:
        with (
            start_cluster(directory / "c", "--nodes", "1") as up,
            ClusterJobs(directory, up.directory / "storage", "--dir", str(up.directory)) as jobs,
        ):
            yield jobs
    finally:
        kill_leftovers(directory)


def written_rows(output: Path) -> list[dict[str, object]]:
    files = sorted(output.glob("*.json"), key=lambda file: int(file.stem))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def newest_totals(output: Path) -> Rows:
    """Return the newest row of each key, and each timer that has expired."""
    rows = written_rows(output)
    newest = {row["key"]: row for row in rows if row["count"] != -1}
    return Counter(json.dumps(row) for row in [*newest.values(), *(row for row in rows if row["count"] == -1)])


def expected_totals(steps: int, *, timers: bool) -> Rows:
    numbers = [row for step in range(steps) for row in step_rows(step)]
    rows: list[dict[str, object]] = []
    for key in "abc":
        own = [int(str(row["n"])) for row in numbers if row["key"] == key]
        rows.append({"key": key, "count": len(own), "listed": len(own), "total": sum(own)})
        if timers and steps >= STEPS_RESTORED:
            rows.append({"key": key, "count": -1, "listed": 1_767_225_600_000 + TIMER_MS, "total": 0})
    return Counter(map(json.dumps, rows))


def expected_pairs(steps: int) -> Rows:
    rows = [row for step in range(steps - 1) for row in step_rows(step)]
    return Counter(json.dumps({"n": row["n"], "m": row["n"], "key": row["key"]}) for row in rows)


def written_pairs(output: Path) -> Rows:
    return Counter(map(json.dumps, written_rows(output)))


KINDS: dict[str, tuple[Callable[[Path], Rows], Callable[[int], Rows]]] = {
    "transform": (newest_totals, lambda steps: expected_totals(steps, timers=True)),
    "pandas": (newest_totals, lambda steps: expected_totals(steps, timers=False)),
    "join": (written_pairs, expected_pairs),
}


def schema_paths(checkpoint: Path) -> set[str]:
    files = [file for file in checkpoint.glob("*/state/*/_metadata/v2/*") if file.name.isdigit()]
    stores = [json.loads(file.read_text().partition("\n")[2])["stateStoreInfo"] for file in files]
    return {path for each in stores for store in each for path in store["stateSchemaFilePaths"]}


@pytest.mark.parametrize(
    ("kind", "source"), [("transform", "savepoint"), ("pandas", "savepoint"), ("join", "savepoint"), ("transform", "job")]
)
def test_job_continues_from_a_copy_after_the_original_checkpoint_is_deleted(
    jobs: ClusterJobs, tmp_path: Path, kind: str, source: str
) -> None:
    read_rows, expected = KINDS[kind]
    output = tmp_path / "out"
    output.mkdir()
    arguments = ("--kind", kind, "--input", str(tmp_path / "in"), "--output", str(output))

    def wait_until_exact(job: str, steps: int) -> None:
        def is_exact() -> bool:
            assert jobs[job]["phase"] not in ("PARKED", "FAILED"), jobs[job]["reason"]
            return read_rows(output) == expected(steps)

        poll_until(is_exact, FIRST_BATCH_S, f"exact rows of {steps} steps")

    add_steps(tmp_path / "in", 0, STEPS_BEFORE)
    original = jobs.submit(SCRIPT, f"{kind}-{source}", *arguments)
    wait_until_exact(original, STEPS_BEFORE)
    jobs.run_ok("stop", original, "--wait")
    restore = json.loads(jobs.run_ok("savepoint", original, "--json"))["id"] if source == "savepoint" else original
    jobs.run_ok("cancel", original, "--wait")
    if source == "savepoint":
        shutil.rmtree(jobs.checkpoint(original))
    add_steps(tmp_path / "in", STEPS_BEFORE, STEPS_RESTORED)
    restored = jobs.submit(SCRIPT, f"{kind}-{source}-restored", *arguments, options=("--restore", restore))
    if source == "job":
        shutil.rmtree(jobs.checkpoint(original))  # the copy is complete before the job is submitted
    wait_until_exact(restored, STEPS_RESTORED)
    jobs.run_ok("stop", restored, "--wait")
    add_steps(tmp_path / "in", STEPS_RESTORED, STEPS_RESUMED)
    jobs.run_ok("resume", restored, "--wait")
    wait_until_exact(restored, STEPS_RESUMED)
    jobs.run_ok("cancel", restored, "--wait")

    assert not jobs.checkpoint(original).exists(), "Spark created nothing at the old location"
    checkpoint = jobs.checkpoint(restored)
    paths = schema_paths(checkpoint)
    assert paths and all(path.startswith(f"file:{checkpoint}/totals/state/0/_stateSchema/") for path in paths)
    assert [report.verdict for report in judge_location(str(checkpoint))] == ["whole"]
