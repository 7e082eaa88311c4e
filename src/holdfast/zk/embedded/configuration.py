"""What a server's files say. Pure: settings in, text out."""

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
    """TLS on the client side of a server: it shows its certificate, and requires one of every client."""

    key_store: Path
    """PEM: the server's private key, in PKCS #8, and its certificate chain."""
    trust_store: Path
    """PEM: the authorities whose clients may connect."""
    plain_port: bool = False
    """Listen without TLS as well. For tests: it lets everyone on this machine in."""

    def check(self) -> None:
        """Refuse files that ZooKeeper cannot read: it would start, look healthy, and drop every client."""
        for file, mark, remedy in (
            (self.key_store, "-----BEGIN PRIVATE KEY-----", "convert it with: openssl pkcs8 -topk8 -nocrypt"),
            (self.key_store, "-----BEGIN CERTIFICATE-----", "append the server's certificate chain to it"),
            (self.trust_store, "-----BEGIN CERTIFICATE-----", "it must hold the authorities' certificates"),
        ):
            try:
                found = mark in file.read_text(encoding="ascii", errors="replace")
            except OSError as error:
                raise Refused(f"the TLS file {file} cannot be read: {error.strerror}") from error
            if not found:
                raise Refused(f"the TLS file {file} has no {mark.strip('-')}: {remedy}")

    def context(self) -> ssl.SSLContext:
        """For asking the server about its health: its own certificate also serves as a client's."""
        return Tls(ca=self.trust_store, certificate=self.key_store, check_hostname=False).context()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    tick_ms: int = 1000
    init_limit_ticks: int = 10
    sync_limit_ticks: int = 5
    heap_mb: int = 128
    tls: ServerTls | None = None
    faults: bool = False
    """Whether the disk can be stalled. Needs a C compiler."""
    extra: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """More lines of zoo.cfg. They win over everything else."""

    @property
    def has_plain_port(self) -> bool:
        return self.tls is None or self.tls.plain_port


def zoo_cfg(id: int, members: Mapping[int, Ports], settings: Settings) -> str:
    """The server's zoo.cfg. Its directories are relative to where the server runs: Java would misread some names."""
    lines = {
        "dataDir": f"./{DATA_NAME}",
        "tickTime": str(settings.tick_ms),
        "initLimit": str(settings.init_limit_ticks),
        "syncLimit": str(settings.sync_limit_ticks),
        # The default of 60 connections an address counts everyone on this machine as one.
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
    return as_properties(lines | dict(settings.extra))


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


def log4j2(id: int) -> str:
    """Logs to one file in the shape of ZooKeeper's own default, which log readers know, and never more than 40 MB.

    The id is written out: log4j would lose it in the threads that ZooKeeper starts.
    """
    return as_properties(
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


def as_properties(lines: Mapping[str, str]) -> str:
    """A Java properties file, with everything escaped that Java would read as something else."""
    return "".join(f"{_key(key)}={_value(value)}\n" for key, value in lines.items())


def _key(key: str) -> str:
    if not key or not key.isascii() or not key.isprintable() or any(mark in key for mark in " =:#!\\"):
        raise Refused(f"'{key}' is not the name of a ZooKeeper setting")
    return key


def _value(value: str) -> str:
    escaped: list[str] = []
    for place, letter in enumerate(value):
        if letter == "\\" or (letter == " " and place == 0):
            escaped.append("\\" + letter)
        elif letter.isascii() and letter.isprintable():
            escaped.append(letter)
        else:
            units = letter.encode("utf-16-be")
            escaped += [f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)]
    return "".join(escaped)
