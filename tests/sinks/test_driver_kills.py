"""Stateful job whose driver is killed repeatedly while it writes: its output equals that of one batch over the same input.

`HOLDFAST_KILLS=20 python -m pytest tests/sinks/test_driver_kills.py` kills more often than the default of three.
`HOLDFAST_SEED` repeats the input and, as far as timing allows, the moments of the kills.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

from tests.harness.drivers import DRIVER_TIMEOUT_S, SRC, SUBMIT_ARGUMENTS, DriverProcess, list_batches
from tests.harness.waiting import wait_until
from tests.sinks.sink_kinds import DELTA_CONF, KINDS
from tests.sinks.word_windows import COUNTERS, READERS, WordInput, expected_rows

KILLS = int(os.environ.get("HOLDFAST_KILLS", "3"))
SEED = int(os.environ.get("HOLDFAST_SEED", "0")) or random.randrange(1, 10**6)
FILES_PER_ATTEMPT = 3
"""New input files for each attempt."""
BATCH_S = 10.0
"""Time limit for one batch of the final attempt on a busy machine."""
TARGETED_KILL_SHARE = 0.4
"""Share of kills right after the sink has written a batch, a moment that random kills rarely hit."""
KILL_DELAY_S_MAX = 1.5
"""Longest random delay before a kill: at least the duration of a batch."""
LEFTOVERS_CONF = {"spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false"}
"""A kill can leave a temporary file in a new checkpoint, with which Spark refuses to start. These drivers have no runner, which
would move it aside."""
SCRIPT = Path(__file__).parent / "scripts" / "windows.py"

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(120 + 60 * KILLS)]


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Kind of sink and location of its output."""
    return request.param, request.getfixturevalue("dsn") if request.param == "postgres" else str(tmp_path / "output")


@pytest.fixture
def attempts(tmp_path: Path) -> Iterator[Callable[[], DriverProcess]]:
    started: list[DriverProcess] = []

    def attempt() -> DriverProcess:
        started.append(DriverProcess(tmp_path / "home", number=len(started) + 1))
        return started[-1]

    yield attempt
    for driver in started:
        driver.kill()


def driver_variables(kind: str) -> dict[str, str]:
    """Return variables that give drivers the Spark of this process, with the settings for this kind of sink."""
    paths = [SRC, SRC.parent, Path(pyspark.__file__).parents[1]]
    conf = [f"--conf {name}={value}" for name, value in {**LEFTOVERS_CONF, **(DELTA_CONF if kind == "delta" else {})}.items()]
    home = {"HOME": str(Path.home())} if kind == "delta" else {}  # Ivy's cache of downloaded jars
    return {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PYSPARK_SUBMIT_ARGS": " ".join([*conf, SUBMIT_ARGUMENTS]), **home}


def wait_for_written_batch(kind: str, output: str, driver: DriverProcess) -> None:
    """Wait until the sink has written one more batch. A kill before Spark's commit makes the next attempt skip it."""
    count, before = COUNTERS[kind], COUNTERS[kind](output)
    wait_until(lambda: count(output) > before or not driver.alive(), DRIVER_TIMEOUT_S, f"a batch after {before}", every_s=0.001)


def failure_details(driver: DriverProcess) -> str:
    """Return the seed, all error lines of a driver's log, and its last lines."""
    log = driver.output()
    causes = [line for line in log.splitlines() if "Caused by" in line or "Exception: " in line]
    return "\n".join([f"seed {SEED}", *causes, log[-3000:]])


def newest_planned_batch(driver: DriverProcess) -> int:
    """Return the id of the newest planned batch, or -1."""
    return max(list_batches(driver.checkpoint / "offsets"), default=-1)


def wait_for_more_batches(driver: DriverProcess, *, further: int) -> None:
    """Wait until `further` more batches are planned; 0 returns immediately, possibly before the query has started."""
    goal = newest_planned_batch(driver) + further
    wait_until(lambda: newest_planned_batch(driver) >= goal or not driver.alive(), DRIVER_TIMEOUT_S, f"batch {goal}")


def test_output_equals_that_of_one_batch_after_many_driver_kills(
    target: tuple[str, str],
    attempts: Callable[[], DriverProcess],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    report: Callable[[str], None],
) -> None:
    kind, output = target
    rng = random.Random(SEED)
    source = WordInput(tmp_path / "input", rng)
    arguments = ["--kind", kind, "--output", output, "--input", str(source.folder)]
    variables = driver_variables(kind)
    skipped, reached = 0, []

    for _ in range(KILLS):
        source.add_files(FILES_PER_ATTEMPT)
        driver = attempts().start(SCRIPT, *arguments, **variables)
        driver.wait_for_output("SPARK IS UP")
        if rng.random() < TARGETED_KILL_SHARE:
            wait_for_written_batch(kind, output, driver)
        else:
            wait_for_more_batches(driver, further=rng.randrange(FILES_PER_ATTEMPT))
            time.sleep(rng.random() * KILL_DELAY_S_MAX)  # kill at a random moment
        assert driver.alive(), failure_details(driver)
        driver.kill()
        reached.append(newest_planned_batch(driver))
        skipped += driver.output().count("skipping batch")

    source.close()
    last = attempts().start(SCRIPT, *arguments, "--final", **variables)
    assert last.wait(DRIVER_TIMEOUT_S + KILLS * FILES_PER_ATTEMPT * BATCH_S) == 0, failure_details(last)
    skipped += last.output().count("skipping batch")

    spark = request.getfixturevalue("spark")
    rows, ids = READERS[kind](spark, output)
    committed = list_batches(last.checkpoint / "commits")
    report(
        f"{kind}: {KILLS} kills (seed {SEED}), at batches {reached}; {len(ids)} batches, {len(rows)} rows, {skipped} repeated "
        f"batches skipped"
    )
    assert rows == expected_rows(spark, source.folder)
    assert ids == list(range(len(ids))) and ids[-1] == committed[-1]
