"""Log event: one thing that a line of a log reports.

A scan creates hundreds of thousands of events and sends them between processes. A tuple is created and sent four times as
fast as a dataclass.
"""

from collections.abc import Mapping
from typing import NamedTuple

REPETITION_FIELDS = ("job", "attempt", "epoch", "session", "partition", "state", "broker", "peer", "cause")
"""Fields that distinguish two events of one kind. Events that agree in all of them repeat each other."""
NO_FIELDS: Mapping[str, str] = {}
_NO_VALUES = ("",) * len(REPETITION_FIELDS)


def repetition_values(fields: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of `REPETITION_FIELDS`; a missing field is empty."""
    return tuple(map(fields.get, REPETITION_FIELDS, _NO_VALUES))  # called for every event of a large log


def minute_of(ms: int | None) -> int:
    """Return the minute since 1970, or -1 for an event without a time."""
    return ms // 60_000 if ms is not None else -1


class RepetitionKey(NamedTuple):
    """Properties shared by the events of one file that repeat each other."""

    kind: str
    minute: int
    format: str
    actor: str
    field_values: tuple[str, ...]


class Repetitions(NamedTuple):
    """Number of events that are counted instead of kept, and the time of the last one."""

    total: int
    last_ms: int | None

    def plus(self, number: int, last_ms: int | None) -> "Repetitions":
        if last_ms is None or (self.last_ms is not None and self.last_ms > last_ms):
            last_ms = self.last_ms
        return Repetitions(self.total + number, last_ms)


NO_REPETITIONS = Repetitions(0, None)


class LogEvent(NamedTuple):
    kind: str
    system: str
    description: str
    """Sentence that states what happened."""
    file: int
    """Index of the input file."""
    offset: int
    """Offset of the line in the uncompressed file, in bytes."""
    line: int
    """Line number: from 0 within a range, from 1 within a file."""
    text: str
    ms: int | None
    """Time in milliseconds since 1970 on the clock of the log (see `library.timestamp`). None if the record states no time."""
    zoned: bool = False
    dated: bool = True
    duration_ms: int = 0
    """Duration that ended when the line was written."""
    format: str = ""
    """Format of the record, in text that quotes log lines; there each format has its own clock. Empty otherwise."""
    level: str = ""
    actor: str = ""
    """Server, JobManager or node that the line itself names."""
    fields: Mapping[str, str] = NO_FIELDS
    never_merged: bool = False
    """Each event of this kind counts on its own: it never repeats another one."""
    repetitions: Repetitions = NO_REPETITIONS
    """Further events with the same `repetition_key` that are not kept."""

    @property
    def repetition_values(self) -> tuple[str, ...]:
        return repetition_values(self.fields)

    @property
    def is_repeatable(self) -> bool:
        """True unless the event has its own duration or never repeats another one."""
        return not self.duration_ms and not self.never_merged

    @property
    def repetition_key(self) -> RepetitionKey:
        return RepetitionKey(self.kind, self.minute, self.format, self.actor, self.repetition_values)

    @property
    def minute(self) -> int:
        return minute_of(self.ms)
