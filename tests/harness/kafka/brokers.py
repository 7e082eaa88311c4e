"""Real Kafka brokers on loopback, from `with` to its end: three that elect among themselves (KRaft), or on a ZooKeeper."""

import base64
import shutil
import subprocess
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from holdfast.zk.embedded.ports import Ports
from tests.harness.kafka import broker_files
from tests.harness.kafka.broker_process import ARCHIVE, LOGGING, Broker, java
from tests.harness.kafka.jars import KRAFT, ZOOKEEPER_MODE, jars_of
from tests.harness.waiting import eventually

READY_S = 60.0
FORMAT_S = 60.0
ASK_S = 2.0
FORMATTED = "formatted"
"""Beside the jars: the directory of a broker that was formatted once, as a pattern for all others."""


def _nothing(_ports: Ports) -> Mapping[str, str]:
    return {}


class Brokers:
    """Several of one kind, numbered from 1."""

    def __init__(self, brokers: tuple[Broker, ...]) -> None:
        self.brokers = brokers

    def __getitem__(self, id: int) -> Broker:
        return self.brokers[id - 1]

    def __enter__(self) -> "Brokers":
        try:
            for broker in self.brokers:
                broker.start()
            self.wait_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # In order takes seconds for each, and nobody looks at them again.
        for broker in self.brokers:
            broker.kill()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def wait_ready(self, *ids: int) -> None:
        """Until each of these brokers, by default of all, serves and knows of the others of them."""
        awaited = [self[id] for id in ids] or list(self.brokers)
        for broker in awaited:
            wanted = {each.id for each in awaited}
            eventually(partial(_knows, broker, wanted), READY_S, f"broker {broker.id} knows of {wanted}")

    def restart(self, id: int) -> None:
        """Start it again on its data, and wait until it serves."""
        self[id].start()
        self.wait_ready(id)

    def mend(self) -> None:
        """All of them up again."""
        for broker in self.brokers:
            if broker.running:
                broker.resume()
            else:
                broker.start()
        self.wait_ready()


def zookeeper_brokers(directory: Path, connect: str, *, size: int = 2) -> Brokers:
    """Version 3.9, registered in this ZooKeeper: a broker that loses its session there loses what it leads."""
    members = _members(size)
    for id, ports in members.items():
        own = _directory(directory, id)
        (own / "server.properties").write_text(broker_files.with_zookeeper(id, ports, connect))
        (own / LOGGING).write_text(broker_files.reload4j())
    return _brokers(directory, ZOOKEEPER_MODE, members)


def kraft_brokers(directory: Path, *, size: int = 3, extra: Callable[[Ports], Mapping[str, str]] = _nothing) -> Brokers:
    """Version 4, each of them a controller too. `extra` are more settings, by the broker's ports."""
    _archive(directory / "archive")
    return _kraft_brokers(directory, size, extra)


def _archive(directory: Path) -> None:
    """Once: a broker that notes at its orderly end which classes it has loaded."""
    archive = jars_of(KRAFT) / ARCHIVE
    if archive.exists():
        return
    unfinished = archive.with_name(f"{directory.parent.name}-{archive.name}")
    only = _kraft_brokers(directory, 1, _nothing)
    try:
        only[1].start(f"-XX:ArchiveClassesAtExit={unfinished}")
        only.wait_ready()
        only[1].stop()
        unfinished.rename(archive)
    finally:
        only[1].kill()


def _kraft_brokers(directory: Path, size: int, extra: Callable[[Ports], Mapping[str, str]]) -> Brokers:
    members = _members(size)
    cluster = _uuid()
    for id, ports in members.items():
        own = _directory(directory, id)
        (own / "server.properties").write_text(broker_files.with_kraft(id, members, extra(ports)))
        (own / LOGGING).write_text(broker_files.log4j2())
        _format(own, id, cluster)
    return _brokers(directory, KRAFT, members)


def _brokers(directory: Path, version: str, members: dict[int, Ports]) -> Brokers:
    jars = jars_of(version)
    return Brokers(tuple(Broker(id, _directory(directory, id), jars, ports) for id, ports in members.items()))


def _knows(broker: Broker, others: set[int]) -> bool:
    """With a client of its own each time: one that has known a broker goes on waiting for it."""
    assert broker.running, f"broker {broker.id} ended: {broker.last_words()}"
    try:
        return (
            set(AdminClient({"bootstrap.servers": broker.address, "log_level": 0}).list_topics(timeout=ASK_S).brokers) >= others
        )
    except KafkaException:
        return False


def _members(size: int) -> dict[int, Ports]:
    members: dict[int, Ports] = {}
    for id in range(1, size + 1):
        members[id] = Ports.pick(avoid=[number for ports in members.values() for number in ports.numbers()])
    return members


def _directory(directory: Path, id: int) -> Path:
    own = directory / f"broker-{id}"
    own.mkdir(parents=True, exist_ok=True)
    return own


def _format(own: Path, id: int, cluster: str) -> None:
    """Formatting takes a Java of its own for each broker, so one directory is formatted once and the others copy it."""
    jars = jars_of(KRAFT)
    pattern = jars / FORMATTED
    if not pattern.is_dir():
        command = java(jars, "kafka.tools.StorageTool", "format", "-t", _uuid(), "-c", "server.properties")
        subprocess.run(command, cwd=own, check=True, capture_output=True, timeout=FORMAT_S)
        (own / broker_files.DATA_NAME).rename(pattern)
    data = own / broker_files.DATA_NAME
    shutil.copytree(pattern, data)
    about = {"version": "1", "cluster.id": cluster, "node.id": str(id), "directory.id": _uuid()}
    (data / "meta.properties").write_text(broker_files.as_properties(about))


def _uuid() -> str:
    """As Kafka spells it."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
