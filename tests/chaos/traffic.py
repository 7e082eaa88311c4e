"""Traffic: what users do while faults run. They submit, stop, resume and cancel jobs, and record every answer."""

import contextlib
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from holdfast.client import Cluster
from holdfast.errors import Conflict, HoldfastError, Refused
from tests.chaos.history import ACKNOWLEDGED, REFUSED, UNKNOWN, HistoryWriter, OperationRecord, boottime
from tests.harness.cluster.jobs import SPARK_CONF

SCRIPTS = Path(__file__).parent / "scripts"
RESTART_STRATEGY = "fixed:999999:100ms"
"""A driver that is killed is started again at once, however often that happens."""
JOBS_MAX = 3
PAUSE_S = (0.2, 2.0)
END_TIMEOUT_S = 20.0

Answer = TypeVar("Answer")


class UserTraffic:
    """Thread that plays the users. Its jobs are apart from the steady jobs, which it leaves alone."""

    def __init__(self, cluster: Cluster, heartbeats: Path, history: HistoryWriter, seed: int) -> None:
        self._cluster = cluster
        self._heartbeats = heartbeats
        self._history = history
        self._choose = random.Random(f"traffic {seed}")
        self._seed = seed
        self._submitted = 0
        self._live: list[str] = []
        self._stopped: set[str] = set()
        self._end = threading.Event()
        self._idle = threading.Lock()
        """Held during each operation, so that a fault that replaces ZooKeeper's data can wait for its end."""
        self._pool = ThreadPoolExecutor(1, "traffic")

    def __enter__(self) -> "UserTraffic":
        self._running = self._pool.submit(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        """End the traffic. Raise the error that ended it before, if there was one."""
        self._end.set()
        self._pool.shutdown()
        self._running.result()

    def paused(self) -> contextlib.AbstractContextManager[bool]:
        """Return a context in which no operation is in progress."""
        return self._idle

    def _run(self) -> None:
        while not self._end.wait(self._choose.uniform(*PAUSE_S)):
            with self._idle:
                self._act()

    def _act(self) -> None:
        if len(self._live) < JOBS_MAX:
            self._submit()
            return
        job = self._choose.choice(self._live)
        action = self._choose.choice(["cancel", "stop", "resume"])
        if action == "cancel":
            self._cancel(job)
        elif action == "stop":
            self._record("stop", job, lambda: self._cluster.stop(job))
        else:
            self._record("resume", job, lambda: self._cluster.resume(job))

    def _submit(self) -> None:
        """Submit a job. A lost answer is followed by the same request, which must not create a second job."""
        self._submitted += 1
        request = f"chaos-{self._seed}-{self._submitted}"
        for _ in range(2):
            if job := submit_heartbeat_job(self._cluster, f"user-{self._submitted}", self._heartbeats, request, self._history):
                self._live.append(job)
                return

    def _cancel(self, job: str) -> None:
        result = self._record("cancel", job, lambda: self._cluster.cancel(job))
        if result is None:
            return
        self._live.remove(job)
        self._record("ended", job, lambda: self._cluster.wait(result, timeout_s=END_TIMEOUT_S))

    def _record(self, name: str, job: str, operation: Callable[[], Answer]) -> Answer | None:
        return record_operation(self._history, name, job, "", operation)


def submit_heartbeat_job(
    cluster: Cluster, name: str, heartbeats: Path, request: str, history: HistoryWriter, *, spark: bool = False
) -> str | None:
    """Submit a job that writes heartbeats, with or without Spark. Return its id, or None if it was refused or is unknown."""
    script = SCRIPTS / ("spark_heartbeat.py" if spark else "heartbeat.py")

    def submit() -> str:
        arguments, conf = [str(heartbeats)], SPARK_CONF if spark else None
        job = cluster.submit(script, name=name, arguments=arguments, conf=conf, restart=RESTART_STRATEGY, request_id=request)
        return str(job.id)

    return record_operation(history, "submit", "", request, submit, job_of=str)


def record_operation(
    history: HistoryWriter,
    name: str,
    job: str,
    request: str,
    operation: Callable[[], Answer],
    *,
    job_of: Callable[[Answer], str] | None = None,
) -> Answer | None:
    """Carry out an operation and record its outcome. Return None unless it was acknowledged.

    Everything but an answer and a refusal is an unknown outcome: the operation may have been carried out.
    """
    started_at = boottime()
    answer, outcome, detail = None, ACKNOWLEDGED, ""
    try:
        answer = operation()
        job = job_of(answer) if job_of is not None else job
    except (Refused, Conflict) as error:
        outcome, detail = REFUSED, str(error)
    except HoldfastError as error:
        outcome, detail = UNKNOWN, str(error)
    history.add(OperationRecord(name, job, request, started_at, boottime(), outcome, detail))
    return answer
