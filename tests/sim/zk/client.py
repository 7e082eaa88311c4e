"""The simulated `holdfast.zk.session.client.Client`: one session, with the behaviour that the contract suite describes.

As with a client library that has threads of its own, the state changes as soon as the wire learns of it, while answers and
wakes are handed to the event loop and come when the loop gets to them.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from holdfast.errors import HoldfastError, OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.zk.kazoo_transport.kazoo_client import PATIENCE_FACTOR_MAX, PATIENCE_PER_TIMEOUT
from holdfast.zk.session.client import (
    ANY_PATH,
    Committed,
    Create,
    Found,
    Operation,
    Read,
    Rejected,
    SessionId,
    SetData,
    Stat,
    State,
    Wake,
    Znode,
)
from tests.sim.process import Process
from tests.sim.zk.connection import Connection, Replies
from tests.sim.zk.ensemble import Ensemble
from tests.sim.zk.request import Kind, Request
from tests.sim.zk.wire import Wire

CLOSE_S = 2.0
TRANSACTION_BYTES_MAX = 1_000_000
READS = (1, 2, 3, 5, 8, 16, 128, 128)
"""That may go into one packet."""


@dataclass(frozen=True, slots=True)
class SimConnect:
    """Opens sessions for one process: a `holdfast.zk.session.client.Connect`."""

    ensemble: Ensemble
    process: Process
    timeout_s: float = 10.0
    patience_s: float | None = None
    resume: SessionId | None = None

    def __call__(self, wake: Wake) -> "SimClient":
        return SimClient(self, wake)


class SimClient:
    def __init__(self, options: SimConnect, wake: Wake) -> None:
        self._loop = options.ensemble.loop
        self._process = options.process
        self._record = options.ensemble.record
        self._random = options.ensemble.random
        self._wake = wake
        self._state = State.CONNECTING
        self._session = options.resume
        self._timeout_s = 0.0
        self._ended_because = ""
        self._patience_given_s = options.patience_s
        self._patience_factor = 1
        self._patience_watched = False
        self._fired: set[str] = set()
        self._outstanding: deque[Request] = deque()
        self._connection: Connection | None = None
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self._wire = Wire(options.ensemble, options.process, self, options.timeout_s, options.resume)

    @property
    def state(self) -> State:
        return self._state

    @property
    def session(self) -> SessionId | None:
        return self._session

    @property
    def timeout_s(self) -> float:
        return self._timeout_s

    @property
    def ended_because(self) -> str:
        return self._ended_because

    @property
    def trouble(self) -> str:
        return "" if self._state is State.CONNECTED else "no server answers"

    @property
    def server(self) -> int | None:
        """The server it is connected to, for tests that aim at it."""
        return self._connection.server.index if self._connection else None

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        return cast(Znode, await self._call(Kind.GET, path, watch=watch))

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        return cast(Stat | None, await self._call(Kind.EXISTS, path, watch=watch))

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        return cast(list[str], await self._call(Kind.CHILDREN, path, watch=watch))

    async def read(self, reads: Sequence[Read]) -> list[Found]:
        """Packets may end anywhere, so no two reads can be relied upon to see the same moment."""
        found: list[Found] = []
        while len(found) < len(reads):
            some = reads[len(found) :][: self._random.choice(READS)]
            seen_zxid = self._wire.zxid
            answers, server_zxid = cast(tuple[list[Found], int], await self._call(Kind.READ, "", reads=some))
            watched = [read for read, what in zip(some, answers, strict=True) if read.watch and what is not None]
            if watched:
                # The server may have gone on between saying how far it has come and reading.
                since = self._random.choice((seen_zxid, server_zxid, server_zxid))
                await self._call(Kind.WATCH, "", reads=watched, seen_zxid=since)
            found += answers
        return found

    async def sync(self, path: str) -> None:
        await self._call(Kind.SYNC, path)

    async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
        size = sum(len(operation.data) for operation in operations if isinstance(operation, Create | SetData))
        if size > TRANSACTION_BYTES_MAX:
            raise Refused(f"{size} bytes are more than ZooKeeper takes at once ({TRANSACTION_BYTES_MAX})")
        return cast(Committed | Rejected, await self._call(Kind.COMMIT, "", operations=tuple(operations)))

    def take_fired(self) -> set[str]:
        fired, self._fired = self._fired, set()
        return fired

    async def close(self) -> None:
        connection = self._connection
        if self._state is not State.ENDED:
            self._change(State.ENDED, "closed by its owner")
            if connection and connection.client_open:
                self._send(connection, Request(Kind.CLOSE, "", self._loop.create_future(), self._loop.time()))
                self._at(self._loop.time() + CLOSE_S, self._stop, "the server did not answer in time")
            else:
                self._stop("there was no connection")
        await asyncio.shield(self._stopped)

    # Calls, made on the event loop

    def _call(self, kind: Kind, path: str, **details: Any) -> "asyncio.Future[Any]":
        if self._state is not State.CONNECTED or self._connection is None:
            raise self._not_now()
        future = self._loop.create_future()
        self._send(self._connection, Request(kind, path, future, self._loop.time(), **details))
        return future

    def _not_now(self) -> HoldfastError:
        if self._state is State.ENDED:
            return SessionEnded(self._ended_because)
        return Unavailable("ZooKeeper is not reachable")

    def _send(self, connection: Connection, request: Request) -> None:
        self._outstanding.append(request)
        connection.send(request)
        if not self._patience_watched:
            self._patience_watched = True
            self._at(request.sent_s + min(self._patience_s, self._timeout_s), self._check_patience)

    @property
    def _patience_s(self) -> float:
        return (self._patience_given_s or self._timeout_s * PATIENCE_PER_TIMEOUT) * self._patience_factor

    def _check_patience(self) -> None:
        """One timer watches the oldest call, instead of one timer for each."""
        self._patience_watched = False
        for request in self._outstanding:
            if request.future.done():
                continue
            # Compared by the same sum that set the timer, or rounding would make it ring for ever.
            due_s = request.sent_s + min(self._patience_s, self._timeout_s)
            if self._loop.time() < due_s:
                self._patience_watched = True
                self._at(due_s, self._check_patience)
                return
            if self._patience_s > self._timeout_s:
                _fail(request, "nothing was heard for a whole session timeout")
            if self._state is State.CONNECTED:
                self._patience_factor = min(self._patience_factor * 2, PATIENCE_FACTOR_MAX)
                self._wire.leave_for_another()
                return

    def _settle(self, replies: Replies) -> None:
        self._patience_factor = 1
        for request, result in replies:
            if request.future.done():
                continue
            if isinstance(result, Exception):
                request.future.set_exception(result)
            else:
                request.future.set_result(result)

    # What the wire tells, on threads of its own

    def connected(self, connection: Connection) -> None:
        if self._state is State.ENDED:
            return
        self._connection = connection
        self._session = connection.session.identity
        self._timeout_s = connection.session.timeout_s
        self._change(State.CONNECTED)

    def answered(self, replies: Replies) -> None:
        for request, _ in replies:
            self._outstanding.popleft()
            if request.kind is Kind.CLOSE:
                self._stop("it was closed")
        self._post(self._settle, replies)

    def watch_fired(self, path: str) -> None:
        self._post(self._fire, path)

    def _fire(self, path: str) -> None:
        self._fired.add(path)
        self._wake()

    def dropped(self, reason: str) -> None:
        """The calls in flight fail first, then the change of state is told, as kazoo does it."""
        self._connection = None
        self._give_up_calls(reason)
        if self._state is State.ENDED:
            self._stop(reason)
        else:
            self._change(State.SUSPENDED)

    def expired(self) -> None:
        if self._state is not State.ENDED:
            self._change(State.ENDED, "the ZooKeeper session expired")
        self._stop("the session expired")

    def _stop(self, reason: str) -> None:
        self._wire.stop()
        self._connection = None
        self._give_up_calls(reason)
        self._post(_resolve, self._stopped)

    def _give_up_calls(self, reason: str) -> None:
        outstanding, self._outstanding = self._outstanding, deque()
        for request in outstanding:
            self._post(_fail, request, reason)

    def _change(self, state: State, because: str = "") -> None:
        self._state = state
        self._ended_because = because
        self._record("client", self._process.name, state.value, because)
        self._post(self._fire, ANY_PATH)

    def _post(self, callback: Callable[..., object], *args: object) -> None:
        self._loop.arrive(self._process, callback, *args)

    def _at(self, when_s: float, callback: Callable[..., object], *args: object) -> None:
        self._loop.at(when_s, self._loop.timer_due, self._process, callback, *args)


def _fail(request: Request, reason: str) -> None:
    if request.future.done() or request.kind is Kind.CLOSE:
        return
    if request.kind is Kind.COMMIT:
        request.future.set_exception(OutcomeUnknown(f"the reply of ZooKeeper was lost: {reason}"))
    else:
        request.future.set_exception(Unavailable(f"ZooKeeper is not reachable: {reason}"))


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
