"""Newest state of the cluster that this node has seen, kept across restarts."""

import json
from pathlib import Path
from typing import Protocol

from holdfast.atomic_file import write_atomically
from holdfast.errors import Refused
from holdfast.model.cluster_watermark import ClusterWatermark


class LastSeen(Protocol):
    def latest(self) -> ClusterWatermark | None: ...

    def record(self, watermark: ClusterWatermark) -> None: ...


class LastSeenFile:
    """Watermark in a file of the node's directory. Only every fifth heartbeat is written, to save writes."""

    BEATS_BETWEEN_WRITES = 5

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = self._read()
        self._latest = self._written

    def _read(self) -> ClusterWatermark | None:
        try:
            fields = json.loads(self._path.read_bytes())
            return ClusterWatermark(str(fields["cluster_id"]), int(fields["epoch"]), int(fields["beat"]))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(f"cannot read {self._path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            # Refuse instead of starting without it: a rolled-back ZooKeeper would be accepted as valid.
            raise Refused(
                f"{self._path} is damaged; if this is the right ZooKeeper, start the node once with --accept-zookeeper"
            ) from error

    def latest(self) -> ClusterWatermark | None:
        return self._latest

    def record(self, watermark: ClusterWatermark) -> None:
        self._latest = watermark
        written = self._written
        if (
            written is None
            or (written.cluster_id, written.epoch) != (watermark.cluster_id, watermark.epoch)
            or watermark.beat >= written.beat + self.BEATS_BETWEEN_WRITES
        ):
            fields = {"cluster_id": watermark.cluster_id, "epoch": watermark.epoch, "beat": watermark.beat}
            write_atomically(self._path, json.dumps(fields).encode())
            self._written = watermark
