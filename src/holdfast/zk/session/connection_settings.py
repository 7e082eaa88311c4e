"""How to reach and prove oneself to a ZooKeeper ensemble."""

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.errors import Refused


@dataclass(frozen=True, slots=True)
class Tls:
    ca: Path
    certificate: Path | None = None
    key: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=str(self.ca))
            context.check_hostname = self.check_hostname
            if self.certificate is not None:
                # Always a password, if only an empty one: asked for none, OpenSSL would wait for somebody to type it.
                context.load_cert_chain(self.certificate, self.key, lambda: self.key_password or "")
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(str(file) for file in (self.ca, self.certificate, self.key) if file is not None)
            raise Refused(f"the TLS files ({files}) cannot be used: {error}") from error
        return context


@dataclass(frozen=True, slots=True)
class Digest:
    """A ZooKeeper user. Everything that Holdfast creates then belongs to it, and nobody else can read or change it."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ensemble:
    """A ZooKeeper ensemble as a client sees it."""

    hosts: tuple[tuple[str, int], ...]
    chroot: str = ""
    session_timeout_s: float = 15.0
    digest: Digest | None = None
    tls: Tls | None = None

    @property
    def connect(self) -> str:
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts) + self.chroot


def parse_connect(text: str) -> tuple[tuple[tuple[str, int], ...], str]:
    """`host:port,host:port/chroot` as hosts and chroot. A missing port is 2181; IPv6 hosts stand in brackets."""
    addresses, slash, path = text.strip().partition("/")
    hosts = tuple(_parse_host(address.strip(), text) for address in addresses.split(","))
    chroot = (slash + path).rstrip("/")
    if any(part in ("", ".", "..") for part in chroot.split("/")[1:]):
        raise Refused(f"'{text[:200]}' is not a ZooKeeper address: its path has an empty part, or dots for one")
    return hosts, chroot


_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:\[\]]+))(?::(?P<port>\d{1,5}))?", re.ASCII)


def _parse_host(address: str, whole: str) -> tuple[str, int]:
    match = _HOST.fullmatch(address)
    port = int(match["port"] or 2181) if match is not None else 0
    if match is None or not 0 < port < 65536:
        raise Refused(f"'{whole[:200]}' is not a ZooKeeper address: expected HOST:PORT[,HOST:PORT…][/PATH]")
    host = match["six"] or match["host"]
    try:
        host.encode("idna")
    except UnicodeError:
        raise Refused(f"'{whole[:200]}' is not a ZooKeeper address: no host can be called '{host[:70]}'") from None
    return host, port
