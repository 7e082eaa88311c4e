"""What a line says that happened.

Events come by the hundred thousand, out of one process and into another: a tuple is made and sent in a quarter of the time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

FOLDED_BY = ("job", "attempt", "epoch", "session", "partition", "state", "broker", "peer", "cause")
NOTHING: Mapping[str, str] = {}
_UNTOLD = ("",) * len(FOLDED_BY)


def told(fields: Mapping[str, str]) -> tuple[str, ...]:
    """What makes two of a kind the same but for the time."""
    return tuple(map(fields.get, FOLDED_BY, _UNTOLD))  # every event of a large log comes by here


def minute(ms: int | None) -> int:
    return ms // 60_000 if ms is not None else -1


class Like(NamedTuple):
    """What events of a file have in common that are repetitions of each other."""

    kind: str
    minute: int
    format: str
    actor: str
    told: tuple[str, ...]


class Event(NamedTuple):
    kind: str
    system: str
    says: str
    file: int
    offset: int
    """Of its line, in the file as it would be uncompressed."""
    line: int
    """Counted from 1."""
    text: str
    ms: int | None
    """Since 1970 when the line was written; see `moment`. None: nothing says when."""
    zoned: bool = False
    dated: bool = True
    duration_ms: int = 0
    """How long it had gone on by then."""
    format: str = ""
    """What its record begins like. Where lines of several programs are quoted, each format has its own clock."""
    level: str = ""
    actor: str = ""
    """Whom the line itself names as the one it is about: a server, a JobManager."""
    fields: Mapping[str, str] = NOTHING
    each: bool = False
    """Never told as a repetition: each one counts."""
    again: int = 0
    """How many more like it there were in its minute that are not kept,"""
    again_ms: int | None = None
    """and when the last of them was written."""

    @property
    def told(self) -> tuple[str, ...]:
        return told(self.fields)

    @property
    def repeatable(self) -> bool:
        """What took a time of its own is no repetition of another."""
        return not self.duration_ms and not self.each

    @property
    def like(self) -> Like:
        return Like(self.kind, self.minute, self.format, self.actor, self.told)

    @property
    def minute(self) -> int:
        return minute(self.ms)


@dataclass(frozen=True, slots=True)
class Look:
    """Records that are alike but for their numbers."""

    look: int
    count: int
    file: int
    first_offset: int
    text: str
    """Of the first one."""
