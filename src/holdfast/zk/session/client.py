"""Interface of one ZooKeeper session.

A Client is *one session*: it connects, may lose and regain its connection, and ends once. It never continues under another
session. `kazoo_transport.NetworkClient` implements this interface over the network, and the simulator in virtual time.
The contract tests check that both behave in the same way.

Calls are never queued while the connection is lost: they fail at once with `Unavailable`. A write whose reply is lost
fails with `OutcomeUnknown`. If a call is not answered within the reply timeout, the client moves its session to another server.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.errors import Conflict, HoldfastError, Refused
from holdfast.zk.session.reader import NoNode, Read, Reader, ReadResult, Stat, Znode

__all__ = [
    "ANY_PATH",
    "BadVersion",
    "Check",
    "Client",
    "ClientFactory",
    "Committed",
    "ConnectionState",
    "Create",
    "Delete",
    "NoAuth",
    "NoNode",
    "NodeExists",
    "NotEmpty",
    "Operation",
    "Read",
    "ReadResult",
    "Reader",
    "Rejected",
    "SessionId",
    "SetData",
    "Stat",
    "WakeCallback",
    "Znode",
]

ANY_PATH = ""
"""Marker among the paths of fired watches: any watch may have fired."""


class ConnectionState(enum.Enum):
    CONNECTING = "connecting"
    """Before the first connection."""
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The connection is lost. Only the servers know if the session still exists."""
    ENDED = "ended"
    """The session has expired, was closed or was refused. Final."""


@dataclass(frozen=True, slots=True)
class SessionId:
    """Credentials of a session. They allow any process to resume or close it."""

    id: int
    password: bytes = field(repr=False)


def _check_expected_version(version: int) -> None:
    if version < 0:
        # ZooKeeper takes -1 for "any version". Holdfast never writes unconditionally.
        raise ValueError(f"the expected version must be 0 or greater, not {version}")


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False
    shared: bool = False
    """Let every ZooKeeper user read this znode and create children. For the parents of a cluster's root."""


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes
    version: int

    def __post_init__(self) -> None:
        _check_expected_version(self.version)


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int

    def __post_init__(self) -> None:
        _check_expected_version(self.version)


@dataclass(frozen=True, slots=True)
class Check:
    """Condition of a transaction: the znode exists and has this version."""

    path: str
    version: int

    def __post_init__(self) -> None:
        _check_expected_version(self.version)


Operation = Create | SetData | Delete | Check


@dataclass(frozen=True, slots=True)
class Committed:
    """All operations took effect, atomically."""

    results: tuple[str | Stat | None, ...]
    """Per operation: the created path for Create, the new Stat for SetData, None for Delete and Check."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """No operation took effect, because the one at `index` failed."""

    index: int
    error: HoldfastError


class NodeExists(Conflict):
    """The znode already exists."""


class BadVersion(Conflict):
    """The znode's version is not the expected one."""


class NotEmpty(Conflict):
    """The znode has children and cannot be deleted."""


class NoAuth(Refused):
    """The ZooKeeper user lacks the permission."""


class Client(Reader, Protocol):
    """One session, with the reads of `Reader`."""

    @property
    def state(self) -> ConnectionState: ...

    @property
    def session(self) -> SessionId | None:
        """The session's credentials. Set by the first connection and kept after the session has ended."""

    @property
    def timeout_s(self) -> float:
        """Session timeout granted by the server, in seconds. 0 before the first connection."""

    @property
    def end_reason(self) -> str:
        """One sentence that says why the session ended; empty before."""

    @property
    def connection_problem(self) -> str:
        """Reason of the last failed connection attempt; empty while connected, or if unknown."""

    @property
    def connection_count(self) -> int:
        """Number of connections that this session has had. It changes before a call is sent on a new connection."""

    def take_fired_paths(self) -> set[str]:
        """Return and clear the paths whose watches have fired. Contains ANY_PATH if the connection was lost.

        A watch whose path is not returned is still set.
        """

    async def sync(self, path: str) -> None:
        """Wait until reads of this session include every write committed before this call."""

    async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
        """Commit all operations or none. Raises Unavailable (nothing was sent), OutcomeUnknown, SessionEnded or Refused."""

    async def close(self) -> None:
        """Close the session if possible within a bounded time. Never raises."""


WakeCallback = Callable[[], None]
"""Callback on the event loop, for every change of the connection state and every fired watch.

A lost connection fires all watches. The callback does not say what has changed: its owner reads the state and calls
`take_fired_paths`."""

ClientFactory = Callable[[WakeCallback], Client]
"""Function that opens a session. Returns at once, with the client in state CONNECTING."""
