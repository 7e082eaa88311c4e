"""What tests share. Servers are real, and started only if a test asks for one."""

import secrets
from collections.abc import Iterator

import pytest

from holdfast.zk.embedded import Ensemble, Server, Settings


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """One server with short ticks, so that sessions of four seconds are granted."""
    ensemble = Ensemble(tmp_path_factory.mktemp("single"), size=1, settings=Settings(tick_ms=200))
    try:
        ensemble.start()
        ensemble.wait_ready(60)
        yield ensemble
    finally:
        ensemble.stop()


@pytest.fixture
def server(single: Ensemble) -> Server:
    return single.servers[0]


@pytest.fixture
def root() -> str:
    """A path that no other test uses."""
    return f"/t{secrets.token_hex(6)}"
