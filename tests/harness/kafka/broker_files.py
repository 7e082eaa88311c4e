"""What a broker's files say. Pure: ports and settings in, text out."""

from collections.abc import Mapping

from holdfast.zk.embedded.configuration import as_properties
from holdfast.zk.embedded.ports import LOOPBACK, Ports

LOG_NAME = "server.log"
DATA_NAME = "data"
SESSION_MS = 2000
"""After so long without a sign of life a broker is taken for dead, by ZooKeeper or by the controller."""


def with_zookeeper(id: int, ports: Ports, connect: str) -> str:
    return as_properties(
        _common(ports)
        | {
            "broker.id": str(id),
            "listeners": f"PLAINTEXT://{LOOPBACK}:{ports.client}",
            "zookeeper.connect": connect,
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "zookeeper.connection.timeout.ms": "20000",
        }
    )


def with_kraft(id: int, members: Mapping[int, Ports], extra: Mapping[str, str]) -> str:
    """Broker and controller in one process. What is extra wins."""
    ports = members[id]
    return as_properties(
        _common(ports)
        | {
            "process.roles": "broker,controller",
            "node.id": str(id),
            "listeners": f"PLAINTEXT://{LOOPBACK}:{ports.client},CONTROLLER://{LOOPBACK}:{ports.quorum}",
            "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{ports.client}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{n}@{LOOPBACK}:{each.quorum}" for n, each in sorted(members.items())),
            "controller.quorum.election.timeout.ms": "500",
            "controller.quorum.election.backoff.max.ms": "200",
            "controller.quorum.fetch.timeout.ms": str(SESSION_MS),
            "broker.session.timeout.ms": str(SESSION_MS),
            "broker.heartbeat.interval.ms": "300",
            "initial.broker.registration.timeout.ms": "30000",
        }
        | dict(extra)
    )


def with_password_and_tls(ports: Ports, *, user: str, password: str, key_store: str) -> dict[str, str]:
    """Another listener, on the secure port, beside those of `with_kraft`. `key_store` is a PEM file: key and certificates."""
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";'
    return {
        "listeners": (
            f"PLAINTEXT://{LOOPBACK}:{ports.client},CONTROLLER://{LOOPBACK}:{ports.quorum},SASL_SSL://{LOOPBACK}:{ports.secure}"
        ),
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{ports.client},SASL_SSL://{LOOPBACK}:{ports.secure}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": login,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": key_store,
    }


def _common(ports: Ports) -> dict[str, str]:
    return {
        "log.dirs": DATA_NAME,
        "auto.create.topics.enable": "false",
        "auto.leader.rebalance.enable": "false",
        "controlled.shutdown.enable": "true",
        "delete.topic.enable": "true",
        "file.delete.delay.ms": "100",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "num.network.threads": "1",
        "num.io.threads": "2",
        "num.recovery.threads.per.data.dir": "1",
        "background.threads": "2",
        # Its default of 128 MB would not fit into a small heap.
        "log.cleaner.dedupe.buffer.size": "2097152",
        "log.cleaner.threads": "1",
        "log.index.size.max.bytes": "1048576",
        # A replica that does not follow is out of the set of those in sync soon.
        "replica.lag.time.max.ms": str(SESSION_MS),
        "replica.fetch.wait.max.ms": "100",
        "replica.socket.timeout.ms": "5000",
        "socket.listen.backlog.size": "50",
    }


def reload4j() -> str:
    """In the shape of Kafka's own default, which log readers know."""
    return as_properties(
        {
            "log4j.rootLogger": "INFO, file",
            "log4j.appender.file": "org.apache.log4j.FileAppender",
            "log4j.appender.file.File": LOG_NAME,
            "log4j.appender.file.layout": "org.apache.log4j.PatternLayout",
            "log4j.appender.file.layout.ConversionPattern": "[%d] %p %m (%c)%n",
        }
    )


def log4j2() -> str:
    return as_properties(
        {
            "status": "error",
            "appender.file.type": "File",
            "appender.file.name": "file",
            "appender.file.fileName": LOG_NAME,
            "appender.file.layout.type": "PatternLayout",
            "appender.file.layout.pattern": "[%d] %p %m (%c)%n",
            "rootLogger.level": "info",
            "rootLogger.appenderRef.file.ref": "file",
        }
    )
