"""Fixtures for tests against a real ZooKeeper server. The server is shared: a test that disturbs it must restore it."""

import secrets
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from holdfast.zk.embedded import ZooKeeperServer


@pytest.fixture
def cluster() -> str:
    return f"c{secrets.token_hex(4)}"


@pytest.fixture
def connect(server: ZooKeeperServer) -> str:
    return f"127.0.0.1:{server.client_port}"


@pytest.fixture
def operator(connect: str) -> Iterator[KazooClient]:
    """ZooKeeper client for manipulating znodes behind Holdfast's back."""
    client = KazooClient(connect)
    client.start(20)
    yield client
    client.stop()
    client.close()
