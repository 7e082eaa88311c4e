"""The attempts that this node runs or ran: a directory for each, and the detached processes that they name.

Whether a runner lives is told by the kernel: it inherits an open file whose lock it holds until it is dead. The lock is taken
before the runner is started, so there is no moment in which one that is about to live looks dead.
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
from holdfast.model.codec import Garbage, NewerSchema, decode
from holdfast.model.identifiers import Attempt, JobId, is_name
from holdfast.model.job import Outcome
from holdfast.model.versions import Versions
from holdfast.node.drain import holder
from holdfast.runner.attempt_layout import BURIED, LOCK, OUTCOME, RUN, SCRATCH, SESSION, attempt_directory
from holdfast.runner.watchdog import process_tree
from holdfast.zk.session import session_file

KEPT_PER_JOB = 5
"""Directories of attempts that are over. The logs are in them."""


@dataclass(frozen=True, slots=True, order=True)
class AttemptName:
    job: JobId
    attempt: Attempt
    nonce: str


class Attempts:
    def __init__(self, directory: Path, config: Path, ring: Callable[[], None]) -> None:
        """`ring` is called, on the event loop, when a runner dies."""
        self._root = directory / "attempts"
        self._config = config
        self._ring = ring
        self._children: list[subprocess.Popen[bytes]] = []
        self._watched: dict[int, AttemptName] = {}
        self._present = set(self._find())
        _clear_up(buried.parent for buried in sorted(self._root.glob(f"*/*/{BURIED}")))

    def _find(self) -> Iterator[AttemptName]:
        """Those that nobody has buried yet."""
        for run in sorted(self._root.glob(f"*/*/{RUN}")):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                fields = json.loads(run.read_bytes())
                name = AttemptName(JobId(fields["job"]), Attempt(int(fields["attempt"])), str(fields["nonce"]))
                if run.parent == self._path(name) and not (run.parent / BURIED).exists():
                    yield name

    def _path(self, name: AttemptName) -> Path:
        return attempt_directory(self._root, name.job, name.attempt)

    @property
    def root(self) -> Path:
        return self._root

    def present(self) -> list[AttemptName]:
        return sorted(self._present)

    def newest(self, job: JobId) -> Attempt:
        """The newest that was ever started here, as far as is remembered."""
        try:
            return Attempt(max((int(path.name) for path in (self._root / job).iterdir()), default=0))
        except (OSError, ValueError):
            return max((name.attempt for name in self._present if name.job == job), default=Attempt(0))

    def running(self, name: AttemptName) -> bool:
        alive = holder(self._path(name) / LOCK) is not None
        if alive:
            self._watch(name)
        return alive

    def _watch(self, name: AttemptName) -> None:
        """Be told at once when it dies."""
        if name in self._watched.values():
            return
        try:
            pid = int((self._path(name) / LOCK).read_text() or 0)
            descriptor = os.pidfd_open(pid) if pid > 0 else -1
        except (OSError, ValueError):
            return
        if descriptor >= 0:
            self._watched[descriptor] = name
            asyncio.get_running_loop().add_reader(descriptor, self._died, descriptor)

    def _died(self, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self._watched.pop(descriptor, None)
        self._children = [child for child in self._children if child.poll() is None]
        self._ring()

    async def spawn(self, name: AttemptName, versions: Versions) -> None:
        """Start its runner, detached. Raises Unavailable if this machine cannot just now."""
        if not is_name(name.job):
            raise Refused(f"{name.job!r} is no job")
        path = self._path(name)
        try:
            path.mkdir(parents=True, exist_ok=True)
            for stale in (BURIED, OUTCOME, SESSION):
                (path / stale).unlink(missing_ok=True)
            run = {
                "job": name.job,
                "attempt": name.attempt,
                "nonce": name.nonce,
                "version": versions.current,
                "on_trial": versions.on_trial,
                "config": str(self._config),
            }
            with (path / LOCK).open("a+") as lock, (path / "runner.log").open("ab") as log:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                write_atomically(path / RUN, json.dumps(run).encode())
                self._start(path, lock, log)
        except OSError as error:
            raise Unavailable(f"attempt {name.attempt} of {name.job} cannot be started here: {error.strerror}") from error
        self._present.add(name)
        self._watch(name)
        self._prune(name.job)

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

    async def end_tree(self, name: AttemptName) -> bool:
        """Kill whatever is left of it. Whether nothing is."""
        return not await asyncio.to_thread(process_tree.kill, name.nonce)

    def left_behind(self, name: AttemptName) -> Outcome | None:
        """How it ended, if its runner could still write that down."""
        with contextlib.suppress(OSError, Garbage, NewerSchema):
            return decode(Outcome, (self._path(name) / OUTCOME).read_bytes(), where=OUTCOME)
        return None

    async def close_session(self, name: AttemptName) -> bool:
        session = session_file.read(self._path(name) / SESSION)
        return session is None or await asyncio.to_thread(session.close)

    def bury(self, name: AttemptName) -> None:
        with contextlib.suppress(OSError):
            (self._path(name) / BURIED).touch()
            (self._path(name) / SESSION).unlink(missing_ok=True)
            _clear_up([self._path(name)])
        self._present.discard(name)

    def _prune(self, job: JobId) -> None:
        """Only what is buried, and not the last ones."""
        with contextlib.suppress(OSError, ValueError):
            past = sorted(int(path.name) for path in (self._root / job).iterdir() if (path / BURIED).exists())
            for attempt in past[:-KEPT_PER_JOB]:
                shutil.rmtree(attempt_directory(self._root, job, Attempt(attempt)), ignore_errors=True)

    def close(self) -> None:
        loop: Any = asyncio.get_running_loop()
        for descriptor in list(self._watched):
            loop.remove_reader(descriptor)
            os.close(descriptor)
        self._watched.clear()


def _clear_up(attempts: Iterable[Path]) -> None:
    """What a driver needed only while it lived may be many gigabytes: nothing here waits for that."""
    scratch = [path for path in (attempt / SCRATCH for attempt in attempts) if path.exists()]
    if scratch:
        threading.Thread(target=_remove, args=(scratch,), name="clearing up", daemon=True).start()


def _remove(directories: list[Path]) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
