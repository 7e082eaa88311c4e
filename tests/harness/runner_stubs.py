"""Runners that only request and read failsafe promises, in a thread or in a process of their own.

`python -m tests.harness.runner_stubs DIRECTORY NODE…` plays the runners of all attempts below DIRECTORY, which has one
directory per node, until its standard input ends. It writes a line when all nodes have promised, and a `StubResult` at the end.
"""

import dataclasses
import json
import select
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from holdfast.clock import SystemClock, boot_id
from holdfast.model.identifiers import NodeId
from holdfast.runner.granted_promises import GrantedPromises
from tests.harness.promise_node import SESSION_TIMEOUT_S

REQUEST_INTERVAL_S = 0.5
"""Interval at which a runner requests and reads its promises."""
CLOCK = SystemClock()


class RunnerStubs:
    """Runners of the attempts in these directories."""

    def __init__(self, directories: Sequence[Path], nodes: Sequence[NodeId]) -> None:
        self._promises = [GrantedPromises(directory, boot=boot_id()) for directory in directories]
        self._nodes = nodes

    def request_promises(self) -> None:
        for each in self._promises:
            each.request_promises()

    @contextmanager
    def request(self) -> Iterator["RunnerStubs"]:
        """Request promises at the interval of real runners, in a thread."""
        stopped = threading.Event()

        def request_repeatedly() -> None:
            while not stopped.wait(REQUEST_INTERVAL_S):
                self.request_promises()

        thread = threading.Thread(target=request_repeatedly)
        thread.start()
        try:
            yield self
        finally:
            stopped.set()
            thread.join(30)

    def promised_until(self) -> list[float]:
        """Return for each attempt the time until which all nodes have promised."""
        return [each.promised_until(self._nodes) for each in self._promises]

    def left_s(self) -> float:
        """Return the shortest time for which all nodes have promised."""
        return min(self.promised_until()) - CLOCK.boottime()


@dataclasses.dataclass
class StubResult:
    lapsed: int
    """Attempts whose promises ran out before their runner read newer ones. A real runner would have ended the driver."""
    left_s_min: float
    """Shortest remaining time of a promise when its runner read the next one."""
    late_s_max: float
    """Longest delay of a pass of the runners, in addition to the interval. It shows how loaded the machine was."""


class PromiseWatch:
    """Detects promises that run out. Like a real runner, it knows only the promises that it has read."""

    def __init__(self, promised_until: list[float]) -> None:
        self._until = promised_until
        self._lapsed: set[int] = set()
        self._left_s_min = float("inf")

    def check(self, now: float, promised_until: list[float]) -> None:
        """Compare the promises that were known until now with the time. Later passes know the new ones."""
        self._left_s_min = min(self._left_s_min, min(self._until) - now)
        self._lapsed |= {number for number, until in enumerate(self._until) if until < now}
        self._until = promised_until

    def result(self, late_s_max: float) -> StubResult:
        return StubResult(len(self._lapsed), round(self._left_s_min, 3), round(late_s_max, 3))


def main(directory: Path, nodes: list[NodeId]) -> None:
    stubs = RunnerStubs(sorted(directory.glob("*/attempts/*/*")), nodes)
    while stubs.left_s() < SESSION_TIMEOUT_S:
        stubs.request_promises()
        time.sleep(REQUEST_INTERVAL_S)
    _write_line("ready")
    watch, late_s_max = PromiseWatch(stubs.promised_until()), 0.0
    while True:
        started_at = CLOCK.boottime()
        if select.select([sys.stdin], [], [], REQUEST_INTERVAL_S)[0]:
            break
        stubs.request_promises()
        now = CLOCK.boottime()
        watch.check(now, stubs.promised_until())
        late_s_max = max(late_s_max, now - started_at - REQUEST_INTERVAL_S)
    _write_line(json.dumps(dataclasses.asdict(watch.result(late_s_max))))


def _write_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), [NodeId(name) for name in sys.argv[2:]])
