"""Event log of a node: one JSON line for each change of a job that this node made as leader.

The format is described in docs/operations.md. On a full disk lines are lost, but the leader continues: the job's record in
ZooKeeper also holds its last events.
"""

import contextlib
import json
from datetime import UTC, datetime
from pathlib import Path

from holdfast.model.identifiers import JobId
from holdfast.model.job import Event

FILE_BYTES_MAX = 10 * 1024 * 1024
FILES_MAX = 5


class EventLog:
    def __init__(self, path: Path, *, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self._path = path
        self._file_bytes_max = file_bytes_max

    def append(self, job: JobId, event: Event) -> None:
        line = json.dumps(event_fields(job, event), ensure_ascii=False) + "\n"
        with contextlib.suppress(OSError):
            self._rotate()
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)

    def _rotate(self) -> None:
        if not self._path.exists() or self._path.stat().st_size < self._file_bytes_max:
            return
        for number in range(FILES_MAX - 1, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            if older.exists():
                older.replace(self._path.with_name(f"{self._path.name}.{number + 1}"))
        self._path.replace(self._path.with_name(f"{self._path.name}.1"))


def event_fields(job: JobId, event: Event) -> dict[str, object]:
    time = datetime.fromtimestamp(event.wall, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "time": time,
        "job": job,
        "number": event.number,
        "phase": event.phase,
        "reason": event.reason,
        "attempt": event.attempt,
        "node": event.node,
        "epoch": event.epoch,
    }
