"""How far one query is, without what it keeps as state: small, so that it can be asked again and again while it runs."""

import re
from dataclasses import dataclass

from holdfast.checkpoint.query import Query

REWRITABLE = re.compile(r"offsets/(0|[1-9]\d{0,17})|sources/(0|[1-9]\d{0,8})/0")
"""The files that say where a source stands. Nothing else of a checkpoint is ever written by us."""


@dataclass(frozen=True, slots=True)
class Standing:
    query: Query
    files: tuple[tuple[str, str], ...] = ()
    """The newest of its logs, and where its sources began: path and text. What is no text is not there."""

    def text(self, path: str) -> str | None:
        return next((text for name, text in self.files if name == path), None)

    def first(self, source: int) -> str | None:
        """Where that source began, as it noted it itself: below a version, and for older Sparks a zero byte before that."""
        text = self.text(f"sources/{source}/0")
        lines = text.split("\n") if text is not None else []
        return lines[1] if len(lines) > 1 else None
