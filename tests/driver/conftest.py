"""Driver processes that are killed at the end of their test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.drivers import DriverProcess


@pytest.fixture
def attempts(tmp_path: Path) -> Iterator[Callable[[], DriverProcess]]:
    """Factory: each call returns the next attempt of the same job."""
    started: list[DriverProcess] = []

    def attempt() -> DriverProcess:
        started.append(DriverProcess(tmp_path / "jöb home", number=len(started) + 1))
        return started[-1]

    yield attempt
    for driver in started:
        driver.kill()


@pytest.fixture
def driver(attempts: Callable[[], DriverProcess]) -> DriverProcess:
    return attempts()
