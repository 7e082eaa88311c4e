"""Situations of three ZooKeeper servers: healthy, with stalled disks, and with a paused server."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from kazoo.client import KazooClient

from holdfast.zk.embedded import EmbeddedEnsemble, ServerSettings, ZooKeeperServer
from tests.harness.waiting import wait_until

READY_S = 60.0
USED_S = 60.0
"""Duration of a healthy run."""
WRITE_EVERY_S = 0.02
ONE_STALL_S = 3.0
"""Long enough for a warning of ZooKeeper, and shorter than followers may lag behind."""
BOTH_STALL_S = 9.0
"""Longer than followers may lag behind: five ticks."""
PAUSE_S = 12.0
"""Longer than followers may lag behind, and than the ten seconds from which ZooKeeper reports a pause."""
SLOW = "fsync-ing the write ahead log"
Situation = Callable[[Path], Mapping[str, Path]]


@contextlib.contextmanager
def three_servers(directory: Path, settings: ServerSettings | None = None) -> Iterator[EmbeddedEnsemble]:
    ensemble = EmbeddedEnsemble(directory / "zookeeper", size=3, settings=settings)
    try:
        ensemble.start()
        ensemble.wait_ready(READY_S)
        yield ensemble
    finally:
        ensemble.stop()


def logs_of(ensemble: EmbeddedEnsemble) -> dict[str, Path]:
    return {f"zookeeper-{server.id}": server.log for server in ensemble.servers}


def restart_one_by_one(ensemble: EmbeddedEnsemble, between: Callable[[], object]) -> None:
    """Restart the servers one by one, as in an upgrade: the next one only when all serve again, the leader last."""
    for server in sorted(ensemble.servers, key=lambda server: server.health().mode == "leader"):
        server.stop()
        server.start()
        ensemble.wait_ready(READY_S)
        between()


@contextlib.contextmanager
def client_of(*servers: ZooKeeperServer) -> Iterator[KazooClient]:
    client = KazooClient(",".join(f"127.0.0.1:{server.client_port}" for server in servers), timeout=10.0)
    client.start(READY_S)
    client.ensure_path("/traffic")
    try:
        yield client
    finally:
        client.stop()
        client.close()


def write(client: KazooClient, for_s: float) -> None:
    """Write without waiting for a response: there may be none."""
    until = time.monotonic() + for_s
    while time.monotonic() < until:
        client.set_async("/traffic", b"x")
        time.sleep(WRITE_EVERY_S)


def healthy(directory: Path) -> Mapping[str, Path]:
    with three_servers(directory) as ensemble:
        with client_of(*ensemble.servers) as client:
            write(client, USED_S)
        return logs_of(ensemble)


def disk_stall(directory: Path) -> Mapping[str, Path]:
    """Stall the disk of one follower."""
    with three_servers(directory, ServerSettings(faults=True)) as ensemble:
        leader, follower, _ = _by_role(ensemble)
        with client_of(leader) as client:
            write(client, 5)
            with follower.stall_disk_within():
                write(client, ONE_STALL_S)
            wait_until(lambda: SLOW in follower.log.read_text(), READY_S, "the server reports it")
            write(client, 5)
        return logs_of(ensemble)


def simultaneous_stall(directory: Path) -> Mapping[str, Path]:
    """Stall the disks of both followers at the same time, as if they were one disk."""
    with three_servers(directory, ServerSettings(faults=True)) as ensemble:
        _, first, second = _by_role(ensemble)
        with client_of(*ensemble.servers) as client:
            write(client, 5)
            with first.stall_disk_within(), second.stall_disk_within():
                write(client, BOTH_STALL_S)
            for server in (first, second):
                wait_until(partial(_reports_slow_write, server), READY_S, "the server reports it")
            ensemble.wait_ready(READY_S)
            write(client, 5)
        return logs_of(ensemble)


def paused(directory: Path) -> Mapping[str, Path]:
    """Pause one follower, as in a long garbage collection. Its pause monitor reports it afterwards."""
    with three_servers(directory, ServerSettings(extra={"jvm.pause.monitor": "true"})) as ensemble:
        leader, follower, _ = _by_role(ensemble)
        with client_of(leader) as client:
            write(client, 5)
            follower.pause()
            write(client, PAUSE_S)
            follower.resume()
            wait_until(lambda: "Detected pause" in follower.log.read_text(), READY_S, "the server reports it")
            write(client, 5)
        return logs_of(ensemble)


def _reports_slow_write(server: ZooKeeperServer) -> bool:
    return SLOW in server.log.read_text()


def _by_role(ensemble: EmbeddedEnsemble) -> list[ZooKeeperServer]:
    """Return the servers, the leader first."""
    return sorted(ensemble.servers, key=lambda server: server.health().mode != "leader")


SITUATIONS: dict[str, Situation] = {
    "zookeeper-healthy": healthy,
    "zookeeper-disk-stall": disk_stall,
    "zookeeper-simultaneous-stall": simultaneous_stall,
    "zookeeper-paused": paused,
}
