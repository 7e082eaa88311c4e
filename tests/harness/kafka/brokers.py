"""Real Kafka brokers on loopback, as a context manager: with KRaft controllers or with ZooKeeper."""

import base64
import shutil
import subprocess
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from holdfast.zk.embedded.configuration import format_properties
from holdfast.zk.embedded.ports import Ports
from tests.harness.kafka import broker_files
from tests.harness.kafka.broker_process import CLASS_ARCHIVE, LOGGING_FILE, Broker, java_command
from tests.harness.kafka.jars import KRAFT, ZOOKEEPER_MODE, broker_jars
from tests.harness.waiting import wait_until

READY_S = 60.0
FORMAT_S = 60.0
REQUEST_TIMEOUT_S = 2.0
FORMATTED_TEMPLATE = "formatted"
"""Formatted broker directory beside the jars. All brokers copy it."""


def _no_settings(_ports: Ports) -> Mapping[str, str]:
    return {}


class Brokers:
    """Brokers of one cluster, numbered from 1."""

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
        # A graceful shutdown takes seconds for each broker, and the data is not needed any more.
        for broker in self.brokers:
            broker.kill()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def wait_ready(self, *ids: int) -> None:
        """Wait until each of these brokers (default: all) serves requests and knows the others."""
        brokers = [self[id] for id in ids] or list(self.brokers)
        for broker in brokers:
            expected = {each.id for each in brokers}
            wait_until(partial(_knows_brokers, broker, expected), READY_S, f"broker {broker.id} knows of {expected}")

    def restart(self, id: int) -> None:
        """Start a stopped broker with its data, and wait until it serves requests."""
        self[id].start()
        self.wait_ready(id)

    def restore(self) -> None:
        """Resume or start all brokers, and wait until they are ready."""
        for broker in self.brokers:
            if broker.running:
                broker.resume()
            else:
                broker.start()
        self.wait_ready()


def zookeeper_brokers(directory: Path, connect: str, *, size: int = 2) -> Brokers:
    """Return brokers of version 3.9 registered in ZooKeeper: a broker that loses its session loses its leadership."""
    ports_by_id = _pick_ports(size)
    for id, ports in ports_by_id.items():
        own = _broker_directory(directory, id)
        (own / "server.properties").write_text(broker_files.zookeeper_properties(id, ports, connect))
        (own / LOGGING_FILE).write_text(broker_files.reload4j_properties())
    return _brokers(directory, ZOOKEEPER_MODE, ports_by_id)


def kraft_brokers(directory: Path, *, size: int = 3, extra: Callable[[Ports], Mapping[str, str]] = _no_settings) -> Brokers:
    """Return brokers of version 4 that are also controllers. `extra` returns further settings for a broker's ports."""
    _ensure_class_archive(directory / "archive")
    return _kraft_brokers(directory, size, extra)


def _ensure_class_archive(directory: Path) -> None:
    """Create the class-data archive once: a broker writes it at its graceful shutdown."""
    archive = broker_jars(KRAFT) / CLASS_ARCHIVE
    if archive.exists():
        return
    temporary = archive.with_name(f"{directory.parent.name}-{archive.name}")
    single = _kraft_brokers(directory, 1, _no_settings)
    try:
        single[1].start(f"-XX:ArchiveClassesAtExit={temporary}")
        single.wait_ready()
        single[1].stop()
        if temporary.exists():  # a busy machine may not write it before the broker is killed; brokers start without it, too
            temporary.rename(archive)
    finally:
        single[1].kill()


def _kraft_brokers(directory: Path, size: int, extra: Callable[[Ports], Mapping[str, str]]) -> Brokers:
    ports_by_id = _pick_ports(size)
    cluster = _uuid()
    for id, ports in ports_by_id.items():
        own = _broker_directory(directory, id)
        (own / "server.properties").write_text(broker_files.kraft_properties(id, ports_by_id, extra(ports)))
        (own / LOGGING_FILE).write_text(broker_files.log4j2_properties())
        _format_storage(own, id, cluster)
    return _brokers(directory, KRAFT, ports_by_id)


def _brokers(directory: Path, version: str, ports_by_id: dict[int, Ports]) -> Brokers:
    jars = broker_jars(version)
    return Brokers(tuple(Broker(id, _broker_directory(directory, id), jars, ports) for id, ports in ports_by_id.items()))


def _knows_brokers(broker: Broker, others: set[int]) -> bool:
    """Return True if the broker knows the others. Uses a new client: an old one keeps waiting for a dead broker."""
    assert broker.running, f"broker {broker.id} has exited: {broker.log_tail()}"
    try:
        return (
            set(
                AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
                .list_topics(timeout=REQUEST_TIMEOUT_S)
                .brokers
            )
            >= others
        )
    except KafkaException:
        return False


def _pick_ports(size: int) -> dict[int, Ports]:
    ports_by_id: dict[int, Ports] = {}
    for id in range(1, size + 1):
        ports_by_id[id] = Ports.pick(avoid=[number for ports in ports_by_id.values() for number in ports.numbers()])
    return ports_by_id


def _broker_directory(directory: Path, id: int) -> Path:
    own = directory / f"broker-{id}"
    own.mkdir(parents=True, exist_ok=True)
    return own


def _format_storage(own: Path, id: int, cluster: str) -> None:
    """Format a data directory. Formatting needs a Java process, so it runs once and all brokers copy the result."""
    jars = broker_jars(KRAFT)
    template = jars / FORMATTED_TEMPLATE
    if not template.is_dir():
        command = java_command(jars, "kafka.tools.StorageTool", "format", "-t", _uuid(), "-c", "server.properties")
        subprocess.run(command, cwd=own, check=True, capture_output=True, timeout=FORMAT_S)
        (own / broker_files.DATA_NAME).rename(template)
    data = own / broker_files.DATA_NAME
    shutil.copytree(template, data)
    properties = {"version": "1", "cluster.id": cluster, "node.id": str(id), "directory.id": _uuid()}
    (data / "meta.properties").write_text(format_properties(properties))


def _uuid() -> str:
    """Return a random UUID in Kafka's base64 format."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
