"""Find the cluster to talk to: from arguments, environment variables, `holdfast.toml` or the default directory."""

import os
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import Refused
from holdfast.local.directory_layout import DirectoryLayout
from holdfast.model.identifiers import is_valid_name
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.connection_settings import ConnectionSettings, parse_connect_string, read_auth_file

DEFAULT_DIRECTORY = Path("~/.holdfast")
DEFAULT_CONFIG = Path("holdfast.toml")


@dataclass(frozen=True, slots=True)
class Target:
    """Cluster and the ZooKeeper ensemble that holds its records."""

    zookeeper: ConnectionSettings
    cluster: str
    servers: tuple[tuple[str, str, int], ...]
    """(id, host, port) of each ZooKeeper server."""
    directory: Path | None = None
    """Directory of a cluster that `holdfast up` started on this machine."""

    @property
    def paths(self) -> Paths:
        return Paths(self.cluster, prefix=self.zookeeper.chroot)

    @property
    def is_stopped(self) -> bool:
        """True if `holdfast up` started the cluster on this machine and does not run any more."""
        if self.directory is None:
            return False
        try:
            return not DirectoryLayout(self.directory).read_description().supervisor.is_alive
        except Refused:
            return False


def resolve_directory(directory: Path | None) -> Path:
    """Return the absolute path of `directory`, or else of HOLDFAST_DIR, or else of `~/.holdfast`."""
    chosen = directory or Path(os.environ.get("HOLDFAST_DIR") or DEFAULT_DIRECTORY)
    return chosen.expanduser().absolute()


def find_target(directory: Path | None, connect: str | None, cluster_name: str | None) -> Target:
    """Return the cluster to use. Arguments take precedence over the environment, `holdfast.toml` and the default directory.

    Raise Refused if nothing names a cluster, or if its description cannot be read.
    """
    if directory is not None:
        return _local(resolve_directory(directory))
    if connect is not None:
        return _remote(connect, cluster_name)
    if os.environ.get("HOLDFAST_DIR"):
        return _local(resolve_directory(None))
    if os.environ.get("HOLDFAST_CONNECT"):
        return _remote(os.environ["HOLDFAST_CONNECT"], cluster_name)
    if DEFAULT_CONFIG.exists():
        from holdfast import config

        return _remote_target(*config.load_connection(DEFAULT_CONFIG))
    if DirectoryLayout(resolve_directory(None)).cluster_file.exists():
        return _local(resolve_directory(None))
    raise Refused(
        "no cluster is given, and there is none in ~/.holdfast: start one on this machine with 'holdfast up', or name one with "
        "--dir or --connect, or with the environment variable HOLDFAST_DIR or HOLDFAST_CONNECT"
    )


def _local(directory: Path) -> Target:
    description = DirectoryLayout(directory).read_description()
    hosts, chroot = parse_connect_string(description.connect)
    servers = tuple((id, host, port) for id, (host, port) in zip(description.zookeepers, hosts, strict=True))
    digest = read_auth_file(directory / description.auth_file) if description.auth_file is not None else None
    zookeeper = ConnectionSettings(hosts, chroot, session_timeout_s=10, digest=digest)
    return Target(zookeeper, description.cluster, servers, directory)


def _remote(connect: str, cluster_name: str | None) -> Target:
    if not connect.strip():
        raise Refused("the address of ZooKeeper is empty: give it as HOST:PORT,HOST:PORT/PATH, or leave out --connect")
    hosts, chroot = parse_connect_string(connect)
    name = cluster_name or os.environ.get("HOLDFAST_CLUSTER") or "default"
    if not is_valid_name(name):
        raise Refused(f"'{name}' cannot be the name of a cluster: use 1 to 64 letters, digits, '.', '_' or '-'")
    auth_file = os.environ.get("HOLDFAST_AUTH_FILE")
    return _remote_target(
        name, ConnectionSettings(hosts, chroot, digest=read_auth_file(Path(auth_file)) if auth_file else None)
    )


def _remote_target(cluster: str, ensemble: ConnectionSettings) -> Target:
    return Target(ensemble, cluster, tuple((f"{host}:{port}", host, port) for host, port in ensemble.hosts))
