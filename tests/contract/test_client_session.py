"""What every `Client` promises about its session: states, lost connections, lost replies, the end."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.errors import OutcomeUnknown, SessionEnded, Unavailable
from holdfast.zk.session.client import Client, Committed, Create, Operation, State
from tests.contract.backends import TIMEOUT_S, Backend, Bell, connected, until

TRIES = 5


async def write(client: Client, *operations: Operation) -> None:
    assert isinstance(await client.commit(operations), Committed)


async def reaches(client: Client, state: State) -> None:
    await until(lambda: client.state is state, what=f"{state.value} (it is {client.state.value})")


async def in_time(attempt: Callable[[], Awaitable[float]], within_s: float) -> None:
    """One of a few tries takes less than that: a busy machine spoils some of them, and a client that waits too long all."""
    took_s: list[float] = []
    while not took_s or took_s[-1] >= within_s:
        assert len(took_s) < TRIES, took_s
        took_s.append(await attempt())


def test_a_client_begins_without_a_session_and_then_has_one(backend: Backend) -> None:
    async def test() -> None:
        bell = Bell()
        client = backend.connect(bell)
        assert (client.state, client.session, client.timeout_s) == (State.CONNECTING, None, 0)
        with pytest.raises(Unavailable):
            await client.exists("/")
        await reaches(client, State.CONNECTED)
        await until(lambda: bell.rings > 0, what="woken")
        assert client.session is not None
        assert client.ended_because == ""

    backend.run(test())


@pytest.mark.parametrize(("wanted_ticks", "granted_ticks"), [(1, 2), (7, 7), (100, 20)])
def test_the_timeout_is_what_the_server_grants(backend: Backend, wanted_ticks: int, granted_ticks: int) -> None:
    async def test() -> None:
        client = await connected(backend, timeout_s=wanted_ticks * backend.tick_s)
        assert client.timeout_s == pytest.approx(granted_ticks * backend.tick_s)

    backend.run(test())


def test_a_connection_lost_and_regained_costs_nothing_but_wakes(backend: Backend) -> None:
    async def test() -> None:
        bell, root = Bell(), backend.random_root()
        client = await connected(backend, bell)
        await write(client, Create(root, ephemeral=True))
        session, before = client.session, bell.rings
        await backend.stop_service()
        await reaches(client, State.SUSPENDED)
        await until(lambda: bell.rings > before, what="woken")
        before = bell.rings
        await backend.start_service()
        await reaches(client, State.CONNECTED)
        await until(lambda: bell.rings > before, what="woken")
        assert client.session == session
        assert await client.exists(root) is not None

    backend.run(test())


def test_a_call_without_a_connection_fails_at_once_and_has_no_effect_later(backend: Backend) -> None:
    async def test() -> None:
        root = backend.random_root()
        client = await connected(backend)
        await backend.stop_service()
        await reaches(client, State.SUSPENDED)
        calls = [asyncio.ensure_future(client.commit([Create(root)])), asyncio.ensure_future(client.get("/"))]
        await asyncio.sleep(0)
        assert all(call.done() for call in calls), "by the loop's next turn, so nobody was asked"
        for call in calls:
            with pytest.raises(Unavailable):
                await call
        await backend.start_service()
        await reaches(client, State.CONNECTED)
        await client.sync("/")
        assert await client.exists(root) is None

    backend.run(test())


def test_a_lost_reply_leaves_the_outcome_unknown_and_the_effect_in_place(backend: Backend) -> None:
    async def test() -> None:
        root = backend.random_root()
        client = await connected(backend)
        await backend.lose_replies()
        with pytest.raises(OutcomeUnknown):
            await client.commit([Create(root)])
        await backend.restore_replies()
        await reaches(client, State.CONNECTED)
        await client.sync("/")
        assert await client.exists(root) is not None

    backend.run(test())


def test_a_read_whose_reply_is_lost_is_unavailable(backend: Backend) -> None:
    async def test() -> None:
        client = await connected(backend)
        await backend.lose_replies()
        with pytest.raises(Unavailable):
            await client.exists("/")
        await backend.restore_replies()
        await reaches(client, State.CONNECTED)
        assert await client.exists("/") is not None

    backend.run(test())


def test_calls_in_flight_when_the_connections_drop_end_at_once(backend: Backend) -> None:
    async def drop() -> float:
        root = backend.random_root()
        client = await connected(backend, patience_s=TIMEOUT_S)
        await backend.lose_replies()
        calls = [asyncio.ensure_future(client.commit([Create(f"{root}{n}")])) for n in range(20)]
        await backend.advance(0.1)
        started_s = asyncio.get_running_loop().time()
        await backend.restore_replies()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        took_s = asyncio.get_running_loop().time() - started_s
        assert all(isinstance(outcome, OutcomeUnknown | Committed) for outcome in outcomes), outcomes
        return took_s

    backend.run(in_time(drop, TIMEOUT_S / 2))


def test_every_call_to_a_service_that_hangs_ends_within_the_session_timeout(backend: Backend) -> None:
    async def test() -> None:
        client = await connected(backend)
        await backend.freeze_service()
        call = asyncio.ensure_future(client.commit([Create(backend.random_root())]))
        await until(call.done, TIMEOUT_S + backend.lag_s, "nobody waits for ever")
        with pytest.raises(OutcomeUnknown):
            await call
        await reaches(client, State.SUSPENDED)
        await backend.thaw_service()
        await until(lambda: client.state in (State.CONNECTED, State.ENDED), what="settled")

    backend.run(test())


def test_patience_decides_when_an_unanswered_call_costs_the_connection(backend: Backend) -> None:
    async def ask() -> float:
        client = await connected(backend, patience_s=0.3)
        await backend.freeze_service()
        started_s = asyncio.get_running_loop().time()
        with pytest.raises(Unavailable):
            await client.get("/")
        took_s = asyncio.get_running_loop().time() - started_s
        assert took_s > 0.25
        assert client.state is not State.CONNECTED
        await backend.thaw_service()
        return took_s

    backend.run(in_time(ask, 0.7))  # without being told it would be 0.8 s, a fifth of the session timeout


def test_an_await_that_was_given_up_still_takes_effect(backend: Backend) -> None:
    async def test() -> None:
        root = backend.random_root()
        client = await connected(backend)
        call = asyncio.ensure_future(client.commit([Create(root)]))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.sleep(0)
        assert call.cancelled()
        await client.sync("/")
        assert await client.exists(root) is not None

    backend.run(test())


def test_closing_removes_the_ephemerals_and_nothing_else(backend: Backend) -> None:
    async def test() -> None:
        root = backend.random_root()
        client, witness = await connected(backend), await connected(backend)
        await write(client, Create(root), Create(f"{root}/mine", ephemeral=True), Create(f"{root}/lasting"))
        await witness.sync(root)
        await write(witness, Create(f"{root}/other", ephemeral=True))
        await client.close()
        await witness.sync(root)
        assert sorted(await witness.children(root)) == ["lasting", "other"]

    backend.run(test())


def test_a_session_that_the_server_ends_takes_its_ephemerals_and_is_final(backend: Backend) -> None:
    async def test() -> None:
        bell, root = Bell(), backend.random_root()
        client, witness = await connected(backend, bell), await connected(backend)
        await write(client, Create(root, ephemeral=True))
        session = client.session
        await backend.expire(client)
        await reaches(client, State.ENDED)
        assert client.ended_because
        assert client.session == session
        for call in (client.exists("/"), client.commit([Create(root)]), client.sync("/")):
            with pytest.raises(SessionEnded):
                await call
        await witness.sync(root)
        assert await witness.exists(root) is None
        successor = await connected(backend)
        assert successor.session is not None
        assert session is not None
        assert successor.session.id != session.id
        await backend.advance(1.0)
        assert client.state is State.ENDED

    backend.run(test())


def test_a_session_out_of_reach_for_longer_than_its_timeout_is_over(backend: Backend) -> None:
    async def test() -> None:
        root = backend.random_root()
        client = await connected(backend, timeout_s=1.0)
        await write(client, Create(root, ephemeral=True))
        await backend.stop_service()
        await reaches(client, State.SUSPENDED)
        await backend.advance(1.0 + 4 * backend.tick_s)
        # Nobody has told the client, so it cannot know.
        assert client.state is State.SUSPENDED
        await backend.start_service()
        await reaches(client, State.ENDED)
        witness = await connected(backend)
        assert await witness.exists(root) is None

    backend.run(test())


def test_an_idle_session_stays_alive_by_itself(backend: Backend) -> None:
    async def test() -> None:
        root = backend.random_root()
        client = await connected(backend, timeout_s=1.0)
        await write(client, Create(root, ephemeral=True))
        session = client.session
        await backend.advance(5.0)
        assert client.state is State.CONNECTED
        assert client.session == session
        assert await client.exists(root) is not None

    backend.run(test())


def test_closing_is_final_idempotent_and_says_why(backend: Backend) -> None:
    async def test() -> None:
        bell = Bell()
        client = await connected(backend, bell)
        before = bell.rings
        await asyncio.gather(client.close(), client.close())
        await client.close()
        assert client.state is State.ENDED
        assert client.ended_because
        await until(lambda: bell.rings > before, what="woken")
        with pytest.raises(SessionEnded):
            await client.exists("/")

    backend.run(test())


@pytest.mark.parametrize("disturbance", ["none", "stopped", "frozen"])
def test_closing_ends_in_bounded_time_whatever_the_service_does(backend: Backend, disturbance: str) -> None:
    async def test() -> None:
        client = backend.connect(lambda: None)
        if disturbance != "none":
            await reaches(client, State.CONNECTED)
        if disturbance == "stopped":
            await backend.stop_service()
        if disturbance == "frozen":
            await backend.freeze_service()
        closing = asyncio.ensure_future(client.close())
        await until(closing.done, TIMEOUT_S / 2 + backend.lag_s, "nobody waits for ever")
        await closing
        assert client.state is State.ENDED
        if disturbance == "stopped":
            await backend.start_service()
        if disturbance == "frozen":
            await backend.thaw_service()

    backend.run(test())
