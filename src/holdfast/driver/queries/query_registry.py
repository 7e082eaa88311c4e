"""Registry of started queries for the runner: their checkpoints and outputs."""

import threading
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from holdfast.driver.queries.triggers import MICRO_BATCH, Trigger
from holdfast.driver_protocol.control_files import STARTED_QUERIES_FILE, write_control_file
from holdfast.driver_protocol.query_record import QUERIES_MAX, StartedQuery, started_queries_to_json


class StartedQueries:
    """Writer of `control/queries.json`: all started queries. A later query replaces an earlier one at the same location."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._queries: dict[tuple[str, str], StartedQuery] = {}

    def record(
        self, query: Any, location: str | None, format: str, path: str, *, trigger: Trigger = MICRO_BATCH, note: str = ""
    ) -> None:
        """Record a started query. An empty location means that a later attempt cannot continue the query."""
        name = str(query.name or "")
        label = name or str(query.id)
        entry = StartedQuery(label, location or "", name, format, path, batch_s=trigger.batch_s, note=note)
        key = (entry.location, "" if entry.location else label)
        with self._lock:
            self._queries.pop(key, None)
            self._queries[key] = entry
            self._write()

    def report_failures(self, labels: Collection[str]) -> None:
        """Add a note to each query in `labels`: it has failed, and its script continues."""
        with self._lock:
            failed = [(key, entry) for key, entry in self._queries.items() if entry.label in labels]
            notes = {key: f"the query {entry.label} has failed, and the script continues without it" for key, entry in failed}
            new = [(key, entry) for key, entry in failed if not entry.note.startswith(notes[key])]
            for key, entry in new:
                self._queries[key] = replace(entry, note="; ".join(filter(None, (notes[key], entry.note))))
            if new:
                self._write()

    def _write(self) -> None:
        newest = list(self._queries.values())[-QUERIES_MAX:]
        write_control_file(self._directory, STARTED_QUERIES_FILE, started_queries_to_json(newest))
