"""Recorder of the cluster's state in ZooKeeper: job states for the history, and the latest view for the run."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from holdfast.client.connection.target import Target
from holdfast.errors import HoldfastError
from tests.chaos.history import HistoryWriter, JobSample, boottime
from tests.harness.cluster.cluster_reader import ClusterReader

INTERVAL_S = 0.25


@dataclass(frozen=True, slots=True)
class RecordedState:
    """State that was read from ZooKeeper. `at` is the time before the read."""

    at: float
    jobs: dict[str, dict[str, Any]]
    leader: str | None
    nodes: tuple[str, ...]


class StateRecorder:
    """Thread that reads the state several times a second. It reads nothing while ZooKeeper is away."""

    def __init__(self, target: Target, history: HistoryWriter) -> None:
        self._reader = ClusterReader(target)
        self._history = history
        self._last: dict[str, tuple[str, int, int]] = {}
        self._end = threading.Event()
        self._paused = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "state-recorder")
        self.latest: RecordedState | None = None

    def __enter__(self) -> "StateRecorder":
        self._reader.__enter__()
        self._running = self._pool.submit(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        """End the recorder. Raise the error that ended it before, if there was one."""
        self._end.set()
        self._pool.shutdown()
        self._reader.__exit__()
        self._running.result()

    def paused(self) -> contextlib.AbstractContextManager[bool]:
        """Return a context in which nothing is read, because ZooKeeper's data are not those of the cluster."""
        return self._paused

    def _run(self) -> None:
        while not self._end.wait(INTERVAL_S):
            with self._paused, contextlib.suppress(HoldfastError):
                at = boottime()
                jobs, view = self._reader.jobs(), self._reader.cluster()
                self.latest = RecordedState(at, jobs, view.leader, tuple(id for id, _ in view.nodes))
                self._record_changes(at, jobs)

    def _record_changes(self, at: float, jobs: dict[str, dict[str, Any]]) -> None:
        for id, job in jobs.items():
            state = (job["phase"], job["attempt"], job["restarts"])
            if self._last.get(id) != state:
                self._last[id] = state
                self._history.add(JobSample(at, id, *state))
