"""What a driver and the processes beside it say, in the control directory. It is the user's program, so it may be anything."""

import json
from pathlib import Path
from typing import Any

from holdfast.model.job import Progress

BYTES_MAX = 200_000
NOTE_MAX = 1000
OFFSETS_MAX = 100


class Said:
    def __init__(self, control: Path) -> None:
        self._control = control

    def read(self, name: str) -> dict[str, Any] | None:
        try:
            with (self._control / name).open("rb") as file:
                fields = json.loads(file.read(BYTES_MAX))
        except (OSError, ValueError, RecursionError):
            return None
        return fields if isinstance(fields, dict) else None

    def progress(self) -> Progress | None:
        fields = self.read("progress.json")
        if fields is None:
            return None
        try:
            batch_id, rows = fields.get("batch_id"), fields.get("rows_per_second")
            return Progress(
                batch_id=int(batch_id) if batch_id is not None else None,
                rows_per_second=float(rows) if rows is not None else None,
                offsets=tuple(json.dumps(offset) for offset in fields.get("offsets", ()))[:OFFSETS_MAX],
                lag=self._lag(),
            )
        except (TypeError, ValueError, OverflowError):
            return None

    def note(self) -> str:
        """Of the offset guard; empty if there is none, or nothing to tell."""
        note = (self.read("kafka.json") or {}).get("note")
        return " ".join(note.split())[:NOTE_MAX] if isinstance(note, str) and note.isprintable() else ""

    def _lag(self) -> tuple[str, ...]:
        lags = (self.read("kafka.json") or {}).get("lag")
        return tuple(json.dumps(lag) for lag in lags[:OFFSETS_MAX]) if isinstance(lags, list) else ()
