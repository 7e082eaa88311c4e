"""Which cluster a command is about."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from holdfast import config
from holdfast.errors import Refused
from holdfast.local.directory_layout import Layout
from holdfast.model.identifiers import is_name
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.connection_settings import Ensemble, parse_connect

DEFAULT_DIRECTORY = Path("~/.holdfast")
DEFAULT_CONFIG = Path("holdfast.toml")


@dataclass(frozen=True, slots=True)
class Target:
    ensemble: Ensemble
    cluster: str
    servers: tuple[tuple[str, str, int], ...]
    """The ZooKeeper servers as id, host, port."""
    directory: Path | None = None
    """Of a cluster on this machine."""

    @property
    def paths(self) -> Paths:
        return Paths(self.cluster, prefix=self.ensemble.chroot)


def target_options(command: Any) -> Any:
    """The options that every command takes to find its cluster."""
    for option in (
        click.option("--cluster", "cluster_name", help="The cluster's name, with --connect. Default: 'default'."),
        click.option("--connect", help="The cluster's ZooKeeper: HOST:PORT,HOST:PORT…[/PATH]."),
        click.option("--dir", "directory", type=click.Path(path_type=Path), help="The directory of a local cluster."),
    ):
        command = option(command)
    return command


def directory_or_default(directory: Path | None) -> Path:
    chosen = directory or Path(os.environ.get("HOLDFAST_DIR") or DEFAULT_DIRECTORY)
    return chosen.expanduser().absolute()


def find(directory: Path | None, connect: str | None, cluster_name: str | None) -> Target:
    """What was said wins over the environment, which wins over a file, which wins over the default directory."""
    if directory is not None:
        return _local(directory_or_default(directory))
    if connect:
        return _remote(connect, cluster_name)
    if os.environ.get("HOLDFAST_DIR"):
        return _local(directory_or_default(None))
    if os.environ.get("HOLDFAST_CONNECT"):
        return _remote(os.environ["HOLDFAST_CONNECT"], cluster_name)
    if DEFAULT_CONFIG.exists():
        return _named(*config.load_cluster(DEFAULT_CONFIG))
    if Layout(directory_or_default(None)).cluster_file.exists():
        return _local(directory_or_default(None))
    raise Refused(
        "which cluster? Say --dir or --connect, set HOLDFAST_DIR or HOLDFAST_CONNECT, or start one with 'holdfast up'"
    )


def _local(directory: Path) -> Target:
    description = Layout(directory).described()
    hosts, chroot = parse_connect(description.connect)
    servers = tuple((id, host, port) for id, (host, port) in zip(description.zookeepers, hosts, strict=True))
    return Target(Ensemble(hosts, chroot, session_timeout_s=10), description.cluster, servers, directory)


def _remote(connect: str, cluster_name: str | None) -> Target:
    hosts, chroot = parse_connect(connect)
    name = cluster_name or os.environ.get("HOLDFAST_CLUSTER") or "default"
    if not is_name(name):
        raise Refused(f"'{name}' cannot be the name of a cluster: letters, digits, '.', '_' and '-', 64 at most")
    return _named(name, Ensemble(hosts, chroot))


def _named(cluster: str, ensemble: Ensemble) -> Target:
    return Target(ensemble, cluster, tuple((f"{host}:{port}", host, port) for host, port in ensemble.hosts))
