"""Fixtures that several conftest files import."""

from pathlib import Path

import pytest

from holdfast.zk.embedded import ZooKeeperServer
from tests.harness.prepared_cluster import PreparedCluster


@pytest.fixture
def cluster(server: ZooKeeperServer, root: str, tmp_path: Path) -> PreparedCluster:
    """Create a cluster whose znodes the test writes itself, on a real ZooKeeper server."""
    cluster = PreparedCluster(server.client_port, root, tmp_path / "storage")
    cluster.create_skeleton()
    return cluster
