"""Real ZooKeeper servers for the tests in this folder. They are shared: a test that hurts one heals it."""

import secrets
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from holdfast.zk.embedded import Server


@pytest.fixture
def cluster() -> str:
    return f"c{secrets.token_hex(4)}"


@pytest.fixture
def connect(server: Server) -> str:
    return f"127.0.0.1:{server.client_port}"


@pytest.fixture
def operator(connect: str) -> Iterator[KazooClient]:
    """Somebody with access to ZooKeeper and no respect for it."""
    client = KazooClient(connect)
    client.start(20)
    yield client
    client.stop()
    client.close()
