"""Real ZooKeeper servers for the tests in this folder. They are shared: a test that hurts one heals it."""

import secrets
import shutil
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from holdfast.zk.embedded import Ensemble, Server, Settings

READY_S = 60.0


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """Three servers with a tick of one second, whose disks can be stalled where there is a compiler."""
    settings = Settings(tick_ms=1000, faults=shutil.which("cc") is not None)
    # With a space, because people have such directories.
    ensemble = Ensemble(tmp_path_factory.mktemp("three servers"), size=3, settings=settings)
    try:
        ensemble.start()
        ensemble.wait_ready(READY_S)
        yield ensemble
    finally:
        ensemble.stop()


@pytest.fixture
def hurt(ensemble: Ensemble) -> Iterator[Ensemble]:
    """The ensemble, healthy; and healthy again afterwards, whatever the test did to its servers."""
    ensemble.wait_ready(READY_S)
    yield ensemble
    for server in ensemble.servers:
        server.release_disk()
        if server.running:
            server.resume()
    ensemble.start()
    ensemble.wait_ready(READY_S)


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
