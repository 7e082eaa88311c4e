"""What one ZooKeeper session offers to the rest of Holdfast.

A Client is *one session*: it connects, may lose and regain its connection, and ends once. It never goes on under another
session. `network.NetworkClient` implements this over the network; the simulator implements it in virtual time; the
contract suite holds both to the same behaviour.

Calls are never queued across a suspension: while there is no connection they fail at once with `Unavailable`, and a call
whose reply is lost fails with `OutcomeUnknown`. A call that stays unanswered for the client's patience makes it leave that
server and take the session to another one.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.errors import Conflict, HoldfastError, Refused

ANY_PATH = ""
"""Among paths whose watches fired: it may be any of them."""


class State(enum.Enum):
    CONNECTING = "connecting"
    """Not connected yet, for the first time."""
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The connection is lost. The session may or may not live on; only the server knows."""
    ENDED = "ended"
    """Expired, closed or refused. Final."""


@dataclass(frozen=True, slots=True)
class SessionId:
    """What a session can be resumed by. Whoever holds it can end the session."""

    id: int
    password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Stat:
    version: int
    created_zxid: int
    created_ms: int
    owner: int
    """The id of the session that holds this ephemeral node; 0 for a persistent one."""


@dataclass(frozen=True, slots=True)
class Znode:
    data: bytes
    stat: Stat


@dataclass(frozen=True, slots=True)
class Read:
    """One of many reads that are asked for together."""

    path: str
    children: bool = False
    """The names of its children, instead of its data."""
    watch: bool = False


Found = Znode | list[str] | None
"""What a `Read` gives: data, or names if it asked for them, or None where there is no znode."""


def _must_be_a_version(version: int) -> None:
    if version < 0:
        # ZooKeeper reads -1 as "any version". An unconditional write is never what we mean.
        raise ValueError(f"an expected version is 0 or more, not {version}")


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False
    shared: bool = False
    """Others may look into it and create beside us: for the folders above a cluster."""


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes
    version: int

    def __post_init__(self) -> None:
        _must_be_a_version(self.version)


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int

    def __post_init__(self) -> None:
        _must_be_a_version(self.version)


@dataclass(frozen=True, slots=True)
class Check:
    """Holds if the znode exists and has this version."""

    path: str
    version: int

    def __post_init__(self) -> None:
        _must_be_a_version(self.version)


Operation = Create | SetData | Delete | Check


@dataclass(frozen=True, slots=True)
class Committed:
    """All operations took effect, as one."""

    results: tuple[str | Stat | None, ...]
    """Per operation: the path created, the Stat after a SetData, None for Delete and Check."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """None of the operations took effect, because of the one at `index`."""

    index: int
    error: HoldfastError


class NoNode(Conflict):
    """The znode is not there."""


class NodeExists(Conflict):
    """The znode is there already."""


class BadVersion(Conflict):
    """The znode has changed since it was read."""


class NotEmpty(Conflict):
    """The znode still has children."""


class NoAuth(Refused):
    """ZooKeeper does not let this user do that."""


class Client(Protocol):
    @property
    def state(self) -> State: ...

    @property
    def session(self) -> SessionId | None:
        """Known once the client was connected, and still known after the session ended."""

    @property
    def timeout_s(self) -> float:
        """T: the session timeout, as the server granted it. 0 before the first connection."""

    @property
    def ended_because(self) -> str:
        """One sentence, once the state is ENDED."""

    @property
    def trouble(self) -> str:
        """Why the last attempt to connect failed, as far as is known; empty while connected."""

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        """The data and Stat; raises NoNode. With watch, the client's `wake` is called once it changes."""

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None: ...

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Names, in no particular order; raises NoNode."""

    async def read(self, reads: Sequence[Read]) -> list[Found]:
        """Each answer in its place: much cheaper than to ask for each alone.

        They are carried out in their order, but not as one: what is read later may be newer. A watch that is asked for fires
        for every change that this read has not seen; now and then also for one that it has. What is not there is not watched.
        """

    def take_fired(self) -> set[str]:
        """The paths whose watches fired since this was last asked, ANY_PATH among them if the connection was lost meanwhile.
        A watch that was set before and is not among them is still set."""

    async def sync(self, path: str) -> None:
        """After this, reads of this session see everything that was committed before it was called."""

    async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
        """All operations or none. Raises Unavailable (nothing sent), OutcomeUnknown or SessionEnded."""

    async def close(self) -> None:
        """End the session, if that is possible within a bounded time. Never raises."""


Wake = Callable[[], None]
"""Called, on the event loop, after every change of state and for every watch that fires; a lost connection fires all watches.
It says that something changed, not what: the caller looks, or asks `take_fired` where to look."""

Connect = Callable[[Wake], Client]
"""Opens a session. Returns at once, with the client CONNECTING."""
