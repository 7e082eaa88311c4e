"""Process pool of the schedules."""

import sys
from types import ModuleType

import pytest

from tests.sim.worker_pool import start_pool


def _is_loaded(module: str) -> bool:
    return module in sys.modules


def test_worker_does_not_inherit_modules_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "module_of_another_test", ModuleType("module_of_another_test"))
    with start_pool() as pool:
        assert not pool.submit(_is_loaded, "module_of_another_test").result()
        assert pool.submit(_is_loaded, "tests.sim.leadership.schedule").result()
