"""Attempts on this node: one directory and one detached runner process for each.

A file lock shows whether a runner is alive: the runner inherits an open file and holds its lock until it dies. The node takes
the lock before it starts the runner, so a runner that is about to start never appears dead.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from holdfast.atomic_file import write_atomically
from holdfast.errors import Refused, Unavailable
from holdfast.model.codec import OLDEST_SCHEMA, SCHEMA, MalformedRecord, NewerSchema, decode
from holdfast.model.identifiers import Attempt, JobId, is_valid_name
from holdfast.model.job import Outcome
from holdfast.model.versions import Versions
from holdfast.node.drain import kill_lock_holder, lock_holder_pid
from holdfast.runner import process_file
from holdfast.runner.attempt_layout import (
    CLOSED_MARKER,
    GRANTED_PROMISES,
    OUTCOME_FILE,
    PROCESSES_FILE,
    PROMISES_WANTED,
    RUN_FILE,
    RUNNER_LOCK,
    SCRATCH_DIRECTORY,
    SESSION_FILE,
    attempt_directory,
)
from holdfast.runner.watchdog import process_tree
from holdfast.zk.session import session_file

KILL_TIMEOUT_S = 5.0
CLOSED_ATTEMPTS_KEPT = 5
"""Directories of closed attempts kept per job. They contain the logs."""


@dataclass(frozen=True, slots=True, order=True)
class AttemptId:
    """Attempt of a job, and the nonce of the runner that executes it."""

    job: JobId
    attempt: Attempt
    nonce: str


class SpawnFailed(Unavailable):
    """The operating system refused to start a runner, and no process was started. The message is the system's reason."""


class NodeAttempts:
    def __init__(self, directory: Path, config: Path, on_runner_exit: Callable[[], None]) -> None:
        """Call `on_runner_exit`, on the event loop, whenever a runner dies."""
        self._root = directory / "attempts"
        self._config = config
        self._on_runner_exit = on_runner_exit
        self._children: list[subprocess.Popen[bytes]] = []
        self._watched: dict[int, AttemptId] = {}
        self._open = set(self._find_open())
        self._newest: dict[JobId, Attempt] = {}
        """Newest attempt of each job that has a directory on this node, read once."""
        _remove_scratch_in_background(marker.parent for marker in sorted(self._root.glob(f"*/*/{CLOSED_MARKER}")))

    def _find_open(self) -> Iterator[AttemptId]:
        """Yield the attempts whose directory is not marked as closed."""
        for run in sorted(self._root.glob(f"*/*/{RUN_FILE}")):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                fields = json.loads(run.read_bytes())
                attempt_id = AttemptId(JobId(fields["job"]), Attempt(int(fields["attempt"])), str(fields["nonce"]))
                if run.parent == self._path(attempt_id) and not (run.parent / CLOSED_MARKER).exists():
                    yield attempt_id

    def _path(self, attempt_id: AttemptId) -> Path:
        return attempt_directory(self._root, attempt_id.job, attempt_id.attempt)

    @property
    def root(self) -> Path:
        return self._root

    def list_open(self) -> list[AttemptId]:
        """Return the attempts that are running, or dead but not yet closed."""
        return sorted(self._open)

    def newest_schema(self) -> int:
        """Return the newest schema that the agent and all its live runners read: a runner may be of an earlier version."""
        return min([SCHEMA, *(self._schema_of(each) for each in self._open if self.is_running(each))])

    def _schema_of(self, attempt_id: AttemptId) -> int:
        """Return the newest schema that the runner reads; the oldest one for a runner that does not say so."""
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            return int(json.loads((self._path(attempt_id) / RUN_FILE).read_bytes()).get("schema", OLDEST_SCHEMA))
        return OLDEST_SCHEMA

    def newest_attempt(self, job: JobId) -> Attempt:
        """Return the newest attempt of the job that has a directory on this node, or 0. Only the first call reads the disk."""
        if job not in self._newest:
            self._newest[job] = self._find_newest(job)
        return self._newest[job]

    def _find_newest(self, job: JobId) -> Attempt:
        try:
            return Attempt(max((int(path.name) for path in (self._root / job).iterdir()), default=0))
        except (OSError, ValueError):
            return max((each.attempt for each in self._open if each.job == job), default=Attempt(0))

    def is_running(self, attempt_id: AttemptId) -> bool:
        alive = lock_holder_pid(self._path(attempt_id) / RUNNER_LOCK) is not None
        if alive:
            self._watch_runner(attempt_id)
        return alive

    def _watch_runner(self, attempt_id: AttemptId) -> None:
        """Register the runner's pidfd with the event loop, to learn of its death immediately."""
        if attempt_id in self._watched.values():
            return
        try:
            pid = int((self._path(attempt_id) / RUNNER_LOCK).read_text() or 0)
            descriptor = os.pidfd_open(pid) if pid > 0 else -1
        except (OSError, ValueError):
            return
        if descriptor >= 0:
            self._watched[descriptor] = attempt_id
            asyncio.get_running_loop().add_reader(descriptor, self._on_pidfd_ready, descriptor)

    def _on_pidfd_ready(self, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self._watched.pop(descriptor, None)
        self._children = [child for child in self._children if child.poll() is None]
        self._on_runner_exit()

    async def spawn(self, attempt_id: AttemptId, versions: Versions) -> None:
        """Start the runner as a detached process. Raises SpawnFailed if the operating system refuses."""
        if not is_valid_name(attempt_id.job):
            raise Refused(f"{attempt_id.job!r} is not a valid job id")
        path = self._path(attempt_id)
        self._newest[attempt_id.job] = max(attempt_id.attempt, self.newest_attempt(attempt_id.job))
        try:
            path.mkdir(parents=True, exist_ok=True)
            stale_files = (CLOSED_MARKER, OUTCOME_FILE, PROCESSES_FILE, SESSION_FILE, PROMISES_WANTED, GRANTED_PROMISES)
            for stale in stale_files:
                (path / stale).unlink(missing_ok=True)
            run = {
                "job": attempt_id.job,
                "attempt": attempt_id.attempt,
                "nonce": attempt_id.nonce,
                "version": versions.current,
                "on_trial": versions.on_trial,
                "config": str(self._config),
                "schema": SCHEMA,
            }
            with (path / RUNNER_LOCK).open("a+") as lock, (path / "runner.log").open("ab") as log:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                write_atomically(path / RUN_FILE, json.dumps(run).encode())
                self._start(path, lock, log)
        except OSError as error:
            raise SpawnFailed(error.strerror or type(error).__name__) from error
        self._open.add(attempt_id)
        self._watch_runner(attempt_id)
        self._prune(attempt_id.job)

    def _start(self, path: Path, lock: IO[str], log: IO[bytes]) -> None:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "holdfast.runner", str(path), str(lock.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock.fileno(),),
            start_new_session=True,
            cwd="/",
        )
        self._children.append(process)
        lock.truncate(0)
        lock.write(str(process.pid))
        lock.flush()

    async def kill_runner(self, attempt_id: AttemptId) -> bool:
        """Kill the runner if it is alive, also if it is stopped. Return False if it survived."""
        return await asyncio.to_thread(kill_lock_holder, self._path(attempt_id) / RUNNER_LOCK, KILL_TIMEOUT_S)

    async def kill_tree(self, attempt_id: AttemptId) -> bool:
        """Kill all processes of an attempt whose runner is dead. Return False if one of them survived."""
        return await asyncio.to_thread(self._kill_tree, attempt_id)

    def _kill_tree(self, attempt_id: AttemptId) -> bool:
        recorded = self._path(attempt_id) / PROCESSES_FILE
        killed = process_file.kill_processes(recorded, timeout_s=process_tree.KILL_TIMEOUT_S)
        return not process_tree.kill_tree(attempt_id.nonce) and killed

    def read_outcome(self, attempt_id: AttemptId) -> Outcome | None:
        """Return the outcome that the runner left in its directory, or None."""
        with contextlib.suppress(OSError, MalformedRecord, NewerSchema):
            return decode(Outcome, (self._path(attempt_id) / OUTCOME_FILE).read_bytes(), where=OUTCOME_FILE)
        return None

    async def close_session(self, attempt_id: AttemptId) -> bool:
        """Close the ZooKeeper session of the dead runner. Return False if that failed and the session must expire."""
        session = session_file.read(self._path(attempt_id) / SESSION_FILE)
        return session is None or await asyncio.to_thread(session.close)

    def mark_closed(self, attempt_id: AttemptId) -> None:
        """Record that this node has nothing left to do for the attempt."""
        with contextlib.suppress(OSError):
            (self._path(attempt_id) / CLOSED_MARKER).touch()
            (self._path(attempt_id) / SESSION_FILE).unlink(missing_ok=True)
            _remove_scratch_in_background([self._path(attempt_id)])
        self._open.discard(attempt_id)

    def _prune(self, job: JobId) -> None:
        """Remove the directories of closed attempts, except the newest ones."""
        with contextlib.suppress(OSError, ValueError):
            closed = sorted(int(path.name) for path in (self._root / job).iterdir() if (path / CLOSED_MARKER).exists())
            for attempt in closed[:-CLOSED_ATTEMPTS_KEPT]:
                shutil.rmtree(attempt_directory(self._root, job, Attempt(attempt)), ignore_errors=True)

    def close(self) -> None:
        loop: Any = asyncio.get_running_loop()
        for descriptor in list(self._watched):
            loop.remove_reader(descriptor)
            os.close(descriptor)
        self._watched.clear()


def _remove_scratch_in_background(attempts: Iterable[Path]) -> None:
    """Remove the scratch directories in a thread: they may hold many gigabytes."""
    scratch = [path for path in (attempt / SCRATCH_DIRECTORY for attempt in attempts) if path.exists()]
    if scratch:
        threading.Thread(target=_remove_directories, args=(scratch,), name="remove-scratch", daemon=True).start()


def _remove_directories(directories: list[Path]) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
