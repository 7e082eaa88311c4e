"""Requests of clients, transactions of the leader, and hooks on transactions."""

import asyncio
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from holdfast.zk.session.client import Operation, Read

if TYPE_CHECKING:
    from tests.sim.zk.connection import Connection
    from tests.sim.zk.session_tracker import SimSession


class RequestKind(enum.Enum):
    GET = "get"
    EXISTS = "exists"
    CHILDREN = "children"
    READ = "read"
    """Several reads in one packet."""
    WATCH = "watch"
    """Watches for the results of READ."""
    SYNC = "sync"
    COMMIT = "commit"
    CLOSE = "close"
    OPEN = "open"


READ_KINDS = (RequestKind.GET, RequestKind.EXISTS, RequestKind.CHILDREN, RequestKind.READ, RequestKind.WATCH)


class Request:
    """One call of a client, until its reply has arrived."""

    __slots__ = ("answered", "future", "kind", "operations", "path", "reads", "result", "seen_zxid", "sent_s", "watch")

    def __init__(
        self,
        kind: RequestKind,
        path: str,
        future: "asyncio.Future[Any]",
        sent_s: float,
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
    """One entry of the leader's ordered log. Hooks receive it before or after it is applied."""

    __slots__ = ("connection", "kind", "on_applied", "operations", "owned_paths", "process", "reason", "request", "session")

    def __init__(
        self,
        kind: RequestKind,
        process: str,
        session: "SimSession | None",
        *,
        connection: "Connection | None" = None,
        request: Request | None = None,
        reason: str = "",
        on_applied: Callable[[], None] | None = None,
    ) -> None:
        self.kind = kind
        self.process = process
        """Name of the process that owns the session."""
        self.session = session
        self.connection = connection
        self.request = request
        self.operations: Sequence[Operation] = request.operations if request else ()
        self.reason = reason
        self.on_applied = on_applied
        self.owned_paths: tuple[str, ...] = ()
        """Ephemeral paths that are removed, if this transaction ends a session."""

    @property
    def session_id(self) -> int:
        return self.session.identity.id if self.session else 0

    @property
    def paths(self) -> tuple[str, ...]:
        return (*(operation.path for operation in self.operations), *self.owned_paths)


TransactionMatch = Callable[[Transaction], bool]


def touches_path(pattern: str) -> TransactionMatch:
    """Return a matcher for transactions that use such a path or end a session that owns one. `*` matches any characters."""
    return lambda transaction: any(fnmatchcase(path, pattern) for path in transaction.paths)


@dataclass(slots=True)
class TransactionHook:
    """Action that runs at the moment of a matching transaction: after `skip` matches, at most `times` times."""

    match: TransactionMatch
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
