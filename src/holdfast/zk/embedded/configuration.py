"""Contents of a server's configuration files. Pure."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from holdfast.errors import Refused
from holdfast.zk.embedded.ports import LOOPBACK, Ports
from holdfast.zk.session.connection_settings import Tls

LOG_NAME = "zookeeper.log"
DATA_NAME = "data"


@dataclass(frozen=True, slots=True)
class ServerTls:
    """TLS for client connections. The server requires a certificate from every client."""

    key_store: Path
    """PEM file with the server's private key (PKCS #8) and its certificate chain."""
    trust_store: Path
    """PEM file with the certificate authorities that sign client certificates."""
    plain_port: bool = False
    """Listen on a port without TLS too. For tests: every user of this machine can connect."""

    def check(self) -> None:
        """Raise Refused for files that ZooKeeper cannot use. ZooKeeper would start, look healthy and drop every client."""
        for file, marker, remedy in (
            (self.key_store, "-----BEGIN PRIVATE KEY-----", "convert it with: openssl pkcs8 -topk8 -nocrypt"),
            (self.key_store, "-----BEGIN CERTIFICATE-----", "append the server's certificate chain to it"),
            (self.trust_store, "-----BEGIN CERTIFICATE-----", "add the certificates of the authorities"),
        ):
            try:
                has_marker = marker in file.read_text(encoding="ascii", errors="replace")
            except OSError as error:
                raise Refused(f"cannot read the TLS file {file}: {error.strerror}") from error
            if not has_marker:
                raise Refused(f"the TLS file {file} has no {marker.strip('-')}: {remedy}")

    def context(self) -> ssl.SSLContext:
        """Return the context for health queries. They use the server's certificate as the client certificate."""
        return Tls(ca=self.trust_store, certificate=self.key_store, check_hostname=False).context()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    tick_ms: int = 1000
    init_limit_ticks: int = 10
    sync_limit_ticks: int = 5
    heap_mb: int = 128
    tls: ServerTls | None = None
    faults: bool = False
    """Allow `stall_disk`. Needs a C compiler."""
    extra: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Additional zoo.cfg settings. They override all others."""

    @property
    def has_plain_port(self) -> bool:
        return self.tls is None or self.tls.plain_port


def zoo_cfg(id: int, members: Mapping[int, Ports], settings: ServerSettings) -> str:
    """Return the server's zoo.cfg. Its paths are relative to the working directory, because Java misreads some path names."""
    lines = {
        "dataDir": f"./{DATA_NAME}",
        "tickTime": str(settings.tick_ms),
        "initLimit": str(settings.init_limit_ticks),
        "syncLimit": str(settings.sync_limit_ticks),
        # No limit: the default is 60 connections per address, and all clients on this machine share one address.
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr,mntr,ruok,conf",
        "autopurge.snapRetainCount": "3",
        "autopurge.purgeInterval": "1",
    }
    if settings.has_plain_port:
        lines |= {"clientPort": str(members[id].client), "clientPortAddress": LOOPBACK}
    if settings.tls is not None:
        lines |= _tls_lines(members[id], settings.tls)
    if len(members) > 1:
        lines |= {f"server.{n}": f"{LOOPBACK}:{ports.quorum}:{ports.election}" for n, ports in sorted(members.items())}
    return format_properties(lines | dict(settings.extra))


def _tls_lines(ports: Ports, tls: ServerTls) -> dict[str, str]:
    return {
        "secureClientPort": str(ports.secure),
        "secureClientPortAddress": LOOPBACK,
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.clientAuth": "need",
        "ssl.keyStore.type": "PEM",
        "ssl.keyStore.location": str(tls.key_store.absolute()),
        "ssl.trustStore.type": "PEM",
        "ssl.trustStore.location": str(tls.trust_store.absolute()),
    }


def log4j2_properties(id: int) -> str:
    """Return the log4j2 configuration: one log in ZooKeeper's default format, at most 40 MB including rotated files.

    The server id is a literal in the pattern, because log4j loses the context value in ZooKeeper's threads.
    """
    return format_properties(
        {
            "status": "error",
            "appender.file.type": "RollingFile",
            "appender.file.name": "file",
            "appender.file.fileName": LOG_NAME,
            "appender.file.filePattern": f"{LOG_NAME}.%i",
            "appender.file.layout.type": "PatternLayout",
            "appender.file.layout.pattern": f"%d{{DEFAULT}} [myid:{id}] - %-5p [%t:%C{{1}}@%L] - %m%n",
            "appender.file.policies.type": "Policies",
            "appender.file.policies.size.type": "SizeBasedTriggeringPolicy",
            "appender.file.policies.size.size": "10MB",
            "appender.file.strategy.type": "DefaultRolloverStrategy",
            "appender.file.strategy.max": "3",
            "rootLogger.level": "info",
            "rootLogger.appenderRef.file.ref": "file",
        }
    )


def format_properties(lines: Mapping[str, str]) -> str:
    """Return the settings as a Java properties file, escaped."""
    return "".join(f"{_check_key(key)}={_escape_value(value)}\n" for key, value in lines.items())


def _check_key(key: str) -> str:
    if not key or not key.isascii() or not key.isprintable() or any(character in key for character in " =:#!\\"):
        raise Refused(f"'{key}' is not a valid name of a ZooKeeper setting")
    return key


def _escape_value(value: str) -> str:
    escaped: list[str] = []
    for index, character in enumerate(value):
        if character == "\\" or (character == " " and index == 0):
            escaped.append("\\" + character)
        elif character.isascii() and character.isprintable():
            escaped.append(character)
        else:
            units = character.encode("utf-16-be")
            escaped += [f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)]
    return "".join(escaped)
