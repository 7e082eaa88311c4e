"""Client that refuses calls on connections on which the cluster was not verified."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.errors import Unavailable
from holdfast.zk.session.client import Committed, ConnectionState, Create, Read
from holdfast.zk.session.verified_client import VerifiedClient
from tests.harness.znodes import InMemoryZnodes

CALLS: dict[str, Callable[[VerifiedClient], Awaitable[Any]]] = {
    "get": lambda client: client.get("/a"),
    "exists": lambda client: client.exists("/a"),
    "children": lambda client: client.children("/a"),
    "read_many": lambda client: client.read_many([Read("/a")]),
    "sync": lambda client: client.sync("/a"),
    "commit": lambda client: client.commit([Create("/b")]),
}


@pytest.fixture
def znodes() -> InMemoryZnodes:
    return InMemoryZnodes(connection_count=1).put("/a", b"x")


@pytest.mark.parametrize("name", CALLS)
def test_every_call_is_refused_until_the_connection_is_accepted(znodes: InMemoryZnodes, name: str) -> None:
    client = VerifiedClient(znodes)
    with pytest.raises(Unavailable, match="not verified"):
        asyncio.run(_await(CALLS[name](client)))
    assert not znodes.calls and list(znodes.znodes) == ["/a"], "nothing was sent"
    client.accept(1)
    asyncio.run(_await(CALLS[name](client)))


@pytest.mark.parametrize("name", CALLS)
def test_new_connection_or_revocation_refuses_every_call(znodes: InMemoryZnodes, name: str) -> None:
    client = VerifiedClient(znodes)
    client.accept(1)
    znodes.connection_count = 2
    with pytest.raises(Unavailable):
        asyncio.run(_await(CALLS[name](client)))
    client.accept(2)
    client.revoke()
    with pytest.raises(Unavailable):
        asyncio.run(_await(CALLS[name](client)))
    assert not znodes.calls and list(znodes.znodes) == ["/a"], "nothing was sent"


def test_unverified_connection_counts_as_suspended(znodes: InMemoryZnodes) -> None:
    client = VerifiedClient(znodes)
    states = [client.state]
    client.accept(1)
    states.append(client.state)
    znodes.state = ConnectionState.ENDED
    states.append(client.state)
    assert states == [ConnectionState.SUSPENDED, ConnectionState.CONNECTED, ConnectionState.ENDED]


def test_read_that_continued_on_another_connection_is_discarded() -> None:
    class ReconnectsAtSync(InMemoryZnodes):
        async def sync(self, path: str) -> None:
            self.connection_count += 1

    client = VerifiedClient(ReconnectsAtSync(connection_count=1))
    client.accept(1)
    with pytest.raises(Unavailable):
        asyncio.run(client.sync("/a"))


def test_accepted_connection_passes_writes(znodes: InMemoryZnodes) -> None:
    client = VerifiedClient(znodes)
    client.accept(1)
    assert isinstance(asyncio.run(client.commit([Create("/b")])), Committed)
    assert "/b" in znodes.znodes


async def _await(call: Awaitable[Any]) -> Any:
    return await call
