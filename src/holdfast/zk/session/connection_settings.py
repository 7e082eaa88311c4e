"""Addresses, credentials and TLS files for connections to a ZooKeeper ensemble."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import Refused

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificate files for TLS."""

    ca: Path
    certificate: Path | None = None
    key: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True

    def context(self) -> "ssl.SSLContext":
        import ssl  # expensive import, needed only for TLS

        try:
            context = ssl.create_default_context(cafile=str(self.ca))
            context.check_hostname = self.check_hostname
            if self.certificate is not None:
                # Always pass a password: without one, OpenSSL prompts on the terminal.
                context.load_cert_chain(self.certificate, self.key, lambda: self.key_password or "")
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(str(file) for file in (self.ca, self.certificate, self.key) if file is not None)
            raise Refused(f"cannot load the TLS files ({files}): {error}") from error
        return context


@dataclass(frozen=True, slots=True)
class DigestCredentials:
    """A ZooKeeper user. Only this user can read and change the znodes that Holdfast creates."""

    user: str
    password: str = field(repr=False)


def read_auth_file(path: Path) -> DigestCredentials:
    """Read a user from a file with one line `USER:PASSWORD`. Raises Refused if the file is unreadable or has no such line."""
    try:
        user, _, password = path.read_text().strip().partition(":")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or "unknown error") if isinstance(error, OSError) else "it is not text"
        raise Refused(f"cannot read the ZooKeeper user in {path}: {reason}") from error
    if not user or not password or len(password.splitlines()) != 1:
        raise Refused(f"{path} must have one line: USER:PASSWORD")
    return DigestCredentials(user, password)


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Connection settings of a ZooKeeper client."""

    hosts: tuple[tuple[str, int], ...]
    chroot: str = ""
    session_timeout_s: float = 15.0
    digest: DigestCredentials | None = None
    tls: Tls | None = None

    @property
    def connect_string(self) -> str:
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts) + self.chroot


def parse_connect_string(text: str) -> tuple[tuple[tuple[str, int], ...], str]:
    """Parse `host:port,host:port/chroot` into hosts and chroot. The default port is 2181; IPv6 hosts need brackets."""
    addresses, slash, path = text.strip().partition("/")
    hosts = tuple(_parse_host(address.strip(), text) for address in addresses.split(","))
    chroot = (slash + path).rstrip("/")
    if any(part in ("", ".", "..") for part in chroot.split("/")[1:]):
        raise Refused(f"'{text[:200]}' is not a ZooKeeper address: a part of its path is empty, '.' or '..'")
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
        raise Refused(f"'{whole[:200]}' is not a ZooKeeper address: '{host[:70]}' is not a valid host name") from None
    return host, port
