"""Where schedules run."""

import sys
from types import ModuleType

import pytest

from tests.sim.workers import pool


def _loaded(module: str) -> bool:
    return module in sys.modules


def test_a_worker_has_nothing_that_other_tests_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "left_behind", ModuleType("left_behind"))
    with pool() as started:
        assert not started.submit(_loaded, "left_behind").result()
        assert started.submit(_loaded, "tests.sim.schedule").result()
