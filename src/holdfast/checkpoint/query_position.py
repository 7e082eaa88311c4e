"""Position of one query, without its state: small enough to be read repeatedly while the query runs."""

import re
from dataclasses import dataclass

from holdfast.checkpoint.query import Query

REWRITABLE = re.compile(r"offsets/(0|[1-9]\d{0,17})|sources/(?!\.)[\w.-]{1,255}/0", re.ASCII)
"""Files with the offsets of sources. Holdfast never writes any other file of a checkpoint."""


@dataclass(frozen=True, slots=True)
class QueryPosition:
    query: Query
    files: tuple[tuple[str, str], ...] = ()
    """Path and text of the newest log files and of each source's starting offsets. Binary files are omitted."""

    def text(self, path: str) -> str | None:
        return next((text for name, text in self.files if name == path), None)

    def starting_offsets(self, source: str) -> str | None:
        """Return the starting offsets that the source with this folder recorded, from the line after the version, or None."""
        text = self.text(f"sources/{source}/0")
        lines = text.split("\n") if text is not None else []
        return lines[1] if len(lines) > 1 else None
