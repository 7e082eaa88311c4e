"""What a client asks a server, and what the leader orders."""

import asyncio
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from holdfast.zk.session.client import Operation, Read

if TYPE_CHECKING:
    from tests.sim.zk.connection import Connection
    from tests.sim.zk.sessions import Session


class Kind(enum.Enum):
    GET = "get"
    EXISTS = "exists"
    CHILDREN = "children"
    READ = "read"
    """Many at once."""
    WATCH = "watch"
    """What was read many at once."""
    SYNC = "sync"
    COMMIT = "commit"
    CLOSE = "close"
    OPEN = "open"


READS = (Kind.GET, Kind.EXISTS, Kind.CHILDREN, Kind.READ, Kind.WATCH)


class Request:
    """One call of a client, on its way there and back."""

    __slots__ = ("answered", "future", "kind", "operations", "path", "reads", "result", "seen_zxid", "sent_s", "watch")

    def __init__(
        self,
        kind: Kind,
        path: str,
        future: "asyncio.Future[Any]",
        sent_s: float,
        *,
        watch: bool = False,
        operations: Sequence[Operation] = (),
        reads: Sequence[Read] = (),
        seen_zxid: int = 0,
    ) -> None:
        self.kind = kind
        self.path = path
        self.future = future
        self.sent_s = sent_s
        self.watch = watch
        self.operations = operations
        self.reads = reads
        self.seen_zxid = seen_zxid
        self.answered = False
        self.result: object = None


class Transaction:
    """What goes through the leader, in order. Tests see it at aim points."""

    __slots__ = ("connection", "done", "kind", "operations", "owned", "process", "reason", "request", "session")

    def __init__(
        self,
        kind: Kind,
        process: str,
        session: "Session | None",
        *,
        connection: "Connection | None" = None,
        request: Request | None = None,
        reason: str = "",
        done: Callable[[], None] | None = None,
    ) -> None:
        self.kind = kind
        self.process = process
        """The name of the process whose session it is."""
        self.session = session
        self.connection = connection
        self.request = request
        self.operations: Sequence[Operation] = request.operations if request else ()
        self.reason = reason
        self.done = done
        self.owned: tuple[str, ...] = ()
        """The ephemeral paths that go with the session, if this ends one."""

    @property
    def session_id(self) -> int:
        return self.session.identity.id if self.session else 0

    @property
    def paths(self) -> tuple[str, ...]:
        return (*(operation.path for operation in self.operations), *self.owned)


Match = Callable[[Transaction], bool]


def touching(pattern: str) -> Match:
    """Transactions with an operation on such a path, or that end a session which owns one. `*` matches anything."""
    return lambda transaction: any(fnmatchcase(path, pattern) for path in transaction.paths)


@dataclass(slots=True)
class Aim:
    """Does something at the exact moment of a matching transaction, a limited number of times."""

    match: Match
    action: Callable[[Transaction], object]
    skip: int
    times: int
    fired: int = 0

    def consider(self, transaction: Transaction) -> None:
        if self.fired >= self.times or not self.match(transaction):
            return
        if self.skip > 0:
            self.skip -= 1
            return
        self.fired += 1
        self.action(transaction)
