"""Contract of `Client`: connection states, lost connections, lost replies and the end of the session."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.errors import OutcomeUnknown, SessionEnded, Unavailable
from holdfast.zk.session.client import Client, Committed, ConnectionState, Create, Operation
from tests.contract.backends import TIMEOUT_S, Backend, WakeCounter, open_session, wait_for

TRIES = 5


async def write(client: Client, *operations: Operation) -> None:
    assert isinstance(await client.commit(operations), Committed)


async def wait_for_state(client: Client, state: ConnectionState) -> None:
    await wait_for(lambda: client.state is state, what=f"{state.value} (it is {client.state.value})")


async def expect_within(attempt: Callable[[], Awaitable[float]], within_s: float) -> None:
    """Require that one of several tries takes less than `within_s`. A busy machine may delay some of them."""
    took_s: list[float] = []
    while not took_s or took_s[-1] >= within_s:
        assert len(took_s) < TRIES, took_s
        took_s.append(await attempt())


def test_client_has_no_session_until_it_is_connected(backend: Backend) -> None:
    async def test() -> None:
        counter = WakeCounter()
        client = backend.connect(counter)
        assert (client.state, client.session, client.timeout_s) == (ConnectionState.CONNECTING, None, 0)
        with pytest.raises(Unavailable):
            await client.exists("/")
        await wait_for_state(client, ConnectionState.CONNECTED)
        await wait_for(lambda: counter.wakes > 0, what="a wake")
        assert client.session is not None
        assert client.end_reason == ""

    backend.run(test())


@pytest.mark.parametrize(("requested_ticks", "granted_ticks"), [(1, 2), (7, 7), (100, 20)])
def test_timeout_is_the_value_granted_by_the_server(backend: Backend, requested_ticks: int, granted_ticks: int) -> None:
    async def test() -> None:
        client = await open_session(backend, timeout_s=requested_ticks * backend.tick_s)
        assert client.timeout_s == pytest.approx(granted_ticks * backend.tick_s)

    backend.run(test())


def test_session_and_ephemerals_survive_a_lost_connection(backend: Backend) -> None:
    async def test() -> None:
        counter, root = WakeCounter(), backend.random_root()
        client = await open_session(backend, counter)
        await write(client, Create(root, ephemeral=True))
        session, before, connections = client.session, counter.wakes, client.connection_count
        await backend.stop_service()
        await wait_for_state(client, ConnectionState.SUSPENDED)
        assert client.connection_count == connections > 0
        await wait_for(lambda: counter.wakes > before, what="a wake")
        before = counter.wakes
        await backend.start_service()
        await wait_for_state(client, ConnectionState.CONNECTED)
        await wait_for(lambda: counter.wakes > before, what="a wake")
        assert client.session == session
        assert client.connection_count > connections
        assert await client.exists(root) is not None

    backend.run(test())


def test_call_without_a_connection_fails_at_once_and_has_no_later_effect(backend: Backend) -> None:
    async def test() -> None:
        root = backend.random_root()
        client = await open_session(backend)
        await backend.stop_service()
        await wait_for_state(client, ConnectionState.SUSPENDED)
        calls = [asyncio.ensure_future(client.commit([Create(root)])), asyncio.ensure_future(client.get("/"))]
        await asyncio.sleep(0)
        assert all(call.done() for call in calls), "failed in the same iteration of the loop, without a request"
        for call in calls:
            with pytest.raises(Unavailable):
                await call
        await backend.start_service()
        await wait_for_state(client, ConnectionState.CONNECTED)
        await client.sync("/")
        assert await client.exists(root) is None

    backend.run(test())


def test_write_with_a_lost_reply_raises_outcome_unknown_and_takes_effect(backend: Backend) -> None:
    async def test() -> None:
        root = backend.random_root()
        client = await open_session(backend)
        await backend.lose_replies()
        with pytest.raises(OutcomeUnknown):
            await client.commit([Create(root)])
        await backend.restore_replies()
        await wait_for_state(client, ConnectionState.CONNECTED)
        await client.sync("/")
        assert await client.exists(root) is not None

    backend.run(test())


def test_read_with_a_lost_reply_raises_unavailable(backend: Backend) -> None:
    async def test() -> None:
        client = await open_session(backend)
        await backend.lose_replies()
        with pytest.raises(Unavailable):
            await client.exists("/")
        await backend.restore_replies()
        await wait_for_state(client, ConnectionState.CONNECTED)
        assert await client.exists("/") is not None

    backend.run(test())


def test_calls_in_flight_end_at_once_when_the_connections_drop(backend: Backend) -> None:
    async def drop() -> float:
        root = backend.random_root()
        client = await open_session(backend, reply_timeout_s=TIMEOUT_S)
        await backend.lose_replies()
        calls = [asyncio.ensure_future(client.commit([Create(f"{root}{n}")])) for n in range(20)]
        await backend.advance(0.1)
        started_s = asyncio.get_running_loop().time()
        await backend.restore_replies()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        took_s = asyncio.get_running_loop().time() - started_s
        assert all(isinstance(outcome, OutcomeUnknown | Committed) for outcome in outcomes), outcomes
        return took_s

    backend.run(expect_within(drop, TIMEOUT_S / 2))


def test_call_to_a_paused_service_ends_within_the_session_timeout(backend: Backend) -> None:
    async def test() -> None:
        client = await open_session(backend)
        await backend.freeze_service()
        call = asyncio.ensure_future(client.commit([Create(backend.random_root())]))
        await wait_for(call.done, TIMEOUT_S + backend.lag_s, "the call has ended")
        with pytest.raises(OutcomeUnknown):
            await call
        await wait_for_state(client, ConnectionState.SUSPENDED)
        await backend.thaw_service()
        await wait_for(lambda: client.state in (ConnectionState.CONNECTED, ConnectionState.ENDED), what="settled")

    backend.run(test())


def test_client_disconnects_when_a_call_is_unanswered_for_the_reply_timeout(backend: Backend) -> None:
    async def ask() -> float:
        client = await open_session(backend, reply_timeout_s=0.3)
        await backend.freeze_service()
        started_s = asyncio.get_running_loop().time()
        with pytest.raises(Unavailable):
            await client.get("/")
        took_s = asyncio.get_running_loop().time() - started_s
        assert took_s > 0.25
        assert client.state is not ConnectionState.CONNECTED
        await backend.thaw_service()
        return took_s

    backend.run(expect_within(ask, 0.7))  # the default reply timeout would be 0.8 s, a fifth of the session timeout


def test_cancelled_call_still_takes_effect(backend: Backend) -> None:
    async def test() -> None:
        root = backend.random_root()
        client = await open_session(backend)
        call = asyncio.ensure_future(client.commit([Create(root)]))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.sleep(0)
        assert call.cancelled()
        await client.sync("/")
        assert await client.exists(root) is not None

    backend.run(test())


def test_close_removes_only_the_ephemeral_znodes_of_the_session(backend: Backend) -> None:
    async def test() -> None:
        root = backend.random_root()
        client, observer = await open_session(backend), await open_session(backend)
        await write(client, Create(root), Create(f"{root}/mine", ephemeral=True), Create(f"{root}/lasting"))
        await observer.sync(root)
        await write(observer, Create(f"{root}/other", ephemeral=True))
        await client.close()
        await observer.sync(root)
        assert sorted(await observer.children(root)) == ["lasting", "other"]

    backend.run(test())


def test_session_ended_by_the_server_is_final_and_loses_its_ephemerals(backend: Backend) -> None:
    async def test() -> None:
        counter, root = WakeCounter(), backend.random_root()
        client, observer = await open_session(backend, counter), await open_session(backend)
        await write(client, Create(root, ephemeral=True))
        session = client.session
        await backend.expire(client)
        await wait_for_state(client, ConnectionState.ENDED)
        assert client.end_reason
        assert client.session == session
        for call in (client.exists("/"), client.commit([Create(root)]), client.sync("/")):
            with pytest.raises(SessionEnded):
                await call
        await observer.sync(root)
        assert await observer.exists(root) is None
        successor = await open_session(backend)
        assert successor.session is not None
        assert session is not None
        assert successor.session.id != session.id
        await backend.advance(1.0)
        assert client.state is ConnectionState.ENDED

    backend.run(test())


def test_session_disconnected_longer_than_its_timeout_has_ended(backend: Backend) -> None:
    async def test() -> None:
        root = backend.random_root()
        client = await open_session(backend, timeout_s=1.0)
        await write(client, Create(root, ephemeral=True))
        await backend.stop_service()
        await wait_for_state(client, ConnectionState.SUSPENDED)
        await backend.advance(1.0 + 4 * backend.tick_s)
        # Only a server can tell the client that its session has expired.
        assert client.state is ConnectionState.SUSPENDED
        await backend.start_service()
        await wait_for_state(client, ConnectionState.ENDED)
        observer = await open_session(backend)
        assert await observer.exists(root) is None

    backend.run(test())


def test_idle_session_stays_alive(backend: Backend) -> None:
    async def test() -> None:
        root = backend.random_root()
        client = await open_session(backend, timeout_s=1.0)
        await write(client, Create(root, ephemeral=True))
        session = client.session
        await backend.advance(5.0)
        assert client.state is ConnectionState.CONNECTED
        assert client.session == session
        assert await client.exists(root) is not None

    backend.run(test())


def test_close_is_final_and_idempotent_and_sets_the_end_reason(backend: Backend) -> None:
    async def test() -> None:
        counter = WakeCounter()
        client = await open_session(backend, counter)
        before = counter.wakes
        await asyncio.gather(client.close(), client.close())
        await client.close()
        assert client.state is ConnectionState.ENDED
        assert client.end_reason
        await wait_for(lambda: counter.wakes > before, what="a wake")
        with pytest.raises(SessionEnded):
            await client.exists("/")

    backend.run(test())


@pytest.mark.parametrize("fault", ["none", "stopped", "frozen"])
def test_close_returns_in_bounded_time_with_any_fault(backend: Backend, fault: str) -> None:
    async def test() -> None:
        client = backend.connect(lambda: None)
        if fault != "none":
            await wait_for_state(client, ConnectionState.CONNECTED)
        if fault == "stopped":
            await backend.stop_service()
        if fault == "frozen":
            await backend.freeze_service()
        closing = asyncio.ensure_future(client.close())
        await wait_for(closing.done, TIMEOUT_S / 2 + backend.lag_s, "the call has ended")
        await closing
        assert client.state is ConnectionState.ENDED
        if fault == "stopped":
            await backend.start_service()
        if fault == "frozen":
            await backend.thaw_service()

    backend.run(test())
