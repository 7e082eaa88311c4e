"""One ZooKeeper session over kazoo."""

import asyncio
import contextlib
import random
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kazoo import exceptions as kz
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from holdfast.errors import OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.zk.kazoo_transport.kazoo_connection import SocketHandler, create_kazoo_client, format_hosts
from holdfast.zk.kazoo_transport.loop_mailbox import LoopMailbox
from holdfast.zk.kazoo_transport.packets import Answer, GetZxid, MultiRead, SetWatches
from holdfast.zk.kazoo_transport.pending_calls import PendingCalls
from holdfast.zk.kazoo_transport.translation import add_operations, to_commit_result, to_holdfast_error, to_stat
from holdfast.zk.session.client import (
    ANY_PATH,
    Committed,
    ConnectionState,
    Create,
    NoNode,
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
from holdfast.zk.session.connection_settings import ConnectionSettings
from holdfast.zk.session.packet_sizer import PacketSizer

TRANSACTION_BYTES_MAX = 1_000_000
"""ZooKeeper drops the connection of a client that sends more than 1 MiB, so larger transactions are refused first."""
CLOSE_TIMEOUT_S = 2.0


class _NotSent(Exception):
    """The call was still in kazoo's queue when the connection was lost."""


class _UnsupportedRequest(Exception):
    """The server is too old for this request."""


class NetworkClient:
    """One ZooKeeper session. Implements `holdfast.zk.session.client.Client`."""

    def __init__(self, settings: ConnectionSettings, wake: WakeCallback, *, reply_timeout_s: float | None = None) -> None:
        self._settings = settings
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._mailbox = LoopMailbox(self._loop)
        self._pending = PendingCalls(self._loop, reply_timeout_s, self._leave_server)
        self._lock = threading.Lock()
        self._state = ConnectionState.CONNECTING
        self._session: SessionId | None = None
        self._timeout_s = 0.0
        self._end_reason = ""
        self._connection_count = 0
        self._stopped = self._loop.create_future()
        self._fired_paths: set[str] = set()
        self._wake_scheduled = False
        self._packet_sizer = PacketSizer()
        self._multi_read_supported = True
        """Assumed until a server rejects a batched read, which also closes the connection."""
        self._handler = SocketHandler(settings)
        self._kazoo: KazooClient = create_kazoo_client(settings, self._handler, self._on_established)
        self._kazoo.add_listener(self._on_kazoo_state)
        # Start last: kazoo's thread may connect at once and use the attributes above.
        self._kazoo.start_async()

    @property
    def state(self) -> ConnectionState:
        return self._state

    @property
    def session(self) -> SessionId | None:
        return self._session

    @property
    def timeout_s(self) -> float:
        return self._timeout_s

    @property
    def end_reason(self) -> str:
        return self._end_reason

    @property
    def connection_problem(self) -> str:
        return "" if self._state is ConnectionState.CONNECTED else self._handler.connection_problem

    @property
    def connection_count(self) -> int:
        return self._connection_count

    # Callbacks on kazoo's connection thread. They must not block or call ZooKeeper.

    def _on_established(self, timeout_s: float) -> None:
        session = SessionId(self._kazoo._session_id, bytes(self._kazoo._session_passwd))
        with self._lock:
            if self._state is ConnectionState.ENDED:
                return
            if self._session is None:
                self._session = session
            if self._session.id == session.id:
                self._connection_count += 1  # before the state: a call on this connection must see the new count
                self._timeout_s = self._pending.session_timeout_s = timeout_s
                self._state = ConnectionState.CONNECTED
        if self._session.id != session.id:
            self._end("ZooKeeper has replaced the session by a new one")
        self._mailbox.post(self._wake)

    def _on_kazoo_state(self, state: str) -> None:
        if state == KazooState.SUSPENDED:
            self._suspend()
        elif state == KazooState.LOST:
            self._end("the ZooKeeper session expired" if self._session else "ZooKeeper refused the session")

    def _suspend(self) -> None:
        with self._lock:
            if self._state is ConnectionState.CONNECTED:
                self._state = ConnectionState.SUSPENDED
            # kazoo empties its queue before it reports the suspension. A call queued in between would be sent after the
            # reconnection, so empty the queue again.
            queue = self._kazoo._queue
            unsent = [queue.popleft() for _ in range(len(queue))]
            queue.extend(entry for entry in unsent if entry[1] is None)  # keep the request to close the session
        for _, result in unsent:
            if result is not None:
                result.set_exception(_NotSent())
        self._mailbox.post(self._fire, ANY_PATH)

    def _end(self, reason: str) -> None:
        with self._lock:
            if self._state is ConnectionState.ENDED:
                return
            self._state = ConnectionState.ENDED
            self._end_reason = reason
        # Stop kazoo, which would continue under a new session. Use a separate thread, because `stop()` can hang.
        threading.Thread(target=self._stop_kazoo, name="zk-discard", daemon=True).start()
        self._mailbox.post(self._wake)

    def _stop_kazoo(self) -> None:
        with contextlib.suppress(Exception):
            self._kazoo.stop()
            self._kazoo.close()
        self._mailbox.post(_complete, self._stopped, None, None)

    # Calls

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        data, stat = await self._read(path, lambda: self._kazoo.get_async(path, self._watcher(watch)))
        return Znode(data or b"", to_stat(stat))  # a znode created by another client may have no data at all

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        stat = await self._read(path, lambda: self._kazoo.exists_async(path, self._watcher(watch)))
        return None if stat is None else to_stat(stat)

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        names: list[str] = await self._read(path, lambda: self._kazoo.get_children_async(path, self._watcher(watch)))
        return names

    async def read_many(self, reads: Sequence[Read]) -> list[ReadResult]:
        results: list[ReadResult] = []
        while self._multi_read_supported and len(results) < len(reads):
            packet = self._packet_sizer.next_packet(reads[len(results) :])
            try:
                results += await self._read_packet(packet)
            except _UnsupportedRequest:
                self._multi_read_supported = False
            except Unavailable:
                self._packet_sizer.record_lost_reply()
                raise
        return results + await asyncio.gather(*(self._read_one(read) for read in reads[len(results) :]))

    async def _read_packet(self, reads: Sequence[Read]) -> list[ReadResult]:
        """Send one batched read, then set the requested watches."""
        zxid_replies = []

        def submit() -> Any:
            if any(read.watch for read in reads):
                zxid_replies.append(self._submit(GetZxid()))
            return self._submit(MultiRead(reads))

        answers, size = await self._read(reads[0].path, submit)
        self._packet_sizer.record_reply(len(reads), size)
        results = [_to_read_result(read, answer) for read, answer in zip(reads, answers, strict=True)]
        watched = [read for read, result in zip(reads, results, strict=True) if read.watch and result is not None]
        if watched:
            read_zxid = zxid_replies[0].value or 0  # without a zxid, every watch fires at once
            await self._read(watched[0].path, lambda: self._submit(SetWatches(read_zxid, watched, self._on_watch)))
        return results

    async def _read_one(self, read: Read) -> ReadResult:
        try:
            return await (self.children if read.children else self.get)(read.path, watch=read.watch)
        except NoNode:
            return None

    def _submit(self, request: GetZxid | MultiRead | SetWatches) -> Any:
        result = self._kazoo.handler.async_result()
        self._kazoo._call(request, result)
        return result

    async def sync(self, path: str) -> None:
        await self._read(path, lambda: self._kazoo.sync_async(path))

    async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
        size = sum(len(operation.data) for operation in operations if isinstance(operation, Create | SetData))
        if size > TRANSACTION_BYTES_MAX:
            raise Refused(f"the transaction has {size} bytes of data, more than the limit of {TRANSACTION_BYTES_MAX}")
        try:
            results = await self._call(lambda: add_operations(self._kazoo, operations).commit_async())
        except _NotSent:
            raise self._unavailable() from None
        except kz.AuthFailedError as error:
            raise Refused("ZooKeeper refused the user or password") from error
        except (kz.KazooException, TimeoutError) as error:
            raise OutcomeUnknown(f"ZooKeeper's reply was lost ({type(error).__name__})") from error
        return to_commit_result(operations, results)

    async def _read(self, path: str, submit: Callable[[], Any]) -> Any:
        try:
            return await self._call(submit)
        except (kz.SessionExpiredError, kz.ConnectionClosedError) as error:
            raise SessionEnded(self._end_reason or "the ZooKeeper session ended") from error
        except (_NotSent, kz.ConnectionLoss, kz.SessionMovedError, kz.OperationTimeoutError, TimeoutError):
            raise self._unavailable() from None
        except kz.UnimplementedError:
            raise _UnsupportedRequest from None
        except kz.KazooException as error:
            raise to_holdfast_error(error, path) from error

    async def _call(self, submit: Callable[[], Any]) -> Any:
        """Queue a request if connected, and wait for its reply for at most the session timeout."""
        reply: asyncio.Future[Any] = self._loop.create_future()
        with self._lock:
            if self._state is ConnectionState.ENDED:
                raise SessionEnded(self._end_reason)
            if self._state is not ConnectionState.CONNECTED:
                raise self._unavailable()
            submit().rawlink(lambda result: self._mailbox.post(_complete, reply, result.value, result.exception))
            connection = self._connection_count
        return await self._pending.wait_for(reply, connection)

    def _leave_server(self, connection: int) -> bool:
        """Close the connection, so that the session moves to another server. False if it is not the current connection."""
        if self._state is not ConnectionState.CONNECTED or connection != self._connection_count:
            return False
        others = [host for host in self._settings.hosts if host != self._handler.server]
        random.shuffle(others)
        current = [host for host in self._settings.hosts if host == self._handler.server]
        self._kazoo.set_hosts(format_hosts(others + current), randomize_hosts=False)
        open_socket = self._kazoo._connection._socket
        if open_socket is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(open_socket, socket.SHUT_RDWR)
        return True

    # Watches

    def _watcher(self, watch: bool) -> Callable[[object], None] | None:
        return self._on_watch if watch else None  # always the same bound method: kazoo stores it once per path

    def _on_watch(self, event: Any) -> None:
        self._mailbox.post(self._fire, event.path or ANY_PATH)

    def _fire(self, path: str) -> None:
        """Note the path and wake the owner soon: once for many watches, because its work grows with what it watches."""
        self._fired_paths.add(path)
        if not self._wake_scheduled:
            self._wake_scheduled = True
            self._loop.call_soon(self._wake_for_fired_paths)

    def _wake_for_fired_paths(self) -> None:
        self._wake_scheduled = False
        self._wake()

    def take_fired_paths(self) -> set[str]:
        paths, self._fired_paths = self._fired_paths, set()
        return paths

    def _unavailable(self) -> Unavailable:
        problem = f" ({self.connection_problem})" if self.connection_problem else ""
        return Unavailable(f"ZooKeeper at {self._settings.connect_string} is not reachable{problem}")

    async def close(self) -> None:
        self._end("closed by its owner")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await asyncio.shield(self._stopped)


def _complete(future: "asyncio.Future[Any]", value: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


def _to_read_result(read: Read, answer: Answer) -> ReadResult:
    if isinstance(answer, kz.NoNodeError):
        return None
    if isinstance(answer, Exception):
        raise to_holdfast_error(answer, read.path) from answer
    return answer


def client_factory(
    settings: ConnectionSettings, *, reply_timeout_s: float | None = None
) -> Callable[[WakeCallback], NetworkClient]:
    """Return a `ClientFactory` for this ensemble."""
    return lambda wake: NetworkClient(settings, wake, reply_timeout_s=reply_timeout_s)
