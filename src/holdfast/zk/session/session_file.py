"""The session file: credentials to close a process's ZooKeeper session after the process has died.

An agent writes it when it has a session. The guard reads it, and so does the next agent, which holds the node's lock and
therefore knows that the previous agent is dead. The file contains the session's password, so only its owner can read it.
Standard library only.
"""

import dataclasses
import json
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.zk.session.close_session import CONNECT_TIMEOUT_S, ConnectionOpener, close_session, open_plain_connection

if TYPE_CHECKING:
    from holdfast.zk.session.client import SessionId
    from holdfast.zk.session.connection_settings import ConnectionSettings

FILE_NAME = "session.json"


@dataclass(frozen=True, slots=True)
class StoredSession:
    hosts: tuple[tuple[str, int], ...]
    session_id: int
    password: bytes = field(repr=False)
    timeout_s: float
    tls: dict[str, Any] | None = field(repr=False)
    """Fields of `holdfast.zk.session.connection_settings.Tls`, or None for a connection without TLS."""
    agent_pid: int = 0

    def close(self) -> bool:
        """Close the session. Return False if that fails: the session then expires by itself."""
        try:
            open_connection = open_plain_connection if self.tls is None else self._tls_opener(self.tls)
        except (HoldfastError, KeyError, TypeError, ValueError):
            return False  # the certificate files may have been moved or replaced
        return close_session(
            self.hosts, self.session_id, self.password, timeout_s=self.timeout_s, open_connection=open_connection
        )

    @staticmethod
    def _tls_opener(tls: dict[str, Any]) -> ConnectionOpener:
        from holdfast.zk.session.connection_settings import Tls  # imported late: it loads the ssl module

        paths = {name: Path(tls[name]) if tls[name] else None for name in ("ca", "certificate", "key")}
        context = Tls(**{**tls, **paths}).context()

        def open_tls(host: str, port: int) -> socket.socket:
            return context.wrap_socket(socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S), server_hostname=host)

        return open_tls


def write(path: Path, session: StoredSession) -> None:
    fields = {
        "hosts": session.hosts,
        "session_id": session.session_id,
        "password": session.password.hex(),
        "timeout_s": session.timeout_s,
        "tls": session.tls,
        "agent_pid": session.agent_pid,
    }
    temporary = path.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)  # a leftover file may be readable by other users
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(fields, file)
    temporary.replace(path)


def save_session(path: Path, settings: "ConnectionSettings", session: "SessionId") -> None:
    """Write the credentials of this process's session. The file is never removed: closing a session twice is harmless."""
    tls = None
    if settings.tls is not None:
        fields = dataclasses.asdict(settings.tls)
        tls = {name: str(value) if isinstance(value, Path) else value for name, value in fields.items()}
    write(
        path,
        StoredSession(
            hosts=settings.hosts,
            session_id=session.id,
            password=session.password,
            timeout_s=settings.session_timeout_s,
            tls=tls,
            agent_pid=os.getpid(),
        ),
    )


def read(path: Path) -> StoredSession | None:
    """Return the stored session, or None if the file is missing or malformed: the session then expires by itself."""
    try:
        fields = json.loads(path.read_text())
        return StoredSession(
            hosts=tuple((str(host), int(port)) for host, port in fields["hosts"]),
            session_id=int(fields["session_id"]),
            password=bytes.fromhex(fields["password"]),
            timeout_s=float(fields["timeout_s"]),
            tls=fields["tls"],
            agent_pid=int(fields.get("agent_pid", 0)),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
