"""The directory of a local cluster, and `cluster.json`, by which clients and scripts find everything in it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import Refused
from holdfast.node.memory import write_atomically

CLUSTER = "default"


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

    def node(self, id: str) -> Path:
        return self.directory / "nodes" / id

    def publish(self, description: dict[str, Any]) -> None:
        write_atomically(self.cluster_file, (json.dumps(description, indent=2) + "\n").encode(), mode=0o644)

    def described(self) -> dict[str, Any]:
        try:
            description = json.loads(self.cluster_file.read_text())
        except FileNotFoundError:
            raise Refused(
                f"there is no cluster in {self.directory}: start one with 'holdfast up --dir {self.directory}'"
            ) from None
        except (OSError, ValueError) as error:
            raise Refused(f"cannot read {self.cluster_file}: {error}") from error
        if not isinstance(description, dict) or not isinstance(description.get("connect"), str):
            raise Refused(f"{self.cluster_file} is damaged: 'holdfast up --dir {self.directory}' writes it anew")
        return description
