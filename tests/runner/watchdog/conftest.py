"""Watchdogs for the tests of this package."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.runner.watchdog.isolation import CGROUP, NAMESPACE, SCAN
from tests.harness.watchdog_process import LONG_S, Watch, WatchdogProcess, now


@pytest.fixture(params=[NAMESPACE, CGROUP, SCAN])
def watch(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Watch]:
    """Start watchdogs at each level of isolation."""
    started: list[WatchdogProcess] = []

    def begin(*, deadline_s: float | None = LONG_S, **options: Any) -> WatchdogProcess:
        started.append(watchdog := WatchdogProcess(tmp_path, level=request.param, **options))
        if not options:
            watchdog.receive_ready()
        if deadline_s is not None:
            watchdog.send(deadline=now() + deadline_s)
        return watchdog

    yield begin
    for watchdog in started:
        watchdog.kill()
