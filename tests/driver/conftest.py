"""Drivers that are gone when their test is."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.drivers import Driver


@pytest.fixture
def attempts(tmp_path: Path) -> Iterator[Callable[[], Driver]]:
    """Each call is the next attempt of the same job."""
    started: list[Driver] = []

    def attempt() -> Driver:
        started.append(Driver(tmp_path / "jöb home", number=len(started) + 1))
        return started[-1]

    yield attempt
    for driver in started:
        driver.kill()


@pytest.fixture
def driver(attempts: Callable[[], Driver]) -> Driver:
    return attempts()
