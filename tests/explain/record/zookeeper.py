"""Three ZooKeeper servers whose disks stall, and three that nothing happens to."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from kazoo.client import KazooClient

from holdfast.zk.embedded import Ensemble, Server, Settings
from tests.harness.waiting import eventually

READY_S = 60.0
USED_S = 60.0
"""For how long the healthy ones are used."""
WRITE_EVERY_S = 0.02
ONE_STALL_S = 3.0
"""Longer than ZooKeeper keeps silent about, and shorter than its followers may lag behind."""
BOTH_STALL_S = 9.0
"""Longer than followers may lag behind: five ticks."""
PAUSE_S = 12.0
"""The same: long enough to be left behind, and to be noticed by everybody. ZooKeeper tells of a pause from ten seconds on."""
SLOW = "fsync-ing the write ahead log"
Situation = Callable[[Path], Mapping[str, Path]]


@contextlib.contextmanager
def three_servers(directory: Path, settings: Settings | None = None) -> Iterator[Ensemble]:
    ensemble = Ensemble(directory / "zookeeper", size=3, settings=settings)
    try:
        ensemble.start()
        ensemble.wait_ready(READY_S)
        yield ensemble
    finally:
        ensemble.stop()


def logs_of(ensemble: Ensemble) -> dict[str, Path]:
    return {f"zookeeper-{server.id}": server.log for server in ensemble.servers}


def restart_one_by_one(ensemble: Ensemble, between: Callable[[], object]) -> None:
    """Each in order, and the next only when all serve again: as an upgrade is done. The leader is the last."""
    for server in sorted(ensemble.servers, key=lambda server: server.health().mode == "leader"):
        server.stop()
        server.start()
        ensemble.wait_ready(READY_S)
        between()


@contextlib.contextmanager
def client_of(*servers: Server) -> Iterator[KazooClient]:
    client = KazooClient(",".join(f"127.0.0.1:{server.client_port}" for server in servers), timeout=10.0)
    client.start(READY_S)
    client.ensure_path("/traffic")
    try:
        yield client
    finally:
        client.stop()
        client.close()


def write(client: KazooClient, for_s: float) -> None:
    """Without waiting for an answer: there may be none."""
    until = time.monotonic() + for_s
    while time.monotonic() < until:
        client.set_async("/traffic", b"x")
        time.sleep(WRITE_EVERY_S)  # so often something is written


def healthy(directory: Path) -> Mapping[str, Path]:
    with three_servers(directory) as ensemble:
        with client_of(*ensemble.servers) as client:
            write(client, USED_S)
        return logs_of(ensemble)


def disk_stall(directory: Path) -> Mapping[str, Path]:
    """One follower's disk does not answer; the others go on."""
    with three_servers(directory, Settings(faults=True)) as ensemble:
        leader, follower, _ = _by_role(ensemble)
        with client_of(leader) as client:
            write(client, 5)
            with follower.disk_stalled():
                write(client, ONE_STALL_S)
            eventually(lambda: SLOW in follower.log.read_text(), READY_S, "the server tells of it")
            write(client, 5)
        return logs_of(ensemble)


def simultaneous_stall(directory: Path) -> Mapping[str, Path]:
    """The disks of both followers stop at once, as if they were one."""
    with three_servers(directory, Settings(faults=True)) as ensemble:
        _, first, second = _by_role(ensemble)
        with client_of(*ensemble.servers) as client:
            write(client, 5)
            with first.disk_stalled(), second.disk_stalled():
                write(client, BOTH_STALL_S)
            for server in (first, second):
                eventually(lambda server=server: SLOW in server.log.read_text(), READY_S, "the server tells of it")
            ensemble.wait_ready(READY_S)
            write(client, 5)
        return logs_of(ensemble)


def paused(directory: Path) -> Mapping[str, Path]:
    """One follower stands still, as in a long collection of garbage. It notices afterwards, because it was told to look."""
    with three_servers(directory, Settings(extra={"jvm.pause.monitor": "true"})) as ensemble:
        leader, follower, _ = _by_role(ensemble)
        with client_of(leader) as client:
            write(client, 5)
            follower.pause()
            write(client, PAUSE_S)
            follower.resume()
            eventually(lambda: "Detected pause" in follower.log.read_text(), READY_S, "the server tells of it")
            write(client, 5)
        return logs_of(ensemble)


def _by_role(ensemble: Ensemble) -> list[Server]:
    """The leader first."""
    return sorted(ensemble.servers, key=lambda server: server.health().mode != "leader")


SITUATIONS: dict[str, Situation] = {
    "zookeeper-healthy": healthy,
    "zookeeper-disk-stall": disk_stall,
    "zookeeper-simultaneous-stall": simultaneous_stall,
    "zookeeper-paused": paused,
}
