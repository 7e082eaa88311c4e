"""Backends of the contract tests: the simulated ZooKeeper and a real server, with one interface.

A test opens clients inside `run` and injects faults with the backend's methods. Tests rely only on the behaviour documented
here. A difference between the backends is a bug in one of them, or in the contract.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

import pytest

from holdfast.zk.embedded import ZooKeeperServer
from holdfast.zk.kazoo_transport import NetworkClient
from holdfast.zk.session import connection_settings
from holdfast.zk.session.client import Client, ConnectionState, WakeCallback
from holdfast.zk.session.close_session import close_session
from tests.harness.tcp_proxy import TcpProxy
from tests.sim.world import World
from tests.sim.zk.client import SimClient

T = TypeVar("T")

TICK_S = 0.2
TIMEOUT_S = 4.0
POLL_S = 0.01
WAIT_S = 30.0
"""Time limit for conditions that are normally met at once. Generous, for busy machines."""


class Backend(Protocol):
    """A ZooKeeper service with faults. Each fault affects every client of the backend."""

    tick_s: float
    lag_s: float
    """Tolerated delay of an event."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the backend's event loop."""

    def connect(self, wake: WakeCallback, *, timeout_s: float = TIMEOUT_S, reply_timeout_s: float | None = None) -> Client:
        """Open a new session. Call this only inside `run`."""

    def random_root(self) -> str:
        """Return an unused top-level path. The znode does not exist yet."""

    async def advance(self, seconds: float) -> None:
        """Wait for this long on the backend's clock."""

    async def drop_connections(self) -> None:
        """Close all connections. Clients may reconnect at once."""

    async def stop_service(self) -> None:
        """Close all connections and refuse new ones. The servers keep running."""

    async def start_service(self) -> None:
        """Undo `stop_service`."""

    async def freeze_service(self) -> None:
        """Pause all servers. Connections stay open, but no request is answered."""

    async def thaw_service(self) -> None:
        """Undo `freeze_service`."""

    async def lose_replies(self) -> None:
        """Drop all replies. The servers still receive and execute requests."""

    async def restore_replies(self) -> None:
        """Undo `lose_replies`, and close the connections that lost a reply."""

    async def expire(self, client: Client) -> None:
        """End the client's session on the server. The client is not notified."""

    def close(self) -> None: ...


class SimBackend:
    """Three simulated servers. All clients are in one simulated process, so cutting its link makes the service unreachable."""

    tick_s = TICK_S
    lag_s = 0.5
    PROCESS = "test"

    def __init__(self, seed: int) -> None:
        self._world = World(seed, tick_s=TICK_S)
        self._roots = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._world.run(coroutine, process=self.PROCESS)

    def connect(self, wake: WakeCallback, *, timeout_s: float = TIMEOUT_S, reply_timeout_s: float | None = None) -> SimClient:
        return self._world.connect(self.PROCESS, timeout_s=timeout_s, reply_timeout_s=reply_timeout_s)(wake)

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
    """A real server behind a proxy that injects faults."""

    tick_s = TICK_S
    lag_s = 30.0

    def __init__(self, server: ZooKeeperServer) -> None:
        self._server = server
        self._proxy = TcpProxy(server.client_port)
        self._runner = asyncio.Runner()
        self._clients: list[NetworkClient] = []
        self._frozen = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    def connect(
        self, wake: WakeCallback, *, timeout_s: float = TIMEOUT_S, reply_timeout_s: float | None = None
    ) -> NetworkClient:
        address = connection_settings.ConnectionSettings((("127.0.0.1", self._proxy.port),), session_timeout_s=timeout_s)
        # A server on a busy machine may need seconds: tests of the reply timeout set their own.
        self._clients.append(NetworkClient(address, wake, reply_timeout_s=reply_timeout_s or timeout_s))
        return self._clients[-1]

    def random_root(self) -> str:
        return f"/t{secrets.token_hex(6)}"

    async def advance(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def drop_connections(self) -> None:
        self._proxy.drop_connections()

    async def stop_service(self) -> None:
        self._proxy.refuses_connections = True
        self._proxy.drop_connections()

    async def start_service(self) -> None:
        self._proxy.refuses_connections = False

    async def freeze_service(self) -> None:
        self._frozen = True
        self._server.pause()

    async def thaw_service(self) -> None:
        self._frozen = False
        self._server.resume()

    async def lose_replies(self) -> None:
        self._proxy.drops_replies = True

    async def restore_replies(self) -> None:
        self._proxy.drops_replies = False
        self._proxy.drop_connections()

    async def expire(self, client: Client) -> None:
        session = client.session
        assert session is not None
        hosts = [("127.0.0.1", self._server.client_port)]
        assert await asyncio.to_thread(close_session, hosts, session.id, session.password, timeout_s=WAIT_S)

    def close(self) -> None:
        if self._frozen:
            self._server.resume()
        self._proxy.refuses_connections = self._proxy.drops_replies = False

        async def close_clients() -> None:
            await asyncio.gather(*(client.close() for client in self._clients))

        with contextlib.closing(self._proxy), self._runner:
            self._runner.run(close_clients())


BACKENDS: dict[str, Callable[[pytest.FixtureRequest], Backend]] = {
    "sim-1": lambda _: SimBackend(1),
    "sim-2": lambda _: SimBackend(2),
    "sim-3": lambda _: SimBackend(3),
    "real": lambda request: RealBackend(request.getfixturevalue("server")),
}
"""Factories by name. Tests of backends whose name begins with `real` get the marker `real`."""


class WakeCounter:
    """Wake callback that counts its calls."""

    def __init__(self) -> None:
        self.wakes = 0

    def __call__(self) -> None:
        self.wakes += 1


async def wait_for(condition: Callable[[], bool], within_s: float = WAIT_S, what: str = "the condition") -> None:
    """Wait for a condition, on the real or simulated clock of the event loop."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    while not condition():
        assert loop.time() < deadline_s, f"timed out after {within_s:g} s: {what}"
        await asyncio.sleep(POLL_S)


async def open_session(backend: Backend, wake: WakeCallback = lambda: None, **options: float) -> Client:
    """Open a session and wait until it is connected."""
    client = backend.connect(wake, **options)
    await wait_for(lambda: client.state is ConnectionState.CONNECTED, what="connected")
    return client
