"""Pitfalls of kazoo, tested on a real server. Each test fails without the countermeasure named in its docstring."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent
from kazoo.security import make_digest_acl

from holdfast.errors import OutcomeUnknown, SessionEnded, Unavailable
from holdfast.model.identifiers import NodeId
from holdfast.zk.embedded import ZooKeeperServer
from holdfast.zk.kazoo_transport import NetworkClient
from holdfast.zk.kazoo_transport.packets import GetZxid, MultiRead, SetWatches
from holdfast.zk.leadership.election import Election
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import ANY_PATH, Committed, ConnectionState, Create, Read, SessionId, Znode
from holdfast.zk.session.close_session import close_session
from holdfast.zk.session.connection_settings import ConnectionSettings, DigestCredentials
from tests.contract.backends import WAIT_S
from tests.harness.tcp_proxy import TcpProxy
from tests.harness.waiting import wait_until_async

pytestmark = pytest.mark.real

T_S = 4.0


@pytest.fixture
def proxy(server: ZooKeeperServer) -> Iterator[TcpProxy]:
    with TcpProxy(server.client_port) as proxy:
        yield proxy


def client_through(proxy: TcpProxy, wake: Callable[[], None] = lambda: None, **options: float) -> NetworkClient:
    return NetworkClient(ConnectionSettings((("127.0.0.1", proxy.port),), session_timeout_s=T_S), wake, **options)


async def wait_connected(client: NetworkClient) -> NetworkClient:
    await wait_until_async(lambda: client.state is ConnectionState.CONNECTED, WAIT_S, "connected")
    return client


async def write(client: NetworkClient, path: str) -> object:
    return await client.commit([Create(path)])


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_wake_callback_runs_on_the_event_loop(proxy: TcpProxy, root: str) -> None:
    """Trap 2: kazoo calls listeners on its connection thread, which they could block. Our listener only posts to the loop."""
    threads: set[str] = set()

    async def test() -> None:
        client = await wait_connected(client_through(proxy, lambda: threads.add(threading.current_thread().name)))
        await client.exists(root, watch=True)
        await write(client, root)
        proxy.drop_connections()
        await wait_until_async(lambda: client.state is ConnectionState.CONNECTED, WAIT_S, "connected again")
        await client.close()

    run(test)
    assert threads == {threading.main_thread().name}


def test_call_without_a_connection_is_never_sent(proxy: TcpProxy, root: str) -> None:
    """Trap 3: kazoo queues such calls and sends them later. The client checks its state under the lock that admits calls."""

    async def test() -> None:
        client = await wait_connected(client_through(proxy))
        proxy.refuses_connections = True
        proxy.drop_connections()
        await wait_until_async(lambda: client.state is ConnectionState.SUSPENDED, WAIT_S, "suspended")
        with pytest.raises(Unavailable):
            await write(client, root)
        proxy.refuses_connections = False
        await wait_connected(client)
        assert await client.exists(root) is None
        await client.close()

    run(test)


def test_call_queued_while_the_connection_breaks_is_never_sent(proxy: TcpProxy, root: str) -> None:
    """Traps 3 and 12: kazoo empties its queue before it calls listeners. Our listener empties it again, under the lock."""

    async def test() -> None:
        client = await wait_connected(client_through(proxy))
        fail_pending = client._kazoo._notify_pending

        def fail_pending_and_queue_a_call(state: str) -> None:
            fail_pending(state)
            client._kazoo.create_async(root)

        client._kazoo._notify_pending = fail_pending_and_queue_a_call
        proxy.drop_connections()
        await wait_until_async(lambda: client._connection_count == 2, WAIT_S, "connected again")
        await client.sync("/")
        assert await client.exists(root) is None
        await client.close()

    run(test)


def test_ended_session_is_never_replaced_by_a_new_one(server: ZooKeeperServer, proxy: TcpProxy, root: str) -> None:
    """Traps 5, 6 and 11: kazoo continues under a new session. Our client ends and refuses every later call."""

    async def test() -> None:
        client = await wait_connected(client_through(proxy))
        session = client.session
        assert session is not None
        assert close_session([("127.0.0.1", server.client_port)], session.id, session.password, timeout_s=WAIT_S)
        await wait_until_async(lambda: client.state is ConnectionState.ENDED, WAIT_S, "ended")
        with pytest.raises(SessionEnded):
            await write(client, root)
        await wait_until_async(client._stopped.done, WAIT_S, "kazoo has been stopped")
        assert client.state is ConnectionState.ENDED
        assert client.session == session
        assert not client._kazoo.connected
        assert "expired" in client.end_reason

    run(test)
    assert PlainKazoo(server).exists(root) is False


def test_join_with_a_lost_reply_creates_one_contender(proxy: TcpProxy, root: str) -> None:
    """Traps 7 and 10: a create with a lost reply may have succeeded. `join` searches its contender before it creates one."""

    async def test() -> None:
        client = await wait_connected(client_through(proxy, reply_timeout_s=0.5))
        paths = Paths("c", prefix=root)
        for path in paths.required_znodes:
            await write(client, path)
        election = Election(client, paths, NodeId("n"), "nonce")
        commit = client.commit

        async def commit_with_lost_reply(operations: object) -> object:
            proxy.drops_replies = True
            return await commit(operations)  # type: ignore[arg-type]  # forwarded unchanged

        client.commit = commit_with_lost_reply  # type: ignore[method-assign, assignment]  # loses the reply
        with pytest.raises(OutcomeUnknown):
            await election.join()
        client.commit = commit  # type: ignore[method-assign]  # restores it
        proxy.drops_replies = False
        proxy.drop_connections()
        await wait_connected(client)
        await election.join()
        assert len(await client.children(paths.election)) == 1
        await client.close()

    run(test)


def test_close_returns_although_kazoo_hangs_in_stop(proxy: TcpProxy) -> None:
    """Trap 8: stop() can hang. It runs on a separate thread, and `close` waits for it for a bounded time."""
    release = threading.Event()
    stop_ended: list[bool] = []

    async def test() -> None:
        client = await wait_connected(client_through(proxy))
        stop = client._kazoo.stop

        def hang_in_stop() -> None:
            stop_ended.append(not release.wait(60))
            stop()

        client._kazoo.stop = hang_in_stop
        await client.close()
        assert client.state is ConnectionState.ENDED
        assert not stop_ended, "kazoo still hangs"

    try:
        run(test)
    finally:
        release.set()


def test_call_that_kazoo_never_completes_fails_after_the_session_timeout(proxy: TcpProxy) -> None:
    """Trap 8: get() on a result can hang for ever. Our calls are bounded in time."""

    async def test() -> None:
        client = await wait_connected(client_through(proxy, reply_timeout_s=1000))
        with pytest.raises(TimeoutError):
            await client._call(client._handler.async_result)
        await client.close()

    run(test)


def test_created_znodes_are_accessible_only_to_the_digest_user(server: ZooKeeperServer, proxy: TcpProxy, root: str) -> None:
    """Trap 9: kazoo's default ACL grants access to everyone. With a digest user, ours grants access to that user only."""

    async def test() -> None:
        settings = ConnectionSettings(
            (("127.0.0.1", proxy.port),), session_timeout_s=T_S, digest=DigestCredentials("ann", "secret")
        )
        client = await wait_connected(NetworkClient(settings, lambda: None))
        assert isinstance(await client.commit([Create(root), Create(f"{root}/child", ephemeral=True)]), Committed)
        observer = PlainKazoo(server)
        for path in (root, f"{root}/child"):
            assert observer.acls(path) == [make_digest_acl("ann", "secret", all=True)]
        await client.close()

    run(test)


def test_write_in_flight_when_the_connection_breaks_has_an_unknown_outcome(proxy: TcpProxy, root: str) -> None:
    """Trap 10: ConnectionLoss does not mean failure. The client raises OutcomeUnknown."""

    async def test() -> None:
        client = await wait_connected(client_through(proxy))
        proxy.drops_replies = True
        call = asyncio.create_task(write(client, root))
        await asyncio.sleep(0)
        observer = await wait_connected(
            NetworkClient(ConnectionSettings((("127.0.0.1", proxy._target),), session_timeout_s=T_S), lambda: None)
        )
        while await observer.exists(root) is None:  # noqa: ASYNC110 -- polls a real server
            await asyncio.sleep(0.01)
        proxy.drop_connections()
        with pytest.raises(OutcomeUnknown):
            await call
        proxy.drops_replies = False
        await client.close()
        await observer.close()

    run(test)


def test_cancelled_write_still_takes_effect(proxy: TcpProxy, root: str) -> None:
    """Trap 10: cancelling only ends the waiting. The caller must treat the outcome as unknown."""

    async def test() -> None:
        client = await wait_connected(client_through(proxy))
        call = asyncio.create_task(write(client, root))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.sleep(0)
        await client.sync("/")
        assert await client.exists(root) is not None
        await client.close()

    run(test)


def test_client_leaves_a_server_that_answers_pings_but_not_calls(server: ZooKeeperServer, proxy: TcpProxy, root: str) -> None:
    """kazoo would stay connected for ever. Our client moves to another server after the reply timeout."""
    with TcpProxy(server.client_port) as other:

        async def test() -> None:
            hosts = (("127.0.0.1", proxy.port), ("127.0.0.1", other.port))
            client = await wait_connected(
                NetworkClient(ConnectionSettings(hosts, session_timeout_s=T_S), lambda: None, reply_timeout_s=0.3)
            )
            session, first = client.session, client._handler.server
            silent = proxy if first == hosts[0] else other
            silent.drops_replies_except_pings = True
            with pytest.raises((Unavailable, OutcomeUnknown)):
                await write(client, root)
            await wait_connected(client)
            assert client._handler.server != first
            assert client.session == session
            await client.close()

        run(test)


@pytest.mark.parametrize("accepts", [True, False], ids=["paused server", "unreachable machine"])
def test_connection_attempt_to_a_silent_server_is_bounded_in_time(accepts: bool) -> None:
    """kazoo allows a whole session timeout for one connection attempt. Our handshake timeout starts at one second."""
    with socket.socket() as silent_server, socket.socket() as filler:
        silent_server.bind(("127.0.0.1", 0))
        silent_server.listen(0)
        if not accepts:
            filler.connect(silent_server.getsockname())  # fills the backlog: further connections get no answer

        async def test() -> None:
            hosts = (("127.0.0.1", silent_server.getsockname()[1]),)
            client = NetworkClient(ConnectionSettings(hosts, session_timeout_s=60), lambda: None)
            await wait_until_async(lambda: client._handler.handshake_s > 1.0, WAIT_S, "the first attempt has timed out")
            await client.close()

        run(test)


class PlainKazoo:
    """Direct access to the server with a plain kazoo client."""

    def __init__(self, server: ZooKeeperServer) -> None:
        self._hosts = f"127.0.0.1:{server.client_port}"

    def exists(self, path: str) -> bool:
        return bool(self._call(lambda client: client.exists(path) is not None))

    def acls(self, path: str) -> object:
        def read_acls(client: KazooClient) -> object:
            client.add_auth("digest", "ann:secret")
            return client.get_acls(path)[0]

        return self._call(read_acls)

    def write(self, path: str, data: bytes) -> None:
        self._call(lambda client: client.set(path, data))

    def create_without_data(self, path: str) -> None:
        self._call(lambda client: client.create(path, None))

    def _call(self, call: Callable[[KazooClient], object]) -> object:
        client = KazooClient(self._hosts)
        client.start(WAIT_S)
        try:
            return call(client)
        finally:
            client.stop()
            client.close()


def test_session_of_a_dead_owner_can_be_closed_with_its_credentials(
    server: ZooKeeperServer, proxy: TcpProxy, root: str, tmp_path: Path
) -> None:
    """Trap 13: if a second client resumes a session without closing it, both reconnect in turns. `close_session` closes it."""

    async def test() -> None:
        client = await wait_connected(client_through(proxy))
        await client.commit([Create(root, ephemeral=True)])
        session = client.session
        assert isinstance(session, SessionId)
        proxy.refuses_connections = True
        proxy.drop_connections()  # for the server, the owner is dead
        assert close_session([("127.0.0.1", server.client_port)], session.id, session.password, timeout_s=WAIT_S)
        assert PlainKazoo(server).exists(root) is False
        assert close_session([("127.0.0.1", server.client_port)], session.id, session.password, timeout_s=WAIT_S), (
            "closing twice"
        )
        proxy.refuses_connections = False
        await wait_until_async(lambda: client.state is ConnectionState.ENDED, WAIT_S, "the owner's client has ended")

    run(test)


Request = GetZxid | MultiRead | SetWatches


def run_before_watches(client: NetworkClient, action: Callable[[], object]) -> None:
    """Run `action` after a batched read is answered and before its watches are set."""
    submit = client._submit

    def submit_after_action(request: Request) -> object:
        if isinstance(request, SetWatches):
            action()
        return submit(request)

    client._submit = submit_after_action  # type: ignore[method-assign]  # runs the action in between


def test_change_between_a_batched_read_and_its_watches_fires_at_once(
    server: ZooKeeperServer, proxy: TcpProxy, root: str
) -> None:
    """A batched read sets no watches. The watcher is registered before the request that sets them, so no event is lost."""

    async def test() -> None:
        client = await wait_connected(client_through(proxy))
        await write(client, root)
        client.take_fired_paths()
        run_before_watches(client, lambda: PlainKazoo(server).write(root, b"new"))
        (found,) = await client.read_many([Read(root, watch=True)])
        assert isinstance(found, Znode)
        assert found.data == b""
        await wait_until_async(lambda: client.take_fired_paths() == {root}, WAIT_S, "the watch has fired")
        await client.close()

    run(test)


def test_change_included_in_a_read_does_not_fire_again(server: ZooKeeperServer, proxy: TcpProxy, root: str) -> None:
    """Watch events carry no zxid. Watches set with the newest zxid known to kazoo would fire again for the same change."""

    async def test() -> None:
        client = await wait_connected(client_through(proxy))
        await write(client, root)
        for data in (b"1", b"2", b"3"):
            await client.read_many([Read(root, watch=True)])
            client.take_fired_paths()
            PlainKazoo(server).write(root, data)
            await wait_until_async(lambda: client.take_fired_paths() == {root}, WAIT_S, "the watch has fired")
        await client.read_many([Read(root, watch=True)])
        await asyncio.sleep(0.3)
        assert client.take_fired_paths() == set()
        await client.close()

    run(test)


def test_connection_lost_between_a_batched_read_and_its_watches_fires_any_path(proxy: TcpProxy, root: str) -> None:
    async def test() -> None:
        client = await wait_connected(client_through(proxy))
        await write(client, root)
        client.take_fired_paths()
        run_before_watches(client, proxy.drop_connections)
        with pytest.raises(Unavailable):
            await client.read_many([Read(root, watch=True)])
        await wait_until_async(lambda: ANY_PATH in client.take_fired_paths(), WAIT_S, "the watch has fired")
        await client.close()

    run(test)


def test_watches_that_fire_together_wake_the_owner_once(proxy: TcpProxy) -> None:
    """The owner's work grows with the number of its watches, so one wake per watch would make it quadratic."""
    wakes: list[set[str]] = []
    paths = {f"/{number}" for number in range(100)}

    async def test() -> None:
        client = await wait_connected(client_through(proxy, lambda: wakes.append(client.take_fired_paths())))
        await asyncio.sleep(0)
        wakes.clear()
        for path in paths:
            client._on_watch(WatchedEvent(EventType.CHANGED, KeeperState.CONNECTED, path))
        await wait_until_async(lambda: bool(wakes), WAIT_S, "a wake")
        await client.sync("/")
        await client.close()

    run(test)
    assert wakes[0] == paths and not any(wakes[1:])


def test_server_without_batched_reads_gets_single_reads(proxy: TcpProxy, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper before 3.6 answers a batched read with an error and closes the connection."""
    monkeypatch.setattr(MultiRead, "type", 77)

    async def test() -> None:
        client = await wait_connected(client_through(proxy))
        await write(client, root)
        with pytest.raises(Unavailable):
            await client.read_many([Read(root)])
        await wait_until_async(lambda: client._connection_count == 2, WAIT_S, "connected again")
        client.take_fired_paths()
        reads = [Read(root, watch=True), Read(f"{root}/none", watch=True), Read(root, children=True, watch=True)]
        found = await client.read_many(reads)
        assert found == [await client.get(root), None, []]
        await write(client, f"{root}/child")
        await wait_until_async(lambda: client.take_fired_paths() == {root}, WAIT_S, "the watch has fired")
        await client.close()

    run(test)


def test_znode_without_data_is_read_as_empty_bytes(server: ZooKeeperServer, proxy: TcpProxy, root: str) -> None:
    """kazoo returns None for a znode without data."""

    async def test() -> None:
        client = await wait_connected(client_through(proxy))
        PlainKazoo(server).create_without_data(root)
        await client.sync(root)
        alone = await client.get(root)
        assert alone.data == b""
        assert await client.read_many([Read(root)]) == [alone]
        await client.close()

    run(test)
