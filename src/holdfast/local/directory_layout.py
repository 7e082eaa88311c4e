"""The directory of a local cluster, and `cluster.json`, by which clients and scripts find everything in it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.atomic_file import write_atomically
from holdfast.errors import Refused
from holdfast.local.process_identity import ProcessName
from holdfast.model.identifiers import is_name
from holdfast.zk.session.connection_settings import parse_connect

CLUSTER = "default"


@dataclass(frozen=True, slots=True)
class Description:
    """What clients need of `cluster.json`."""

    connect: str
    cluster: str
    zookeepers: tuple[str, ...]
    ready: bool
    supervisor: ProcessName

    @classmethod
    def of(cls, fields: Any) -> "Description":
        """Raises whatever comes of another shape."""
        ids = tuple(str(server["id"]) for server in fields["zookeepers"])
        connect, cluster = fields["connect"], fields["cluster"]
        if not isinstance(connect, str) or not is_name(cluster) or len(ids) != len(parse_connect(connect)[0]):
            raise ValueError(connect)
        supervisor = ProcessName(int(fields["supervisor"]["pid"]), int(fields["supervisor"]["started"]))
        return cls(connect, cluster, ids, bool(fields["ready"]), supervisor)


@dataclass(frozen=True, slots=True)
class Layout:
    directory: Path

    @property
    def lock(self) -> Path:
        return self.directory / "up.lock"

    @property
    def log(self) -> Path:
        return self.directory / "up.log"

    @property
    def cluster_file(self) -> Path:
        return self.directory / "cluster.json"

    @property
    def zookeeper(self) -> Path:
        return self.directory / "zookeeper"

    @property
    def storage(self) -> Path:
        return self.directory / "storage"

    @property
    def archives(self) -> Path:
        """One place for all nodes: the same Java and Spark need one archive."""
        return self.directory / "archives"

    @property
    def connectors(self) -> Path:
        return self.directory / "connectors"

    @property
    def nodes(self) -> Path:
        return self.directory / "nodes"

    def node(self, id: str) -> Path:
        return self.nodes / id

    def publish(self, description: dict[str, Any]) -> None:
        write_atomically(self.cluster_file, (json.dumps(description, indent=2) + "\n").encode(), mode=0o644)

    def described(self) -> "Description":
        try:
            fields = json.loads(self.cluster_file.read_text())
        except FileNotFoundError:
            raise Refused(
                f"there is no cluster in {self.directory}: start one with 'holdfast up --dir {self.directory}'"
            ) from None
        except (OSError, ValueError, RecursionError) as error:
            raise Refused(f"cannot read {self.cluster_file}: {error}") from error
        try:
            return Description.of(fields)
        except (KeyError, TypeError, ValueError, Refused, AttributeError, OverflowError):
            raise Refused(f"{self.cluster_file} is damaged: 'holdfast up --dir {self.directory}' writes it anew") from None
