"""The session file: what it takes to close an agent's session after the agent died.

Written by the agent once it has a session, read by the guard (and by the next agent, which holds the node's lock and so knows
that the last one is gone). It holds the session's password: only the owner may read it. Standard library only.
"""

import dataclasses
import json
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.zk.session.close_session import TRY_S, Opener, close_session, open_plain

if TYPE_CHECKING:
    from holdfast.zk.session.client import SessionId
    from holdfast.zk.session.connection_settings import Ensemble

NAME = "session.json"


@dataclass(frozen=True, slots=True)
class DeadSession:
    hosts: tuple[tuple[str, int], ...]
    session_id: int
    password: bytes = field(repr=False)
    timeout_s: float
    tls: dict[str, Any] | None = field(repr=False)
    """What `holdfast.zk.session.connection_settings.Tls` is made of, or None for a plain connection."""
    agent_pid: int = 0
    """Whose session it is."""

    def close(self) -> bool:
        """Whether the session is gone. If it cannot be closed, for whatever reason, it will expire."""
        try:
            open_connection = open_plain if self.tls is None else self._tls_opener(self.tls)
        except (HoldfastError, KeyError, TypeError, ValueError):
            return False  # certificates are renewed and moved
        return close_session(
            self.hosts, self.session_id, self.password, timeout_s=self.timeout_s, open_connection=open_connection
        )

    @staticmethod
    def _tls_opener(tls: dict[str, Any]) -> Opener:
        from holdfast.zk.session.connection_settings import Tls  # loads the ssl module: only for those who use it

        paths = {name: Path(tls[name]) if tls[name] else None for name in ("ca", "certificate", "key")}
        context = Tls(**{**tls, **paths}).context()

        def open_tls(host: str, port: int) -> socket.socket:
            return context.wrap_socket(socket.create_connection((host, port), timeout=TRY_S), server_hostname=host)

        return open_tls


def write(path: Path, session: DeadSession) -> None:
    fields = {
        "hosts": session.hosts,
        "session_id": session.session_id,
        "password": session.password.hex(),
        "timeout_s": session.timeout_s,
        "tls": session.tls,
        "agent_pid": session.agent_pid,
    }
    temporary = path.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)  # one that was left behind may be readable by others
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(fields, file)
    temporary.replace(path)


def keep(path: Path, ensemble: "Ensemble", session: "SessionId") -> None:
    """Write down how to end this session should we die. It stays there: to close a session twice does no harm."""
    tls = None
    if ensemble.tls is not None:
        fields = dataclasses.asdict(ensemble.tls)
        tls = {name: str(value) if isinstance(value, Path) else value for name, value in fields.items()}
    write(
        path,
        DeadSession(
            hosts=ensemble.hosts,
            session_id=session.id,
            password=session.password,
            timeout_s=ensemble.session_timeout_s,
            tls=tls,
            agent_pid=os.getpid(),
        ),
    )


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
            agent_pid=int(fields.get("agent_pid", 0)),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
