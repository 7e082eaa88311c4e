"""Brokers that tests share. Each test begins with all of them up, whatever the one before has done to them."""

from collections.abc import Iterator

import pytest

from holdfast.zk.embedded import Ensemble
from tests.harness.kafka.brokers import Brokers, kraft_brokers, zookeeper_brokers


@pytest.fixture(scope="package")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with kraft_brokers(tmp_path_factory.mktemp("kraft")) as brokers:
        yield brokers


@pytest.fixture
def kraft(three: Brokers) -> Iterator[Brokers]:
    yield three
    three.mend()


@pytest.fixture
def on_zookeeper(tmp_path_factory: pytest.TempPathFactory, single: Ensemble, root: str) -> Iterator[Brokers]:
    with zookeeper_brokers(tmp_path_factory.mktemp("zookeeper-mode"), f"{single.connect}{root}") as brokers:
        yield brokers
