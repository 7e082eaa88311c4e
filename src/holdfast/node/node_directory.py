"""A node's own directory: its lock, the session file, what it remembers, and where it can be reached."""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from holdfast.atomic_file import write_atomically
from holdfast.errors import Refused, Unavailable
from holdfast.node.last_seen import FileMemory
from holdfast.zk.session import session_file
from holdfast.zk.session.client import SessionId
from holdfast.zk.session.connection_settings import Ensemble

LOCK_S = 8.0
"""Longer than an agent takes to end that has lost its guard."""


class NodeDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One agent per directory. The kernel drops the lock with the process: whoever holds it knows the last one is gone."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock: IO[str] = open(self.path / "agent.lock", "a+")  # noqa: SIM115
        except OSError as error:
            raise Refused(f"cannot use the directory {self.path}: {error.strerror}") from error
        with lock:
            self._wait_for(lock)
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            yield

    def _wait_for(self, lock: IO[str]) -> None:
        """An agent whose guard was killed notices and ends within seconds. One that does not is paused, or somebody's own."""
        give_up_at = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= give_up_at:
                    lock.seek(0)
                    raise Unavailable(f"another agent (pid {lock.read().strip() or '?'}) uses {self.path}") from None
                time.sleep(0.1)

    def memory(self, *, forget: bool = False) -> FileMemory:
        """With forget, a person has accepted the ZooKeeper as it is now, whatever was seen before."""
        path = self.path / "memory.json"
        if forget:
            path.unlink(missing_ok=True)
        return FileMemory(path)

    def publish(self, *, api: str) -> None:
        write_atomically(self.path / "agent.json", json.dumps({"pid": os.getpid(), "api": api}).encode())

    def keep_session(self, ensemble: Ensemble, session: SessionId) -> None:
        session_file.keep(self._session_path, ensemble, session)

    def leftover_session(self) -> session_file.DeadSession | None:
        """The session of the last agent, if its guard had no time to close it. Only for whoever holds the lock."""
        return session_file.read(self._session_path)

    @property
    def _session_path(self) -> Path:
        return self.path / session_file.NAME
