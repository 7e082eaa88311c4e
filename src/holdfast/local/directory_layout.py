"""Directory of a local cluster, and `cluster.json`, in which clients and scripts find its addresses and processes."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.atomic_file import write_atomically
from holdfast.errors import Refused
from holdfast.local.file_owner import file_owner
from holdfast.local.process_identity import ProcessIdentity
from holdfast.model.identifiers import is_valid_name
from holdfast.zk.session.connection_settings import parse_connect_string

CLUSTER_NAME = "default"


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """Fields of `cluster.json` that clients need."""

    connect: str
    cluster: str
    zookeepers: tuple[str, ...]
    ready: bool
    supervisor: ProcessIdentity
    auth_file: str | None = None
    """File with the ZooKeeper user, relative to the directory. None for a cluster of an earlier version."""

    @classmethod
    def parse(cls, fields: Any) -> "ClusterDescription":
        """Convert parsed JSON. Raises KeyError, TypeError, ValueError or a similar error if fields are missing or wrong."""
        ids = tuple(str(server["id"]) for server in fields["zookeepers"])
        connect, cluster = fields["connect"], fields["cluster"]
        if not isinstance(connect, str) or not is_valid_name(cluster) or len(ids) != len(parse_connect_string(connect)[0]):
            raise ValueError(connect)
        supervisor = ProcessIdentity(int(fields["supervisor"]["pid"]), int(fields["supervisor"]["started"]))
        auth_file = fields.get("auth_file")
        if auth_file is not None and not isinstance(auth_file, str):
            raise TypeError(auth_file)
        return cls(connect, cluster, ids, bool(fields["ready"]), supervisor, auth_file)


@dataclass(frozen=True, slots=True)
class DirectoryLayout:
    """Paths in the directory of a local cluster."""

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
    def auth_file(self) -> Path:
        """File with one line `USER:PASSWORD`: the ZooKeeper user that owns all znodes."""
        return self.directory / "zookeeper.auth"

    @property
    def zookeeper(self) -> Path:
        return self.directory / "zookeeper"

    @property
    def storage(self) -> Path:
        return self.directory / "storage"

    @property
    def archives(self) -> Path:
        """Directory shared by all nodes: they use the same Java and Spark, so they need one archive."""
        return self.directory / "archives"

    @property
    def connectors(self) -> Path:
        return self.directory / "connectors"

    @property
    def nodes(self) -> Path:
        return self.directory / "nodes"

    @property
    def content(self) -> tuple[Path, ...]:
        """Files and directories that a local cluster creates in its directory."""
        files = (self.lock, self.log, self.cluster_file, self.auth_file)
        return (*files, self.zookeeper, self.storage, self.archives, self.connectors, self.nodes)

    def node_directory(self, id: str) -> Path:
        return self.nodes / id

    def write_description(self, description: dict[str, Any]) -> None:
        write_atomically(self.cluster_file, (json.dumps(description, indent=2) + "\n").encode())

    def read_description(self) -> "ClusterDescription":
        try:
            fields = json.loads(self.cluster_file.read_text())
        except FileNotFoundError:
            raise Refused(
                f"there is no cluster in {self.directory}: start one with 'holdfast up --dir {self.directory}'"
            ) from None
        except PermissionError:
            owner = file_owner(self.directory)
            raise Refused(
                f"permission denied: the cluster in {self.directory} belongs to user {owner}, and only this user can use it"
            ) from None
        except (OSError, ValueError, RecursionError) as error:
            raise Refused(f"cannot read {self.cluster_file}: {error}") from error
        try:
            return ClusterDescription.parse(fields)
        except (KeyError, TypeError, ValueError, Refused, AttributeError, OverflowError):
            raise Refused(f"{self.cluster_file} is damaged: 'holdfast up --dir {self.directory}' writes it again") from None
