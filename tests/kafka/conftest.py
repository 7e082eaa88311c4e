"""Brokers that tests share. All of them run again at the start of each test."""

from collections.abc import Iterator

import pytest

from holdfast.zk.embedded import EmbeddedEnsemble
from tests.harness.kafka.brokers import Brokers, kraft_brokers, zookeeper_brokers


@pytest.fixture(scope="package")
def kraft_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with kraft_brokers(tmp_path_factory.mktemp("kraft")) as brokers:
        yield brokers


@pytest.fixture
def kraft(kraft_cluster: Brokers) -> Iterator[Brokers]:
    yield kraft_cluster
    kraft_cluster.restore()


@pytest.fixture
def zookeeper_cluster(tmp_path_factory: pytest.TempPathFactory, single: EmbeddedEnsemble, root: str) -> Iterator[Brokers]:
    with zookeeper_brokers(tmp_path_factory.mktemp("zookeeper-mode"), f"{single.connect_string}{root}") as brokers:
        yield brokers
