"""Configuration files of a broker. Pure: ports and settings in, text out."""

from collections.abc import Mapping

from holdfast.zk.embedded.configuration import format_properties
from holdfast.zk.embedded.ports import LOOPBACK, Ports

LOG_NAME = "server.log"
DATA_NAME = "data"
SESSION_MS = 2000
"""Time without a heartbeat after which ZooKeeper or the controller considers a broker dead."""


def zookeeper_properties(id: int, ports: Ports, connect: str) -> str:
    return format_properties(
        _common_properties(ports)
        | {
            "broker.id": str(id),
            "listeners": f"PLAINTEXT://{LOOPBACK}:{ports.client}",
            "zookeeper.connect": connect,
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "zookeeper.connection.timeout.ms": "20000",
        }
    )


def kraft_properties(id: int, members: Mapping[int, Ports], extra: Mapping[str, str]) -> str:
    """Return the settings of a combined broker and controller. `extra` overrides them."""
    ports = members[id]
    return format_properties(
        _common_properties(ports)
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


def sasl_tls_properties(ports: Ports, *, user: str, password: str, key_store: str) -> dict[str, str]:
    """Return settings for a SASL listener with TLS. `key_store` is a PEM file with the key and the certificates."""
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


def _common_properties(ports: Ports) -> dict[str, str]:
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
        # The default of 128 MB does not fit into a small heap.
        "log.cleaner.dedupe.buffer.size": "2097152",
        "log.cleaner.threads": "1",
        "log.index.size.max.bytes": "1048576",
        # A replica that does not follow leaves the in-sync set soon.
        "replica.lag.time.max.ms": str(SESSION_MS),
        "replica.fetch.wait.max.ms": "100",
        "replica.socket.timeout.ms": "5000",
        "socket.listen.backlog.size": "50",
    }


def reload4j_properties() -> str:
    """Return a logging configuration with the line format of Kafka's default."""
    return format_properties(
        {
            "log4j.rootLogger": "INFO, file",
            "log4j.appender.file": "org.apache.log4j.FileAppender",
            "log4j.appender.file.File": LOG_NAME,
            "log4j.appender.file.layout": "org.apache.log4j.PatternLayout",
            "log4j.appender.file.layout.ConversionPattern": "[%d] %p %m (%c)%n",
        }
    )


def log4j2_properties() -> str:
    return format_properties(
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
