"""Fixtures that the conftest files of several folders import."""

from pathlib import Path

import pytest

from holdfast.zk.embedded import Server
from tests.harness.prepared_cluster import LaidOut


@pytest.fixture
def cluster(server: Server, root: str, tmp_path: Path) -> LaidOut:
    """Create a cluster whose znodes the test writes itself, on a real ZooKeeper server."""
    cluster = LaidOut(server.client_port, root, tmp_path / "storage")
    cluster.found()
    return cluster
