"""Which queries this process has started, where their checkpoints are and what they write to, for the runner to read."""

import threading
from typing import Any

from holdfast.driver_protocol import control_files

QUERIES_MAX = 200


class Started:
    """`control/queries.json`, written anew with each start. Of two in one place the later one counts."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._queries: dict[str, dict[str, str]] = {}

    def note(self, query: Any, location: str | None, format: str, path: str) -> None:
        """Without a location there is nothing that a later attempt could go on from. That has to be known as well."""
        name = str(query.name or "")
        note = {"label": name or str(query.id), "location": location or "", "name": name, "format": format, "path": path}
        with self._lock:
            self._queries.pop(note["location"], None)
            self._queries[note["location"]] = note
            newest = list(self._queries.values())[-QUERIES_MAX:]
            control_files.write(self._directory, "queries.json", {"queries": newest})
