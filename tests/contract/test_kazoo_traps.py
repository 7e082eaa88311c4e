"""The traps of kazoo, one test each, on a real server. Each fails without the counter-measure named in its docstring."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from holdfast.errors import OutcomeUnknown, SessionEnded, Unavailable
from holdfast.model.identifiers import NodeId
from holdfast.zk.embedded import Server
from holdfast.zk.kazoo_transport import NetworkClient
from holdfast.zk.kazoo_transport.packets import AskZxid, ReadMany, SetWatches
from holdfast.zk.leadership.election import Election
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import ANY_PATH, Committed, Create, Read, SessionId, State, Znode
from holdfast.zk.session.close_session import close_session
from holdfast.zk.session.connection_settings import Digest, Ensemble
from tests.contract.backends import PATIENCE_S
from tests.harness.tcp_proxy import Proxy
from tests.harness.waiting import soon

pytestmark = pytest.mark.real

T_S = 4.0


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.client_port) as proxy:
        yield proxy


def through(proxy: Proxy, wake: Callable[[], None] = lambda: None, **options: float) -> NetworkClient:
    return NetworkClient(Ensemble((("127.0.0.1", proxy.port),), session_timeout_s=T_S), wake, **options)


async def connected(client: NetworkClient) -> NetworkClient:
    await soon(lambda: client.state is State.CONNECTED, PATIENCE_S, "connected")
    return client


async def write(client: NetworkClient, path: str) -> object:
    return await client.commit([Create(path)])


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


def test_wakes_come_on_the_event_loop_so_that_no_listener_can_block_the_connection(proxy: Proxy, root: str) -> None:
    """Trap 2: kazoo calls listeners on its connection thread. Ours only posts to the loop."""
    threads: set[str] = set()

    async def test() -> None:
        client = await connected(through(proxy, lambda: threads.add(threading.current_thread().name)))
        await client.exists(root, watch=True)
        await write(client, root)
        proxy.cut()
        await soon(lambda: client.state is State.CONNECTED, PATIENCE_S, "connected again")
        await client.close()

    run(test)
    assert threads == {threading.main_thread().name}


def test_a_call_made_without_a_connection_fails_at_once_and_never_takes_effect(proxy: Proxy, root: str) -> None:
    """Trap 3: kazoo queues such calls and sends them later. The state is checked under the lock that admits calls."""

    async def test() -> None:
        client = await connected(through(proxy))
        proxy.refusing = True
        proxy.cut()
        await soon(lambda: client.state is State.SUSPENDED, PATIENCE_S, "suspended")
        with pytest.raises(Unavailable):
            await write(client, root)
        proxy.refusing = False
        await connected(client)
        assert await client.exists(root) is None
        await client.close()

    run(test)


def test_a_call_that_slips_in_while_the_connection_breaks_is_not_sent_later(proxy: Proxy, root: str) -> None:
    """Trap 3 and 12: kazoo empties its queue before it tells anyone. The listener empties it again, under the lock."""

    async def test() -> None:
        client = await connected(through(proxy))
        fail_pending = client._kazoo._notify_pending

        def fail_pending_and_be_overtaken(state: str) -> None:
            fail_pending(state)
            client._kazoo.create_async(root)

        client._kazoo._notify_pending = fail_pending_and_be_overtaken
        proxy.cut()
        await soon(lambda: client._connections == 2, PATIENCE_S, "connected again")
        await client.sync("/")
        assert await client.exists(root) is None
        await client.close()

    run(test)


def test_a_session_that_ended_stays_ended_and_nothing_lands_under_another(server: Server, proxy: Proxy, root: str) -> None:
    """Traps 5, 6 and 11: kazoo goes on by itself under a new session. Ours ends, once, and refuses every later call."""

    async def test() -> None:
        client = await connected(through(proxy))
        session = client.session
        assert session is not None
        assert close_session([("127.0.0.1", server.client_port)], session.id, session.password, timeout_s=PATIENCE_S)
        await soon(lambda: client.state is State.ENDED, PATIENCE_S, "ended")
        with pytest.raises(SessionEnded):
            await write(client, root)
        await soon(client._stopped.done, PATIENCE_S, "kazoo has been stopped")
        assert client.state is State.ENDED
        assert client.session == session
        assert not client._kazoo.connected
        assert "expired" in client.ended_because

    run(test)
    assert KazooWitness(server).exists(root) is False


def test_a_lost_reply_to_joining_the_election_does_not_join_twice(proxy: Proxy, root: str) -> None:
    """Traps 7 and 10: a create whose reply is lost may have succeeded. Our own contender is looked for before the next."""

    async def test() -> None:
        client = await connected(through(proxy, patience_s=0.5))
        paths = Paths("c", prefix=root)
        for path in paths.skeleton:
            await write(client, path)
        election = Election(client, paths, NodeId("n"), "nonce")
        commit = client.commit

        async def commit_and_lose_the_reply(operations: object) -> object:
            proxy.replies_lost = True
            return await commit(operations)  # type: ignore[arg-type]

        client.commit = commit_and_lose_the_reply  # type: ignore[method-assign, assignment]
        with pytest.raises(OutcomeUnknown):
            await election.stand()
        client.commit = commit  # type: ignore[method-assign]
        proxy.replies_lost = False
        proxy.cut()
        await connected(client)
        await election.stand()
        assert len(await client.children(paths.election)) == 1
        await client.close()

    run(test)


def test_closing_returns_though_kazoo_hangs_in_stop(proxy: Proxy) -> None:
    """Trap 8: stop() can hang. It runs on a thread of its own, and closing waits for it only so long."""
    release = threading.Event()
    given_up: list[bool] = []

    async def test() -> None:
        client = await connected(through(proxy))
        stop = client._kazoo.stop
        client._kazoo.stop = lambda: given_up.append(not release.wait(60)) or stop()
        await client.close()
        assert client.state is State.ENDED
        assert not given_up, "it hangs still"

    try:
        run(test)
    finally:
        release.set()


def test_a_call_that_kazoo_never_completes_ends_with_the_session_timeout(proxy: Proxy) -> None:
    """Trap 8: get() on a result can hang for ever. Every call of ours is bounded."""

    async def test() -> None:
        client = await connected(through(proxy, patience_s=1000))
        with pytest.raises(TimeoutError):
            await client._call(client._handler.async_result)
        await client.close()

    run(test)


def test_everything_created_belongs_to_the_digest_user_alone(server: Server, proxy: Proxy, root: str) -> None:
    """Trap 9: kazoo's default ACL is open. Ours is the user's alone as soon as there is one."""

    async def test() -> None:
        ensemble = Ensemble((("127.0.0.1", proxy.port),), session_timeout_s=T_S, digest=Digest("ann", "secret"))
        client = await connected(NetworkClient(ensemble, lambda: None))
        assert isinstance(await client.commit([Create(root), Create(f"{root}/child", ephemeral=True)]), Committed)
        witness = KazooWitness(server)
        for path in (root, f"{root}/child"):
            assert witness.acls(path) == [make_digest_acl("ann", "secret", all=True)]
        await client.close()

    run(test)


def test_calls_in_flight_at_a_cut_have_an_unknown_outcome_and_may_have_happened(proxy: Proxy, root: str) -> None:
    """Trap 10: ConnectionLoss is not failure. It is reported as OutcomeUnknown, for the caller to look."""

    async def test() -> None:
        client = await connected(through(proxy))
        proxy.replies_lost = True
        call = asyncio.create_task(write(client, root))
        await asyncio.sleep(0)
        witness = await connected(NetworkClient(Ensemble((("127.0.0.1", proxy._target),), session_timeout_s=T_S), lambda: None))
        while await witness.exists(root) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        proxy.cut()
        with pytest.raises(OutcomeUnknown):
            await call
        proxy.replies_lost = False
        await client.close()
        await witness.close()

    run(test)


def test_an_await_that_was_given_up_still_took_effect(proxy: Proxy, root: str) -> None:
    """Trap 10: cancelling only stops the waiting. Whoever cancels must treat the outcome as unknown."""

    async def test() -> None:
        client = await connected(through(proxy))
        call = asyncio.create_task(write(client, root))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.sleep(0)
        await client.sync("/")
        assert await client.exists(root) is not None
        await client.close()

    run(test)


def test_a_server_that_answers_pings_but_not_calls_is_left_for_another(server: Server, proxy: Proxy, root: str) -> None:
    """Found with them: kazoo would stay there for ever. A call unanswered for the client's patience moves the session on."""
    with Proxy(server.client_port) as other:

        async def test() -> None:
            hosts = (("127.0.0.1", proxy.port), ("127.0.0.1", other.port))
            client = await connected(NetworkClient(Ensemble(hosts, session_timeout_s=T_S), lambda: None, patience_s=0.3))
            session, first = client.session, client._handler.server
            silent = proxy if first == hosts[0] else other
            silent.only_pings_answered = True
            with pytest.raises((Unavailable, OutcomeUnknown)):
                await write(client, root)
            await connected(client)
            assert client._handler.server != first
            assert client.session == session
            await client.close()

        run(test)


@pytest.mark.parametrize("accepts", [True, False], ids=["a paused server", "a lost machine"])
def test_a_server_that_does_not_say_a_word_costs_a_connection_attempt_a_second(accepts: bool) -> None:
    """Found with them: kazoo lets one host take a whole session timeout to connect. The handshake is bounded."""
    with socket.socket() as deaf, socket.socket() as filler:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        if not accepts:
            filler.connect(deaf.getsockname())  # the queue is full: what else comes is dropped without an answer

        async def test() -> None:
            hosts = (("127.0.0.1", deaf.getsockname()[1]),)
            client = NetworkClient(Ensemble(hosts, session_timeout_s=60), lambda: None)
            await soon(lambda: client._handler.handshake_s > 1.0, PATIENCE_S, "the first attempt was given up")
            await client.close()

        run(test)


class KazooWitness:
    """An independent look at the server, by plain kazoo."""

    def __init__(self, server: Server) -> None:
        self._hosts = f"127.0.0.1:{server.client_port}"

    def exists(self, path: str) -> bool:
        return bool(self._ask(lambda client: client.exists(path) is not None))

    def acls(self, path: str) -> object:
        def ask(client: KazooClient) -> object:
            client.add_auth("digest", "ann:secret")
            return client.get_acls(path)[0]

        return self._ask(ask)

    def write(self, path: str, data: bytes) -> None:
        self._ask(lambda client: client.set(path, data))

    def leave_nothing_at(self, path: str) -> None:
        self._ask(lambda client: client.create(path, None))

    def _ask(self, question: Callable[[KazooClient], object]) -> object:
        client = KazooClient(self._hosts)
        client.start(PATIENCE_S)
        try:
            return question(client)
        finally:
            client.stop()
            client.close()


def test_a_dead_session_is_closed_by_whoever_has_its_file(server: Server, proxy: Proxy, root: str, tmp_path: Path) -> None:
    """Trap 13: resuming a session without closing it makes both sides flap. The farewell closes it, in the same breath."""

    async def test() -> None:
        client = await connected(through(proxy))
        await client.commit([Create(root, ephemeral=True)])
        session = client.session
        assert isinstance(session, SessionId)
        proxy.refusing = True
        proxy.cut()  # the owner is dead, as far as the server can tell
        assert close_session([("127.0.0.1", server.client_port)], session.id, session.password, timeout_s=PATIENCE_S)
        assert KazooWitness(server).exists(root) is False
        assert close_session([("127.0.0.1", server.client_port)], session.id, session.password, timeout_s=PATIENCE_S), "again"
        proxy.refusing = False
        await soon(lambda: client.state is State.ENDED, PATIENCE_S, "the owner learns that it is over")

    run(test)


Request = AskZxid | ReadMany | SetWatches


def meanwhile(client: NetworkClient, action: Callable[[], object]) -> None:
    """Does something when a packet of reads is answered, and before its watches are asked for."""
    submit = client._submit

    def overtaken(request: Request) -> object:
        if isinstance(request, SetWatches):
            action()
        return submit(request)

    client._submit = overtaken  # type: ignore[method-assign]


def test_a_change_between_a_packet_of_reads_and_its_watches_fires_at_once(server: Server, proxy: Proxy, root: str) -> None:
    """A packet of reads sets no watches, and kazoo would not know whom to tell. The watcher is there before the request."""

    async def test() -> None:
        client = await connected(through(proxy))
        await write(client, root)
        client.take_fired()
        meanwhile(client, lambda: KazooWitness(server).write(root, b"new"))
        (found,) = await client.read([Read(root, watch=True)])
        assert isinstance(found, Znode)
        assert found.data == b""
        await soon(lambda: client.take_fired() == {root}, PATIENCE_S, "told")
        await client.close()

    run(test)


def test_a_change_that_was_read_is_not_told_again(server: Server, proxy: Proxy, root: str) -> None:
    """What fires names no transaction: watches set from the newest one that kazoo has seen would fire for it once more."""

    async def test() -> None:
        client = await connected(through(proxy))
        await write(client, root)
        for data in (b"1", b"2", b"3"):
            await client.read([Read(root, watch=True)])
            client.take_fired()
            KazooWitness(server).write(root, data)
            await soon(lambda: client.take_fired() == {root}, PATIENCE_S, "told")
        await client.read([Read(root, watch=True)])
        await asyncio.sleep(0.3)
        assert client.take_fired() == set()
        await client.close()

    run(test)


def test_a_connection_lost_between_a_packet_of_reads_and_its_watches_is_told(proxy: Proxy, root: str) -> None:
    async def test() -> None:
        client = await connected(through(proxy))
        await write(client, root)
        client.take_fired()
        meanwhile(client, proxy.cut)
        with pytest.raises(Unavailable):
            await client.read([Read(root, watch=True)])
        await soon(lambda: ANY_PATH in client.take_fired(), PATIENCE_S, "told")
        await client.close()

    run(test)


def test_a_server_that_knows_no_packets_of_reads_is_asked_one_by_one(
    proxy: Proxy, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 3.6 they are answered with an error, as any unknown request is, and the connection is closed."""
    monkeypatch.setattr(ReadMany, "type", 77)

    async def test() -> None:
        client = await connected(through(proxy))
        await write(client, root)
        with pytest.raises(Unavailable):
            await client.read([Read(root)])
        await soon(lambda: client._connections == 2, PATIENCE_S, "connected again")
        client.take_fired()
        reads = [Read(root, watch=True), Read(f"{root}/none", watch=True), Read(root, children=True, watch=True)]
        found = await client.read(reads)
        assert found == [await client.get(root), None, []]
        await write(client, f"{root}/child")
        await soon(lambda: client.take_fired() == {root}, PATIENCE_S, "told")
        await client.close()

    run(test)


def test_a_znode_that_another_client_left_without_data_is_read_as_empty(server: Server, proxy: Proxy, root: str) -> None:
    """kazoo gives None for it, which is no bytes."""

    async def test() -> None:
        client = await connected(through(proxy))
        KazooWitness(server).leave_nothing_at(root)
        await client.sync(root)
        alone = await client.get(root)
        assert alone.data == b""
        assert await client.read([Read(root)]) == [alone]
        await client.close()

    run(test)
