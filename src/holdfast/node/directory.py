"""A node's own directory: its lock, the session file, what it remembers, and where it can be reached."""

import contextlib
import dataclasses
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from holdfast.errors import Refused
from holdfast.node import session_file
from holdfast.node.memory import FileMemory, write_atomically
from holdfast.zk.client import SessionId
from holdfast.zk.settings import Ensemble


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
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                raise Refused(f"another agent (pid {lock.read().strip() or '?'}) uses {self.path}") from None
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            yield

    def memory(self, *, forget: bool = False) -> FileMemory:
        """With forget, a person has accepted the ZooKeeper as it is now, whatever was seen before."""
        path = self.path / "memory.json"
        if forget:
            path.unlink(missing_ok=True)
        return FileMemory(path)

    def publish(self, *, api: str) -> None:
        write_atomically(self.path / "agent.json", json.dumps({"pid": os.getpid(), "api": api}).encode())

    def keep_session(self, ensemble: Ensemble, session: SessionId | None) -> None:
        """Write down how to end this session should we die, or that there is none."""
        if session is None:
            self._session_path.unlink(missing_ok=True)
            return
        tls = None
        if ensemble.tls is not None:
            fields = dataclasses.asdict(ensemble.tls)
            tls = {name: str(value) if isinstance(value, Path) else value for name, value in fields.items()}
        session_file.write(
            self._session_path,
            session_file.DeadSession(
                hosts=ensemble.hosts,
                session_id=session.id,
                password=session.password,
                timeout_s=ensemble.session_timeout_s,
                tls=tls,
            ),
        )

    def leftover_session(self) -> session_file.DeadSession | None:
        """The session of the last agent, if its guard had no time to close it. Only for whoever holds the lock."""
        session = session_file.read(self._session_path)
        return None if session is None else dataclasses.replace(session, timeout_s=1.0)

    @property
    def _session_path(self) -> Path:
        return self.path / session_file.NAME
