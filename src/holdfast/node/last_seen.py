"""What a node keeps across restarts: how far it has seen the cluster come."""

import json
from pathlib import Path
from typing import Protocol

from holdfast.atomic_file import write_atomically
from holdfast.errors import Refused
from holdfast.model.cluster_watermark import Sighting


class Memory(Protocol):
    def recall(self) -> Sighting | None: ...

    def remember(self, sighting: Sighting) -> None: ...


class FileMemory:
    """A file in the node's directory. Beats are written down sparsely: an older one only makes the check weaker."""

    BEATS_BETWEEN_WRITES = 5

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = self._read()
        self._latest = self._written

    def _read(self) -> Sighting | None:
        try:
            fields = json.loads(self._path.read_bytes())
            return Sighting(str(fields["cluster_id"]), int(fields["epoch"]), int(fields["beat"]))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(f"cannot read {self._path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            # Not forgotten silently: without it an old ZooKeeper would be taken for a new one.
            raise Refused(
                f"{self._path} is damaged; if this cluster's ZooKeeper is right, start once with --accept-zookeeper"
            ) from error

    def recall(self) -> Sighting | None:
        return self._latest

    def remember(self, sighting: Sighting) -> None:
        self._latest = sighting
        written = self._written
        if (
            written is None
            or (written.cluster_id, written.epoch) != (sighting.cluster_id, sighting.epoch)
            or sighting.beat >= written.beat + self.BEATS_BETWEEN_WRITES
        ):
            fields = {"cluster_id": sighting.cluster_id, "epoch": sighting.epoch, "beat": sighting.beat}
            write_atomically(self._path, json.dumps(fields).encode())
            self._written = sighting
