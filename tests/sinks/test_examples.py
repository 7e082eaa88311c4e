"""The examples, as people run them: killed, started again, and pointed at an output that is another job's."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from holdfast.model.job import Ending
from holdfast.runner.classify import classify
from tests.harness.drivers import EXAMPLES, WITHIN_S, Driver
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    started: list[Driver] = []

    def attempt(name: str = "job") -> Driver:
        number = sum(driver.home.name == name for driver in started) + 1
        started.append(Driver(tmp_path / name, name=name, number=number))
        return started[-1]

    yield attempt
    for driver in started:
        driver.kill()


def test_windows_go_on_in_parquet_after_a_crash_and_not_in_anothers_directory(
    attempt: Callable[..., Driver], tmp_path: Path
) -> None:
    output, script = tmp_path / "windows", EXAMPLES / "sinks" / "windows_to_parquet.py"

    def batches() -> list[int]:
        return sorted(int(path.name.removeprefix("batch=")) for path in output.glob("batch=*"))

    first = attempt().start(script, "--output", str(output))
    eventually(lambda: len(batches()) > 1 or not first.alive(), WITHIN_S, "two batches")
    first.kill()
    before = len(batches())
    second = attempt().start(script, "--output", str(output))
    eventually(lambda: len(batches()) > before or not second.alive(), WITHIN_S, "one more")
    second.ask_to_stop()
    assert second.wait() == 0, second.output()[-3000:]
    assert batches() == list(range(len(batches())))

    stranger = attempt("stranger").start(script, "--output", str(output))
    status = stranger.wait()
    outcome = classify(status=status << 8, end=stranger.end(), tail=stranger.output(), stop_asked=False, oom_kills=False)
    assert outcome.ending is Ending.OUTPUT_CONFLICT and outcome.ending.needs_a_person
    assert outcome.reason.startswith(f"{output} belongs to the query ") and "id-of-job" in outcome.reason


def test_windows_grow_in_postgres(attempt: Callable[..., Driver], dsn: str) -> None:
    given = conninfo_to_dict(dsn)
    variables = {"PGHOST": str(given["host"]), "PGUSER": str(given["user"]), "PGDATABASE": str(given["dbname"])}

    def total() -> int:
        with psycopg.connect(dsn) as connection:
            if connection.execute("SELECT to_regclass('example')").fetchone() == (None,):
                return 0
            (n,) = connection.execute("SELECT coalesce(sum(n), 0) FROM example").fetchone() or (0,)
            return int(n)

    job = attempt().start(EXAMPLES / "sinks" / "windows_to_postgres.py", "--table", "example", **variables)
    eventually(lambda: total() > 0 or not job.alive(), WITHIN_S, "rows")
    job.ask_to_stop()
    assert job.wait() == 0, job.output()[-3000:]
    assert total() > 0
