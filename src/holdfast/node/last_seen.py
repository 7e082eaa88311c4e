"""Newest state of the cluster that this node has seen, kept across restarts."""

import json
import threading
from pathlib import Path
from typing import Protocol

from holdfast.atomic_file import write_atomically
from holdfast.errors import Refused
from holdfast.model.cluster_watermark import ClusterWatermark

CLOSE_TIMEOUT_S = 2.0


class LastSeen(Protocol):
    @property
    def write_problem(self) -> str:
        """Reason why the last write failed, or an empty string."""

    def latest(self) -> ClusterWatermark | None: ...

    def record(self, watermark: ClusterWatermark) -> None:
        """Make this watermark the latest one. Returns at once; the write may still be in progress."""


class LastSeenFile:
    """Watermark in a file of the node's directory.

    A thread writes every new watermark, so that a stalled disk never delays the caller. If watermarks come faster than the disk
    takes them, only the newest one is written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._latest = self._written = self._read()
        self._changed = threading.Condition()
        self._writer: threading.Thread | None = None
        self._closing = False
        self.write_problem = ""

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
        with self._changed:
            if self._latest == watermark:
                return
            self._latest = watermark
            self._changed.notify_all()
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_changes, name="last-seen", daemon=True)
                self._writer.start()

    def close(self) -> None:
        """Wait until the latest watermark is written, at most `CLOSE_TIMEOUT_S` seconds."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._writer is not None:
            self._writer.join(CLOSE_TIMEOUT_S)

    def _write_changes(self) -> None:
        """Write each new watermark until `close`. A failed write is tried again with the next watermark."""
        tried = self._written
        while True:
            with self._changed:
                while tried == self._latest and not self._closing:
                    self._changed.wait()
                watermark = self._latest
                if watermark is None or watermark == tried:
                    return
            self._write(watermark)
            tried = watermark

    def _write(self, watermark: ClusterWatermark) -> None:
        fields = {"cluster_id": watermark.cluster_id, "epoch": watermark.epoch, "beat": watermark.beat}
        try:
            write_atomically(self._path, json.dumps(fields).encode())
        except OSError as error:
            self.write_problem = f"cannot write {self._path}: {error.strerror}"
        else:
            self._written = watermark
            self.write_problem = ""
