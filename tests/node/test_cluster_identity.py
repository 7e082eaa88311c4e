"""Verification of the cluster, and the calls that it allows."""

import asyncio
from typing import Any

import pytest

from holdfast.errors import Unavailable
from holdfast.model.cluster_watermark import ClusterWatermark
from holdfast.node.cluster_identity import ClusterIdentity, UnrecognizedCluster
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Znode
from holdfast.zk.session.verified_client import VerifiedClient
from tests.harness.znodes import InMemoryZnodes

PATHS = Paths("c")


class Memory:
    def __init__(self, watermark: ClusterWatermark | None = None) -> None:
        self.watermark = watermark
        self.write_problem = ""

    def latest(self) -> ClusterWatermark | None:
        return self.watermark

    def record(self, watermark: ClusterWatermark) -> None:
        self.watermark = watermark


class ListLog:
    def __init__(self) -> None:
        self.warnings: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **context: Any) -> None: ...
    def warning(self, event: str, **context: Any) -> None:
        self.warnings.append((event, context))

    error = warning


def make_znodes(*, epoch: int = 3, beat: int = 10) -> InMemoryZnodes:
    znodes = InMemoryZnodes()
    for path in PATHS.required_znodes:
        znodes.put(path)
    return znodes.put(PATHS.epoch, version=epoch).put(PATHS.beat, version=beat)


def verify(znodes: InMemoryZnodes, memory: Memory, log: ListLog | None = None) -> VerifiedClient:
    client = VerifiedClient(znodes)
    asyncio.run(ClusterIdentity(PATHS, memory, log or ListLog()).read_verified_epoch(client))
    return client


def test_recognized_cluster_allows_calls_and_is_recorded() -> None:
    memory = Memory(ClusterWatermark("1-1", 3, 9))
    assert verify(make_znodes(), memory).is_verified
    assert memory.watermark == ClusterWatermark("1-1", 3, 10)


def test_older_cluster_revokes_the_permission_until_it_is_recognized_again() -> None:
    memory = Memory(ClusterWatermark("1-1", 3, 9))
    znodes = make_znodes(beat=10)
    client = VerifiedClient(znodes)
    identity = ClusterIdentity(PATHS, memory, ListLog())
    asyncio.run(identity.read_verified_epoch(client))
    znodes.put(PATHS.beat, version=8)
    with pytest.raises(UnrecognizedCluster, match="came back older"):
        asyncio.run(identity.read_verified_epoch(client))
    assert not client.is_verified
    assert memory.watermark == ClusterWatermark("1-1", 3, 10), "the older state is not recorded"
    znodes.put(PATHS.beat, version=11)
    asyncio.run(identity.read_verified_epoch(client))
    assert client.is_verified


def test_connection_that_changes_during_the_verification_is_not_accepted() -> None:
    class ReconnectsAtBeat(InMemoryZnodes):
        async def get(self, path: str, *, watch: bool = False) -> Znode:
            self.connection_count += path == PATHS.beat
            return await super().get(path, watch=watch)

    znodes = ReconnectsAtBeat(make_znodes().znodes)
    memory = Memory()
    client = VerifiedClient(znodes)
    with pytest.raises(Unavailable, match="changed during the verification"):
        asyncio.run(ClusterIdentity(PATHS, memory, ListLog()).read_verified_epoch(client))
    assert not client.is_verified
    assert memory.watermark is None


def test_heartbeat_of_a_newer_schema_is_logged_once_and_does_not_prevent_the_verification() -> None:
    znodes, log = make_znodes().put(PATHS.beat, b'{"schema":999}', version=10), ListLog()
    client, identity = VerifiedClient(znodes), ClusterIdentity(PATHS, Memory(), log)
    for _ in range(2):
        asyncio.run(identity.read_verified_epoch(client))
    assert client.is_verified
    assert [event for event, _ in log.warnings] == ["beat unreadable"]


def test_write_problem_is_logged_once() -> None:
    memory, log = Memory(), ListLog()
    memory.write_problem = "cannot write memory.json: No space left on device"
    client, identity = VerifiedClient(make_znodes()), ClusterIdentity(PATHS, memory, log)
    for _ in range(3):
        asyncio.run(identity.read_verified_epoch(client))
    assert [event for event, _ in log.warnings] == ["watermark not written"]
    assert "No space left on device; if this agent restarts" in log.warnings[0][1]["problem"]
