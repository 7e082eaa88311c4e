"""One session, over kazoo."""

import asyncio
import contextlib
import random
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kazoo import exceptions as kz
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from holdfast.errors import OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.zk.kazoo_transport.kazoo_connection import Connection, Handler, addresses, quiet
from holdfast.zk.kazoo_transport.packets import Answer, AskZxid, Packing, ReadMany, SetWatches
from holdfast.zk.kazoo_transport.translation import outcome, stat, translate
from holdfast.zk.session.client import (
    ANY_PATH,
    Check,
    Committed,
    Create,
    Delete,
    Found,
    NoNode,
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
from holdfast.zk.session.connection_settings import Ensemble

TRANSACTION_BYTES_MAX = 1_000_000
"""ZooKeeper drops the connection of a client that sends more than 1 MiB. Better to refuse than to be cut off."""
SHARED = [make_acl("world", "anyone", read=True, create=True)]
PATIENCE_PER_TIMEOUT = 1 / 5
PATIENCE_FACTOR_MAX = 4
"""Patience doubles with every server left in vain, because a stall of all of them is not cured by moving."""
CLOSE_S = 2.0


class _NotSent(Exception):
    """The call was still in kazoo's queue when the connection was lost."""


class _NotKnown(Exception):
    """The server is too old for this request."""


class NetworkClient:
    """One ZooKeeper session. See `holdfast.zk.session.client.Client` for what it promises."""

    def __init__(self, ensemble: Ensemble, wake: Wake, *, patience_s: float | None = None) -> None:
        self._ensemble = ensemble
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._patience_s = patience_s
        self._patience_factor = 1
        self._lock = threading.Lock()
        self._state = State.CONNECTING
        self._session: SessionId | None = None
        self._timeout_s = 0.0
        self._ended_because = ""
        self._connections = 0
        self._stopped = self._loop.create_future()
        self._fired_paths: set[str] = set()
        self._outstanding: dict[asyncio.Future[Any], tuple[float, int]] = {}
        """When each call was made, and over which connection; in this order."""
        self._impatience: asyncio.TimerHandle | None = None
        self._inbox: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._inbox_announced = False
        self._packing = Packing()
        self._reads_many = True
        """As far as is known; a server that does not know such packets says so, and closes the connection."""
        self._handler = Handler(ensemble)
        self._kazoo: KazooClient = self._make()
        # Only now: its thread may be connected before this line is done, and looks at what the lines above have set.
        self._kazoo.start_async()

    def _make(self) -> KazooClient:
        digest = self._ensemble.digest
        kazoo = KazooClient(
            hosts=addresses(self._ensemble.hosts),
            timeout=self._ensemble.session_timeout_s,
            handler=self._handler,
            auth_data=[("digest", f"{digest.user}:{digest.password}")] if digest else None,
            default_acl=[make_digest_acl(digest.user, digest.password, all=True)] if digest else OPEN_ACL_UNSAFE,
            connection_retry=KazooRetry(
                max_tries=-1, delay=0.05, backoff=2, max_delay=1.0, sleep_func=self._handler.sleep_func
            ),
            use_ssl=self._ensemble.tls is not None,
            logger=quiet,
        )
        kazoo._connection = Connection(kazoo, kazoo._conn_retry.copy(), self._established)
        kazoo.add_listener(self._changed)
        return kazoo

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
        return "" if self._state is State.CONNECTED else self._handler.trouble

    # What kazoo's connection thread tells. Nothing here may block or call ZooKeeper.

    def _established(self, timeout_s: float) -> None:
        session = SessionId(self._kazoo._session_id, bytes(self._kazoo._session_passwd))
        with self._lock:
            if self._state is State.ENDED:
                return
            if self._session is None:
                self._session = session
            if self._session.id == session.id:
                self._state = State.CONNECTED
                self._timeout_s = timeout_s
                self._connections += 1
        if self._session.id != session.id:
            self._end("ZooKeeper gave the connection to a new session")
        self._post(self._wake)

    def _changed(self, state: str) -> None:
        if state == KazooState.SUSPENDED:
            self._suspend()
        elif state == KazooState.LOST:
            expired = "the ZooKeeper session expired" if self._session else "ZooKeeper refused the session"
            self._end(expired)

    def _suspend(self) -> None:
        with self._lock:
            if self._state is State.CONNECTED:
                self._state = State.SUSPENDED
            # kazoo empties its queue before it tells: what came in between would be sent after the reconnection.
            queue = self._kazoo._queue
            left = [queue.popleft() for _ in range(len(queue))]
            queue.extend(entry for entry in left if entry[1] is None)  # the request to close the session
        for _, result in left:
            if result is not None:
                result.set_exception(_NotSent())
        self._post(self._fire, ANY_PATH)

    def _end(self, because: str) -> None:
        with self._lock:
            if self._state is State.ENDED:
                return
            self._state = State.ENDED
            self._ended_because = because
        # kazoo would go on under a new session, and `stop()` can hang.
        threading.Thread(target=self._discard, name="zk-discard", daemon=True).start()
        self._post(self._wake)

    def _discard(self) -> None:
        with contextlib.suppress(Exception):
            self._kazoo.stop()
            self._kazoo.close()
        self._post(self._settle, self._stopped, None, None)

    def _post(self, callback: Callable[..., object], *arguments: object) -> None:
        """From any thread. The loop is only woken for the first of many: that is what costs."""
        self._inbox.append((callback, arguments))
        if not self._inbox_announced:
            self._inbox_announced = True
            with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody is left to be told
                self._loop.call_soon_threadsafe(self._empty_inbox)

    def _empty_inbox(self) -> None:
        # First this, then the look: what comes in between is announced once more than needed, and never once too few.
        self._inbox_announced = False
        try:
            while self._inbox:
                callback, arguments = self._inbox.popleft()
                callback(*arguments)
        finally:
            if self._inbox:  # whoever failed fails alone
                self._loop.call_soon(self._empty_inbox)

    # Calls

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        data, found = await self._read(path, lambda: self._kazoo.get_async(path, self._watcher(watch)))
        return Znode(data or b"", stat(found))  # other clients can leave a znode without any

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        found = await self._read(path, lambda: self._kazoo.exists_async(path, self._watcher(watch)))
        return None if found is None else stat(found)

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        names: list[str] = await self._read(path, lambda: self._kazoo.get_children_async(path, self._watcher(watch)))
        return names

    async def read(self, reads: Sequence[Read]) -> list[Found]:
        found: list[Found] = []
        while self._reads_many and len(found) < len(reads):
            some = self._packing.next(reads[len(found) :])
            try:
                found += await self._read_together(some)
            except _NotKnown:
                self._reads_many = False
            except Unavailable:
                self._packing.lost()
                raise
        return found + await asyncio.gather(*(self._read_alone(read) for read in reads[len(found) :]))

    async def _read_together(self, reads: Sequence[Read]) -> list[Found]:
        asked = []

        def submit() -> Any:
            if any(read.watch for read in reads):
                asked.append(self._submit(AskZxid()))
            return self._submit(ReadMany(reads))

        answers, size = await self._read(reads[0].path, submit)
        self._packing.answered(len(reads), size)
        found = [_found(read, answer) for read, answer in zip(reads, answers, strict=True)]
        watched = [read for read, what in zip(reads, found, strict=True) if read.watch and what is not None]
        if watched:
            seen_zxid = asked[0].value or 0  # of an unknown moment: all fire
            await self._read(watched[0].path, lambda: self._submit(SetWatches(seen_zxid, watched, self._fired)))
        return found

    async def _read_alone(self, read: Read) -> Found:
        try:
            return await (self.children if read.children else self.get)(read.path, watch=read.watch)
        except NoNode:
            return None

    def _submit(self, request: AskZxid | ReadMany | SetWatches) -> Any:
        result = self._kazoo.handler.async_result()
        self._kazoo._call(request, result)
        return result

    async def sync(self, path: str) -> None:
        await self._read(path, lambda: self._kazoo.sync_async(path))

    async def commit(self, operations: Sequence[Operation]) -> Committed | Rejected:
        size = sum(len(operation.data) for operation in operations if isinstance(operation, Create | SetData))
        if size > TRANSACTION_BYTES_MAX:
            raise Refused(f"{size} bytes are more than ZooKeeper takes at once ({TRANSACTION_BYTES_MAX})")
        try:
            results = await self._call(lambda: self._transaction(operations).commit_async())
        except _NotSent:
            raise self._unavailable() from None
        except kz.AuthFailedError as error:
            raise Refused("ZooKeeper refused the user or password") from error
        except (kz.KazooException, TimeoutError) as error:
            raise OutcomeUnknown(f"the reply of ZooKeeper was lost ({type(error).__name__})") from error
        return outcome(operations, results)

    def _transaction(self, operations: Sequence[Operation]) -> Any:
        transaction = self._kazoo.transaction()
        for operation in operations:
            match operation:
                case Create(path, data, ephemeral, sequential, shared):
                    acl = self._kazoo.default_acl + (SHARED if shared else [])
                    transaction.create(path, data, acl=acl, ephemeral=ephemeral, sequence=sequential)
                case SetData(path, data, version):
                    transaction.set_data(path, data, version)
                case Delete(path, version):
                    transaction.delete(path, version)
                case Check(path, version):
                    transaction.check(path, version)
        return transaction

    async def _read(self, path: str, submit: Callable[[], Any]) -> Any:
        try:
            return await self._call(submit)
        except (kz.SessionExpiredError, kz.ConnectionClosedError) as error:
            raise SessionEnded(self._ended_because or "the ZooKeeper session ended") from error
        except (_NotSent, kz.ConnectionLoss, kz.SessionMovedError, kz.OperationTimeoutError, TimeoutError):
            raise self._unavailable() from None
        except kz.UnimplementedError:
            raise _NotKnown from None
        except kz.KazooException as error:
            raise translate(error, path) from error

    async def _call(self, submit: Callable[[], Any]) -> Any:
        """Enqueue, only while connected, and wait, for a bounded time."""
        future: asyncio.Future[Any] = self._loop.create_future()
        with self._lock:
            if self._state is State.ENDED:
                raise SessionEnded(self._ended_because)
            if self._state is not State.CONNECTED:
                raise self._unavailable()
            submit().rawlink(lambda result: self._post(self._settle, future, result.value, result.exception))
            self._outstanding[future] = (self._loop.time(), self._connections)
        if self._impatience is None:
            self._impatience = self._loop.call_later(self._patience, self._check_patience)
        try:
            answer = await future
        finally:
            self._outstanding.pop(future, None)
        self._patience_factor = 1
        return answer

    @property
    def _patience(self) -> float:
        patience_s = (self._patience_s or self._timeout_s * PATIENCE_PER_TIMEOUT) * self._patience_factor
        return min(patience_s, self._timeout_s)

    def _check_patience(self) -> None:
        """One timer for the oldest call, instead of one for each. After a whole timeout a call fails for good."""
        self._impatience = None
        now = self._loop.time()
        for future, (sent_at, connection) in list(self._outstanding.items()):
            if future.done():
                continue
            if now < sent_at + self._patience:
                self._impatience = self._loop.call_later(sent_at + self._patience - now, self._check_patience)
                return
            late = now >= sent_at + self._timeout_s
            if late:
                future.set_exception(TimeoutError())
            self._leave_server(connection)
            if not late:
                self._impatience = self._loop.call_later(sent_at + self._timeout_s - now, self._check_patience)
                return

    def _settle(self, future: "asyncio.Future[Any]", value: object, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def _leave_server(self, connection: int) -> None:
        """A call has gone unanswered for too long. Another server may answer in time to keep everything as it is."""
        if self._state is not State.CONNECTED or connection != self._connections:
            return
        self._patience_factor = min(self._patience_factor * 2, PATIENCE_FACTOR_MAX)
        others = [host for host in self._ensemble.hosts if host != self._handler.server]
        random.shuffle(others)
        left = [host for host in self._ensemble.hosts if host == self._handler.server]
        self._kazoo.set_hosts(addresses(others + left), randomize_hosts=False)
        open_socket = self._kazoo._connection._socket
        if open_socket is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(open_socket, socket.SHUT_RDWR)

    def _watcher(self, watch: bool) -> Callable[[object], None] | None:
        return self._fired if watch else None  # one bound method: kazoo keeps it once per path

    def _fired(self, event: Any) -> None:
        self._post(self._fire, event.path or ANY_PATH)

    def _fire(self, path: str) -> None:
        self._fired_paths.add(path)
        self._wake()

    def take_fired(self) -> set[str]:
        fired, self._fired_paths = self._fired_paths, set()
        return fired

    def _unavailable(self) -> Unavailable:
        because = f" ({self.trouble})" if self.trouble else ""
        return Unavailable(f"ZooKeeper at {self._ensemble.connect} is not reachable{because}")

    async def close(self) -> None:
        self._end("closed by its owner")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await asyncio.shield(self._stopped)


def _found(read: Read, answer: Answer) -> Found:
    if isinstance(answer, kz.NoNodeError):
        return None
    if isinstance(answer, Exception):
        raise translate(answer, read.path) from answer
    return answer


def connect_by(ensemble: Ensemble, *, patience_s: float | None = None) -> Callable[[Wake], NetworkClient]:
    """A `Connect` for this ensemble."""
    return lambda wake: NetworkClient(ensemble, wake, patience_s=patience_s)
