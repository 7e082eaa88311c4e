"""A job with state, SIGKILLed again and again while it writes: its output is that of one undisturbed batch over the same input.

`HOLDFAST_KILLS=20 python -m pytest tests/sinks/test_kills.py` kills more often than the three times of a usual run, and
`HOLDFAST_SEED` chooses the same input and the same moments, as far as a machine can repeat them.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

from tests.harness.drivers import CONF, SRC, WITHIN_S, Driver, batches
from tests.harness.waiting import eventually
from tests.sinks.kinds import DELTA_CONF, KINDS
from tests.sinks.windows import COUNTERS, READERS, Input, in_one_batch

KILLS = int(os.environ.get("HOLDFAST_KILLS", "3"))
SEED = int(os.environ.get("HOLDFAST_SEED", "0")) or random.randrange(1, 10**6)
FILES = 3
"""New input for each attempt."""
BATCH_S = 10.0
"""What a batch may take at the end, when both cores are busy."""
AIMED = 0.4
"""How many of the kills come right after a batch has taken effect: by chance, that moment is hardly ever hit."""
LONGEST_S = 1.5
"""From the last batch that is waited for until the kill: as long as a batch takes, or longer."""
SCRIPT = Path(__file__).parent / "scripts" / "windows.py"

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(120 + 60 * KILLS)]


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A kind of sink, and where its output is."""
    return request.param, request.getfixturevalue("dsn") if request.param == "postgres" else str(tmp_path / "output")


@pytest.fixture
def attempts(tmp_path: Path) -> Iterator[Callable[[], Driver]]:
    started: list[Driver] = []

    def attempt() -> Driver:
        started.append(Driver(tmp_path / "home", number=len(started) + 1))
        return started[-1]

    yield attempt
    for driver in started:
        driver.kill()


def environment(kind: str) -> dict[str, str]:
    """The Spark of this process for the drivers, too, and what it needs for this kind."""
    paths = [SRC, SRC.parent, Path(pyspark.__file__).parents[1]]
    conf = [f"--conf {name}={value}" for name, value in DELTA_CONF.items()] if kind == "delta" else []
    home = {"HOME": str(Path.home())} if kind == "delta" else {}  # where its jars are kept once they are fetched
    return {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PYSPARK_SUBMIT_ARGS": " ".join([*conf, CONF]), **home}


def wait_for_a_batch_in(kind: str, output: str, driver: Driver) -> None:
    """Until the sink has taken one more, which Spark hears a moment later: the batch that will have to be skipped."""
    count, before = COUNTERS[kind], COUNTERS[kind](output)
    eventually(lambda: count(output) > before or not driver.alive(), WITHIN_S, f"a batch after {before}", every_s=0.001)


def why(driver: Driver) -> str:
    """All that a driver says of failures, which may stand far above its last lines."""
    said = driver.output()
    causes = [line for line in said.splitlines() if "Caused by" in line or "Exception: " in line]
    return "\n".join([f"seed {SEED}", *causes, said[-3000:]])


def newest(driver: Driver) -> int:
    """The batch that it has planned last."""
    return max(batches(driver.checkpoint / "offsets"), default=-1)


def reach(driver: Driver, *, further: int) -> None:
    """Some batches more than there are. None: right away, maybe before the query has started."""
    goal = newest(driver) + further
    eventually(lambda: newest(driver) >= goal or not driver.alive(), WITHIN_S, f"batch {goal}")


def test_the_output_is_that_of_one_batch_however_often_the_driver_is_killed(
    target: tuple[str, str],
    attempts: Callable[[], Driver],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    report: Callable[[str], None],
) -> None:
    kind, output = target
    chance = random.Random(SEED)
    source = Input(tmp_path / "input", chance)
    arguments = ["--kind", kind, "--output", output, "--input", str(source.folder)]
    variables = environment(kind)
    skipped, reached = 0, []

    for _ in range(KILLS):
        source.add(FILES)
        driver = attempts().start(SCRIPT, *arguments, **variables)
        driver.until_printed("SPARK IS UP")
        if chance.random() < AIMED:
            wait_for_a_batch_in(kind, output, driver)
        else:
            reach(driver, further=chance.randrange(FILES))
            time.sleep(chance.random() * LONGEST_S)  # the random moment itself
        assert driver.alive(), why(driver)
        driver.kill()
        reached.append(newest(driver))
        skipped += driver.output().count("is not written again")

    source.close()
    last = attempts().start(SCRIPT, *arguments, "--final", **variables)
    assert last.wait(WITHIN_S + KILLS * FILES * BATCH_S) == 0, why(last)
    skipped += last.output().count("is not written again")

    spark = request.getfixturevalue("spark")
    rows, ids = READERS[kind](spark, output)
    committed = batches(last.checkpoint / "commits")
    report(
        f"{kind}: {KILLS} kills (seed {SEED}), at batches {reached}; {len(ids)} batches, {len(rows)} rows, {skipped} repeated "
        f"batches skipped"
    )
    assert rows == in_one_batch(spark, source.folder)
    assert ids == list(range(len(ids))) and ids[-1] == committed[-1]
