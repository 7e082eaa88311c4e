"""The sink examples: killed, restarted, and pointed at the output of another job."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from holdfast.driver_protocol.exit_record import parse_exit_record
from holdfast.model.job import Ending
from holdfast.runner.execution.classify import classify_exit
from tests.harness.drivers import DRIVER_TIMEOUT_S, EXAMPLES, DriverProcess
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[Callable[..., DriverProcess]]:
    started: list[DriverProcess] = []

    def attempt(name: str = "job") -> DriverProcess:
        number = sum(driver.home.name == name for driver in started) + 1
        started.append(DriverProcess(tmp_path / name, name=name, number=number))
        return started[-1]

    yield attempt
    for driver in started:
        driver.kill()


def test_parquet_example_continues_after_a_crash_and_refuses_a_foreign_directory(
    attempt: Callable[..., DriverProcess], tmp_path: Path
) -> None:
    output, script = tmp_path / "windows", EXAMPLES / "sinks" / "windows_to_parquet.py"

    def batches() -> list[int]:
        return sorted(int(path.name.removeprefix("batch=")) for path in output.glob("batch=*"))

    first = attempt().start(script, "--output", str(output))
    wait_until(lambda: len(batches()) > 1 or not first.alive(), DRIVER_TIMEOUT_S, "two batches")
    first.kill()
    before = len(batches())
    second = attempt().start(script, "--output", str(output))
    wait_until(lambda: len(batches()) > before or not second.alive(), DRIVER_TIMEOUT_S, "one more")
    second.request_stop()
    assert second.wait() == 0, second.output()[-3000:]
    assert batches() == list(range(len(batches())))

    other_job = attempt("other").start(script, "--output", str(output))
    status = other_job.wait()
    outcome = classify_exit(
        status=status << 8,
        record=parse_exit_record(other_job.exit_record()),
        output_tail=other_job.output(),
        stop_requested=False,
        kernel_killed_for_memory=False,
    )
    assert outcome.ending is Ending.OUTPUT_CONFLICT and outcome.ending.requires_operator
    assert outcome.reason.startswith(f"{output} belongs to the query ") and "id-of-job" in outcome.reason


def test_postgres_example_updates_its_windows(attempt: Callable[..., DriverProcess], dsn: str) -> None:
    given = conninfo_to_dict(dsn)
    variables = {"PGHOST": str(given["host"]), "PGUSER": str(given["user"]), "PGDATABASE": str(given["dbname"])}

    def total() -> int:
        with psycopg.connect(dsn) as connection:
            if connection.execute("SELECT to_regclass('example')").fetchone() == (None,):
                return 0
            (n,) = connection.execute("SELECT coalesce(sum(n), 0) FROM example").fetchone() or (0,)
            return int(n)

    job = attempt().start(EXAMPLES / "sinks" / "windows_to_postgres.py", "--table", "example", **variables)
    wait_until(lambda: total() > 0 or not job.alive(), DRIVER_TIMEOUT_S, "rows")
    job.request_stop()
    assert job.wait() == 0, job.output()[-3000:]
    assert total() > 0
