"""A cluster laid out by hand, on a real ZooKeeper, for each test."""

from pathlib import Path

import pytest

from holdfast.zk.embedded import Server
from tests.cli.laid_out import LaidOut


@pytest.fixture
def cluster(server: Server, root: str, tmp_path: Path) -> LaidOut:
    cluster = LaidOut(server.client_port, root, tmp_path / "storage")
    cluster.found()
    return cluster
