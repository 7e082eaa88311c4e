"""Directory of a node: its lock, session file, last-seen file, agent file and secret file. Only the node's user can read it."""

import contextlib
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from holdfast.atomic_file import write_atomically
from holdfast.errors import Refused, Unavailable
from holdfast.node.last_seen import LastSeenFile
from holdfast.zk.session import session_file
from holdfast.zk.session.client import SessionId
from holdfast.zk.session.connection_settings import ConnectionSettings

SECRET_FILE = "cluster-secret"
AGENT_FILE = "agent.json"
"""Process id and API address of the newest agent."""
LOCK_TIMEOUT_S = 8.0
"""Longer than an agent takes to exit after the death of its guard."""


class NodeDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock that allows one agent per directory. The kernel releases it when its holder dies."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_private()
            lock: IO[str] = open(self.path / "agent.lock", "a+")  # noqa: SIM115 -- closed by `with` below
        except OSError as error:
            raise Refused(f"cannot use the directory {self.path}: {error.strerror}") from error
        with lock:
            self._acquire(lock)
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            yield

    def _make_private(self) -> None:
        """Remove the permissions of other users from a directory that an operator or an earlier release created."""
        if (mode := self.path.stat().st_mode) & 0o077:
            with contextlib.suppress(PermissionError):  # the directory may belong to another user
                self.path.chmod(stat.S_IMODE(mode) & ~0o077)

    def _acquire(self, lock: IO[str]) -> None:
        """Acquire the lock, waiting for an agent that exits because its guard was killed. Raises Unavailable on timeout."""
        give_up_at = time.monotonic() + LOCK_TIMEOUT_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= give_up_at:
                    lock.seek(0)
                    raise Unavailable(f"another agent (pid {lock.read().strip() or '?'}) uses {self.path}") from None
                time.sleep(0.1)

    def open_last_seen(self, *, forget: bool = False) -> LastSeenFile:
        """Open the last-seen file. With `forget`, delete it first: the operator accepts ZooKeeper's current data."""
        path = self.path / "memory.json"
        if forget:
            path.unlink(missing_ok=True)
        return LastSeenFile(path)

    def write_agent_file(self, *, api: str) -> None:
        write_atomically(self.path / AGENT_FILE, json.dumps({"pid": os.getpid(), "api": api}).encode())

    def read_previous_port(self) -> int:
        """Return the port of the previous agent's HTTP API, or 0 if there was none."""
        try:
            return urlsplit(json.loads((self.path / AGENT_FILE).read_bytes())["api"]).port or 0
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return 0

    def save_session(self, ensemble: ConnectionSettings, session: SessionId) -> None:
        session_file.save_session(self._session_path, ensemble, session)

    def read_previous_session(self) -> session_file.StoredSession | None:
        """Return the session of the previous agent, which its guard may not have closed. Requires the lock."""
        return session_file.read(self._session_path)

    def read_secret(self) -> str | None:
        """Return the cluster's secret as an earlier agent saved it, or None."""
        try:
            return self._secret_path.read_text().strip() or None
        except (OSError, ValueError):
            return None

    def save_secret(self, secret: str) -> None:
        write_atomically(self._secret_path, secret.encode())

    @property
    def _secret_path(self) -> Path:
        return self.path / SECRET_FILE

    @property
    def _session_path(self) -> Path:
        return self.path / session_file.FILE_NAME
