"""Simulated `holdfast.zk.session.client.Client`: one session with the behaviour that the contract suite requires.

A client library with its own threads changes the connection state as soon as its transport notices. Replies and wake-ups are
queued on the event loop and arrive when the loop runs them.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from holdfast.errors import HoldfastError, OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.zk.kazoo_transport.pending_calls import REPLY_TIMEOUT_FACTOR_MAX, REPLY_TIMEOUT_FRACTION
from holdfast.zk.session.client import (
    ANY_PATH,
    Committed,
    ConnectionState,
    Create,
    Operation,
    Read,
    ReadResult,
    Rejected,
    SessionId,
    SetData,
    Stat,
    WakeCallback,
    Znode,
)
from tests.sim.process import Process
from tests.sim.zk.client_transport import ClientTransport
from tests.sim.zk.connection import Connection, Replies
from tests.sim.zk.ensemble import Ensemble
from tests.sim.zk.requests import Request, RequestKind

CLOSE_TIMEOUT_S = 2.0
TRANSACTION_BYTES_MAX = 1_000_000
READ_BATCH_SIZES = (1, 2, 3, 5, 8, 16, 128, 128)
"""Possible numbers of reads in one packet."""


@dataclass(frozen=True, slots=True)
class SimConnect:
    """Factory of sessions for one process, a `holdfast.zk.session.client.ClientFactory`."""

    ensemble: Ensemble
    process: Process
    timeout_s: float = 10.0
    reply_timeout_s: float | None = None
    resume: SessionId | None = None

    def __call__(self, wake: WakeCallback) -> "SimClient":
        return SimClient(self, wake)


class SimClient:
    def __init__(self, options: SimConnect, wake: WakeCallback) -> None:
        self._loop = options.ensemble.loop
        self._process = options.process
        self._record = options.ensemble.record
        self._random = options.ensemble.random
        self._wake = wake
        # Plain attributes, although the protocol has properties: they are read at every step.
        self.state = ConnectionState.CONNECTING
        self.session = options.resume
        self.timeout_s = 0.0
        self.end_reason = ""
        self._configured_reply_timeout_s = options.reply_timeout_s
        self._reply_timeout_factor = 1
        self._reply_timer_set = False
        self._fired: set[str] = set()
        self._outstanding: deque[Request] = deque()
        self._connection: Connection | None = None
        self.connection_count = 0
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self._transport = ClientTransport(options.ensemble, options.process, self, options.timeout_s, options.resume)

    @property
    def connection_problem(self) -> str:
        return "" if self.state is ConnectionState.CONNECTED else "no server answers"

    @property
    def server(self) -> int | None:
        """Return the index of the connected server. Tests use it to choose the server to disturb."""
        return self._connection.server.index if self._connection else None

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        return cast(Znode, await self._call(RequestKind.GET, path, watch=watch))

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        return cast(Stat | None, await self._call(RequestKind.EXISTS, path, watch=watch))

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        return cast(list[str], await self._call(RequestKind.CHILDREN, path, watch=watch))

    async def read_many(self, reads: Sequence[Read]) -> list[ReadResult]:
        """Read in packets of random size, so that no caller can rely on two reads seeing the same state."""
        results: list[ReadResult] = []
        while len(results) < len(reads):
            batch = reads[len(results) :][: self._random.choice(READ_BATCH_SIZES)]
            seen_zxid = self._transport.zxid
            answers, server_zxid = cast(tuple[list[ReadResult], int], await self._call(RequestKind.READ, "", reads=batch))
            watched = [read for read, answer in zip(batch, answers, strict=True) if read.watch and answer is not None]
            if watched:
                # The server may apply more transactions between reporting its zxid and reading.
                since = self._random.choice((seen_zxid, server_zxid, server_zxid))
                await self._call(RequestKind.WATCH, "", reads=watched, seen_zxid=since)
            results += answers
        return results

    async def sync(self, path: str) -> None:
        await self._call(RequestKind.SYNC, path)

    async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
        size = sum(len(operation.data) for operation in operations if isinstance(operation, Create | SetData))
        if size > TRANSACTION_BYTES_MAX:
            raise Refused(f"{size} bytes are more than ZooKeeper takes at once ({TRANSACTION_BYTES_MAX})")
        return cast(Committed | Rejected, await self._call(RequestKind.COMMIT, "", operations=tuple(operations)))

    def take_fired_paths(self) -> set[str]:
        fired, self._fired = self._fired, set()
        return fired

    async def close(self) -> None:
        connection = self._connection
        if self.state is not ConnectionState.ENDED:
            self._set_state(ConnectionState.ENDED, "closed by its owner")
            if connection and connection.client_open:
                self._send(connection, Request(RequestKind.CLOSE, "", self._loop.create_future(), self._loop.now_s))
                self._set_timer(self._loop.now_s + CLOSE_TIMEOUT_S, self._stop, "the server did not answer in time")
            else:
                self._stop("there was no connection")
        await asyncio.shield(self._stopped)

    # Calls (on the event loop)

    def _call(
        self,
        kind: RequestKind,
        path: str,
        *,
        watch: bool = False,
        operations: Sequence[Operation] = (),
        reads: Sequence[Read] = (),
        seen_zxid: int = 0,
    ) -> "asyncio.Future[Any]":
        connection = self._connection
        if self.state is not ConnectionState.CONNECTED or connection is None:
            raise self._unavailable_error()
        future: asyncio.Future[Any] = asyncio.Future(loop=self._loop)
        self._send(connection, Request(kind, path, future, self._loop.now_s, watch, operations, reads, seen_zxid))
        return future

    def _unavailable_error(self) -> HoldfastError:
        if self.state is ConnectionState.ENDED:
            return SessionEnded(self.end_reason)
        return Unavailable("ZooKeeper is not reachable")

    def _send(self, connection: Connection, request: Request) -> None:
        self._outstanding.append(request)
        connection.send(request)
        if not self._reply_timer_set:
            self._reply_timer_set = True
            self._set_timer(request.sent_s + min(self._reply_timeout_s, self.timeout_s), self._check_reply_timeout)

    @property
    def _reply_timeout_s(self) -> float:
        return (self._configured_reply_timeout_s or self.timeout_s * REPLY_TIMEOUT_FRACTION) * self._reply_timeout_factor

    def _check_reply_timeout(self) -> None:
        """Check the oldest outstanding call. One timer serves all calls."""
        self._reply_timer_set = False
        for request in self._outstanding:
            if request.future.done():
                continue
            # Use the same sum that set the timer; otherwise rounding could re-arm the timer for ever.
            due_s = request.sent_s + min(self._reply_timeout_s, self.timeout_s)
            if self._loop.now_s < due_s:
                self._reply_timer_set = True
                self._set_timer(due_s, self._check_reply_timeout)
                return
            if self._reply_timeout_s > self.timeout_s:
                _fail(request, "no reply arrived for a whole session timeout")
            if self.state is ConnectionState.CONNECTED:
                self._reply_timeout_factor = min(self._reply_timeout_factor * 2, REPLY_TIMEOUT_FACTOR_MAX)
                self._transport.leave_unresponsive_server()
                return

    def _resolve_calls(self, replies: Replies) -> None:
        self._reply_timeout_factor = 1
        for request, result in replies:
            if request.future.done():
                continue
            if isinstance(result, Exception):
                request.future.set_exception(result)
            else:
                request.future.set_result(result)

    # Callbacks of the transport (outside the event loop)

    def on_connected(self, connection: Connection) -> None:
        if self.state is ConnectionState.ENDED:
            return
        self._connection = connection
        self.connection_count += 1
        self.session = connection.session.identity
        self.timeout_s = connection.session.timeout_s
        self._set_state(ConnectionState.CONNECTED)

    def on_replies(self, replies: Replies) -> None:
        for request, _ in replies:
            self._outstanding.popleft()
            if request.kind is RequestKind.CLOSE:
                self._stop("it was closed")
        self._run_on_loop(self._resolve_calls, replies)

    def on_watch_fired(self, path: str) -> None:
        self._run_on_loop(self._fire, path)

    def _fire(self, path: str) -> None:
        self._fired.add(path)
        self._wake()

    def on_connection_lost(self, reason: str) -> None:
        """Fail the calls in flight, then report the new state: the same order as kazoo."""
        self._connection = None
        self._fail_outstanding(reason)
        if self.state is ConnectionState.ENDED:
            self._stop(reason)
        else:
            self._set_state(ConnectionState.SUSPENDED)

    def on_session_expired(self) -> None:
        if self.state is not ConnectionState.ENDED:
            self._set_state(ConnectionState.ENDED, "the ZooKeeper session expired")
        self._stop("the session expired")

    def _stop(self, reason: str) -> None:
        self._transport.stop()
        self._connection = None
        self._fail_outstanding(reason)
        self._run_on_loop(_resolve, self._stopped)

    def _fail_outstanding(self, reason: str) -> None:
        outstanding, self._outstanding = self._outstanding, deque()
        for request in outstanding:
            self._run_on_loop(_fail, request, reason)

    def _set_state(self, state: ConnectionState, because: str = "") -> None:
        self.state = state
        self.end_reason = because
        self._record("client", self._process.name, state.value, because)
        self._run_on_loop(self._fire, ANY_PATH)

    def _run_on_loop(self, callback: Callable[..., object], *args: object) -> None:
        self._loop.deliver(self._process, callback, *args)

    def _set_timer(self, when_s: float, callback: Callable[..., object], *args: object) -> None:
        self._loop.schedule_at(when_s, self._loop.enqueue_timer, self._process, callback, *args)


def _fail(request: Request, reason: str) -> None:
    if request.future.done() or request.kind is RequestKind.CLOSE:
        return
    if request.kind is RequestKind.COMMIT:
        request.future.set_exception(OutcomeUnknown(f"the reply of ZooKeeper was lost: {reason}"))
    else:
        request.future.set_exception(Unavailable(f"ZooKeeper is not reachable: {reason}"))


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
