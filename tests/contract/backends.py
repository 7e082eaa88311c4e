"""The services that the contract suite runs against, behind one face.

A test gets a backend, opens clients inside `run`, and disturbs them with the backend's faults. Everything a test may rely on
is said here; a difference between the backends is a bug in one of them, or in the contract.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

import pytest

from holdfast.zk.embedded import Server
from holdfast.zk.kazoo_transport import NetworkClient
from holdfast.zk.session import connection_settings
from holdfast.zk.session.client import Client, State, Wake
from holdfast.zk.session.close_session import close_session
from tests.harness.tcp_proxy import Proxy
from tests.sim.world import World
from tests.sim.zk.client import SimClient

T = TypeVar("T")

TICK_S = 0.2
TIMEOUT_S = 4.0
POLL_S = 0.01
PATIENCE_S = 30.0
"""For what comes at once, unless the machine has other things to do."""


class Backend(Protocol):
    """Faults hold for every client of the backend. They are coroutines, so that a real one may take its time."""

    tick_s: float
    lag_s: float
    """How much later than it was due something may happen."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a test's coroutine on the backend's event loop."""

    def connect(self, wake: Wake, *, timeout_s: float = TIMEOUT_S, patience_s: float | None = None) -> Client:
        """A new session. Only inside `run`."""

    def random_root(self) -> str:
        """A path of one part that no other test uses. Nothing is there yet."""

    async def advance(self, seconds: float) -> None:
        """Let that much of the backend's time pass."""

    async def drop_connections(self) -> None:
        """Close every client's connection. They may reconnect at once."""

    async def stop_service(self) -> None:
        """Close every client's connection and refuse new ones; the servers themselves go on."""

    async def start_service(self) -> None:
        """Undo `stop_service`."""

    async def freeze_service(self) -> None:
        """Connections stay open and nothing answers."""

    async def thaw_service(self) -> None:
        """Undo `freeze_service`."""

    async def lose_replies(self) -> None:
        """From now on requests arrive and are carried out, and what the server answers does not arrive."""

    async def restore_replies(self) -> None:
        """Undo `lose_replies`. The connections on which something was lost are closed."""

    async def expire(self, client: Client) -> None:
        """End the client's session on the server. Returns when it is over there; the client finds out by itself."""

    def close(self) -> None: ...


class SimBackend:
    """Three simulated servers. Clients live in one process, so that a cut link stands for a service out of reach."""

    tick_s = TICK_S
    lag_s = 0.5
    PROCESS = "test"

    def __init__(self, seed: int) -> None:
        self._world = World(seed, tick_s=TICK_S)
        self._roots = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._world.run(coroutine, process=self.PROCESS)

    def connect(self, wake: Wake, *, timeout_s: float = TIMEOUT_S, patience_s: float | None = None) -> SimClient:
        return self._world.connect(self.PROCESS, timeout_s=timeout_s, patience_s=patience_s)(wake)

    def random_root(self) -> str:
        self._roots += 1
        return f"/root{self._roots}"

    async def advance(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def drop_connections(self) -> None:
        self._world.zk.drop_connections()

    async def stop_service(self) -> None:
        self._world.zk.drop_connections()
        await asyncio.sleep(0.02)
        self._world.zk.network.cut(self.PROCESS)

    async def start_service(self) -> None:
        self._world.zk.network.heal(self.PROCESS)

    async def freeze_service(self) -> None:
        for server in self._world.zk.servers:
            self._world.zk.pause(server.index)

    async def thaw_service(self) -> None:
        for server in self._world.zk.servers:
            self._world.zk.resume(server.index)

    async def lose_replies(self) -> None:
        self._world.zk.network.cut(self.PROCESS, requests=False)

    async def restore_replies(self) -> None:
        self._world.zk.drop_connections()
        self._world.zk.network.heal(self.PROCESS)

    async def expire(self, client: Client) -> None:
        assert client.session is not None
        self._world.zk.expire(client.session.id)

    def close(self) -> None:
        self._world.close()


class RealBackend:
    """A real server behind a proxy that misbehaves on demand."""

    tick_s = TICK_S
    lag_s = 30.0

    def __init__(self, server: Server) -> None:
        self._server = server
        self._proxy = Proxy(server.client_port)
        self._runner = asyncio.Runner()
        self._clients: list[NetworkClient] = []
        self._frozen = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    def connect(self, wake: Wake, *, timeout_s: float = TIMEOUT_S, patience_s: float | None = None) -> NetworkClient:
        address = connection_settings.Ensemble((("127.0.0.1", self._proxy.port),), session_timeout_s=timeout_s)
        self._clients.append(NetworkClient(address, wake, patience_s=patience_s))
        return self._clients[-1]

    def random_root(self) -> str:
        return f"/t{secrets.token_hex(6)}"

    async def advance(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def drop_connections(self) -> None:
        self._proxy.cut()

    async def stop_service(self) -> None:
        self._proxy.refusing = True
        self._proxy.cut()

    async def start_service(self) -> None:
        self._proxy.refusing = False

    async def freeze_service(self) -> None:
        self._frozen = True
        self._server.pause()

    async def thaw_service(self) -> None:
        self._frozen = False
        self._server.resume()

    async def lose_replies(self) -> None:
        self._proxy.replies_lost = True

    async def restore_replies(self) -> None:
        self._proxy.replies_lost = False
        self._proxy.cut()

    async def expire(self, client: Client) -> None:
        session = client.session
        assert session is not None
        hosts = [("127.0.0.1", self._server.client_port)]
        assert await asyncio.to_thread(close_session, hosts, session.id, session.password, timeout_s=PATIENCE_S)

    def close(self) -> None:
        if self._frozen:
            self._server.resume()
        self._proxy.refusing = self._proxy.replies_lost = False

        async def end() -> None:
            await asyncio.gather(*(client.close() for client in self._clients))

        self._runner.run(end())
        self._runner.close()
        self._proxy.close()


BACKENDS: dict[str, Callable[[pytest.FixtureRequest], Backend]] = {
    "sim-1": lambda _: SimBackend(1),
    "sim-2": lambda _: SimBackend(2),
    "sim-3": lambda _: SimBackend(3),
    "real": lambda request: RealBackend(request.getfixturevalue("server")),
}
"""By name. One whose name begins with `real` is marked so; it may ask the request for fixtures, such as a server."""


class Bell:
    """A `wake` that counts."""

    def __init__(self) -> None:
        self.rings = 0

    def __call__(self) -> None:
        self.rings += 1


async def until(condition: Callable[[], bool], within_s: float = PATIENCE_S, what: str = "the condition") -> None:
    """Wait for a condition, on whichever time the loop has."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    while not condition():
        assert loop.time() < deadline_s, f"not within {within_s:g} s: {what}"
        await asyncio.sleep(POLL_S)


async def connected(backend: Backend, wake: Wake = lambda: None, **options: float) -> Client:
    """A client that has its session."""
    client = backend.connect(wake, **options)
    await until(lambda: client.state is State.CONNECTED, what="connected")
    return client
