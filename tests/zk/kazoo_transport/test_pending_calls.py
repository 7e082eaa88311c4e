"""Reply timeouts of calls, on an event loop with simulated time."""

import asyncio
from collections.abc import Iterator

import pytest

from holdfast.zk.kazoo_transport.pending_calls import PendingCalls
from tests.sim.world import World

SESSION_TIMEOUT_S = 10.0


class Client:
    """Records when the pending calls make it leave its server."""

    def __init__(self, reply_timeout_s: float | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.started_at = self.loop.time()
        self.left_at: list[float] = []
        self.connection = 1
        self.calls = PendingCalls(self.loop, reply_timeout_s, self._leave_server)
        self.calls.session_timeout_s = SESSION_TIMEOUT_S

    def _leave_server(self, connection: int) -> bool:
        if connection != self.connection:
            return False
        self.connection += 1
        self.left_at.append(round(self.loop.time() - self.started_at, 3))
        return True

    def call(self) -> "tuple[asyncio.Future[str], asyncio.Task[str]]":
        reply: asyncio.Future[str] = self.loop.create_future()
        return reply, asyncio.ensure_future(self.calls.wait_for(reply, self.connection))


@pytest.fixture
def world() -> Iterator[World]:
    world = World(1)
    yield world
    world.close()


def test_reply_is_returned_and_the_server_is_kept(world: World) -> None:
    async def test() -> None:
        client = Client()
        reply, call = client.call()
        await asyncio.sleep(1.9)
        reply.set_result("answer")
        assert await call == "answer"
        await asyncio.sleep(20)
        assert client.left_at == []

    world.run(test(), process="test")


@pytest.mark.parametrize(
    ("reply_timeout_s", "expected_s"), [(None, SESSION_TIMEOUT_S / 5), (0.5, 0.5), (100.0, SESSION_TIMEOUT_S)]
)
def test_server_is_left_after_the_reply_timeout(world: World, reply_timeout_s: float | None, expected_s: float) -> None:
    async def test() -> None:
        client = Client(reply_timeout_s)
        _, call = client.call()
        with pytest.raises(TimeoutError):
            await call
        assert client.left_at == [expected_s]
        assert client.loop.time() - client.started_at == pytest.approx(SESSION_TIMEOUT_S)

    world.run(test(), process="test")
