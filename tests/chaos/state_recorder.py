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
    leases_written: dict[str, float]
    """For each job, a time after which its runner has certainly written the lease."""


class LeaseWrites:
    """Times of the last writes of the leases, from repeated reads of their versions.

    A lease alone does not show that its runner is connected: it exists until its session expires, and restored data contain it.
    """

    def __init__(self) -> None:
        self._read_at = float("-inf")
        self._versions: dict[str, tuple[int, int]] = {}
        self._written: dict[str, float] = {}

    def add(self, at: float, versions: dict[str, tuple[int, int]]) -> dict[str, float]:
        """Return the time of the previous read for each lease that has changed since, and earlier times for the others."""
        changed = {job for job, version in versions.items() if self._versions.get(job, version) != version}
        self._written |= dict.fromkeys(changed, self._read_at)
        self._read_at, self._versions = at, versions
        return dict(self._written)


class StateRecorder:
    """Thread that reads the state several times a second. It reads nothing while ZooKeeper is away."""

    def __init__(self, target: Target, history: HistoryWriter) -> None:
        self._reader = ClusterReader(target)
        self._history = history
        self._last: dict[str, tuple[str, int, int]] = {}
        self._leases = LeaseWrites()
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
                written = self._leases.add(at, self._reader.lease_versions(jobs))
                self.latest = RecordedState(at, jobs, view.leader, tuple(id for id, _ in view.nodes), written)
                self._record_changes(at, jobs)

    def _record_changes(self, at: float, jobs: dict[str, dict[str, Any]]) -> None:
        for id, job in jobs.items():
            state = (job["phase"], job["attempt"], job["restarts"])
            if self._last.get(id) != state:
                self._last[id] = state
                self._history.add(JobSample(at, id, *state))
