"""The session file: what it takes to close an agent's session after the agent died.

Written by the agent once it has a session, read by the guard (and by the next agent, which holds the node's lock and so knows
that the last one is gone). It holds the session's password: only the owner may read it. Standard library only.
"""

import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.zk.farewell import TRY_S, close_session, open_plain

NAME = "session.json"


@dataclass(frozen=True, slots=True)
class DeadSession:
    hosts: tuple[tuple[str, int], ...]
    session_id: int
    password: bytes
    timeout_s: float
    tls: dict[str, Any] | None
    """What `holdfast.zk.settings.Tls` is made of, or None for a plain connection."""

    def close(self) -> bool:
        return close_session(
            self.hosts,
            self.session_id,
            self.password,
            timeout_s=self.timeout_s,
            open_connection=open_plain if self.tls is None else self._open_tls,
        )

    def _open_tls(self, host: str, port: int) -> socket.socket:
        from holdfast.zk.settings import Tls  # loads the ssl module: only for those who use it

        assert self.tls is not None
        paths = {name: Path(self.tls[name]) if self.tls[name] else None for name in ("ca", "certificate", "key")}
        context = Tls(**{**self.tls, **paths}).context()
        return context.wrap_socket(socket.create_connection((host, port), timeout=TRY_S), server_hostname=host)


def write(path: Path, session: DeadSession) -> None:
    fields = {
        "hosts": session.hosts,
        "session_id": session.session_id,
        "password": session.password.hex(),
        "timeout_s": session.timeout_s,
        "tls": session.tls,
    }
    temporary = path.with_suffix(".tmp")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(fields, file)
    temporary.replace(path)


def read(path: Path) -> DeadSession | None:
    """None if there is none, or none that can be used: then the session expires by itself."""
    try:
        fields = json.loads(path.read_text())
        return DeadSession(
            hosts=tuple((str(host), int(port)) for host, port in fields["hosts"]),
            session_id=int(fields["session_id"]),
            password=bytes.fromhex(fields["password"]),
            timeout_s=float(fields["timeout_s"]),
            tls=fields["tls"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
