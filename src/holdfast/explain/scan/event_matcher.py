"""Match events at the literals found in a block. A match becomes a `LogEvent` only if it is kept."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from holdfast.explain.event import LogEvent, RepetitionKey, minute_of, repetition_values
from holdfast.explain.library.event_pattern import EventPattern
from holdfast.explain.library.log_format import RecordHeader
from holdfast.explain.scan.block import RECORD_BYTES_MAX, Block, decode
from holdfast.explain.scan.literal_search import LiteralHits
from holdfast.explain.scan.record_scan import FileMode

MATCHED_BYTES_MAX = 4 * 1024
"""Bytes that a pattern is matched against."""
TRUNCATED_CHARS_MIN = 300
"""Least number of characters that a pattern captures of a sentence that is too long to be captured whole."""
_SERVER = re.compile(r"(?:myid[=:]|SyncThread:|WorkerReceiver\[myid=)(\d+)")


@dataclass(slots=True)
class EventMatch:
    """Pattern that matches a record, with what is needed to count it. A large log has far more matches than kept events."""

    pattern: EventPattern
    header: RecordHeader
    fields: Mapping[str, str]
    record: int
    """Index of the record in the block; -1 for a line that belongs to none."""
    line_start: int
    line: int
    block: Block

    @property
    def kind(self) -> str:
        return self.pattern.kind

    @property
    def ms(self) -> int | None:
        return self.header.timestamp.ms if self.header.timestamp is not None else None

    @property
    def minute(self) -> int:
        return minute_of(self.ms)

    @property
    def duration_ms(self) -> int:
        text = self.fields.get("duration_ms", "0")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0

    @property
    def is_repeatable(self) -> bool:
        return not self.duration_ms and not self.pattern.never_merged

    @property
    def format(self) -> str:
        return self.header.format if self.block.mode is FileMode.PROSE else ""

    @property
    def actor(self) -> str:
        server = self.fields.get("server") or self.fields.get("myid")
        if server:
            return f"server {server}"
        match = _SERVER.search(self.header.thread)
        return f"server {match[1]}" if match is not None else self.header.actor

    @property
    def repetition_key(self) -> RepetitionKey:
        return RepetitionKey(self.kind, self.minute, self.format, self.actor, repetition_values(self.fields))

    def to_event(self) -> LogEvent:
        timestamp = self.header.timestamp
        return LogEvent(
            kind=self.kind,
            system=self.pattern.system,
            description=self.pattern.describe(self.fields),
            file=self.block.file,
            offset=self.block.offset + self.line_start,
            line=self.block.line + self.line,
            text=self.block.shown_line(self.line_start),
            ms=self.ms,
            zoned=timestamp is not None and timestamp.zoned,
            dated=timestamp is None or timestamp.dated,
            duration_ms=self.duration_ms,
            format=self.format,
            level=self.header.level,
            actor=self.actor,
            fields=self.fields,
            never_merged=self.pattern.never_merged,
        )


_QUOTATION = re.compile(r"\n[ \t]*>[> \t]*")
"""Quotation marks of a mail before the second and the following lines of a record."""


class _Hit(NamedTuple):
    """Literal found in a block. Positions are offsets into the block."""

    literal: int
    record: int
    """Index of its record, or -1 if it is in a line before the first record."""
    start: int
    end: int
    """End of the record, or of the line if there is no record; `start` is its start."""
    line_start: int
    line: int


def match_events(block: Block, hits: LiteralHits) -> Iterator[EventMatch]:
    """Yield at most one match per record and kind.

    In text that quotes records, lines share a time: there a record matches a kind again if it adds a field."""
    matched_fields: dict[tuple[int, str], list[dict[str, str]]] = {}
    examined: set[tuple[int, int]] = set()
    for hit in _locate_hits(block, hits) if len(hits.ends) else ():
        if (hit.line_start, hit.literal) in examined:
            continue  # a line may contain the same literal a thousand times
        examined.add((hit.line_start, hit.literal))
        text = ""
        for pattern in block.library.patterns.patterns_of_literal(hit.literal):
            earlier = matched_fields.setdefault((hit.start, pattern.kind), [])
            if earlier and block.mode is not FileMode.PROSE:
                continue
            text = text or _text_to_match(block, hit)
            fields = pattern.match_fields(text)
            if fields is not None:
                if not any(fields.items() <= known.items() for known in earlier):
                    earlier.append(fields)
                    header = block.header(hit.record)
                    all_fields = _with_header_fields(fields, header.fields)
                    yield EventMatch(pattern, header, all_fields, hit.record, hit.line_start, hit.line, block)
                break


def _locate_hits(block: Block, hits: LiteralHits) -> Iterator[_Hit]:
    """Find the record and the line of each hit; leave out hits farther than `RECORD_BYTES_MAX` from their record's start."""
    records, data = block.records, block.data
    bounds = np.append(records.starts, records.stop)
    lines = np.append(records.start_lines, 0)
    indexes = np.searchsorted(records.starts, hits.ends) - 1
    columns = hits.ends, hits.literals, indexes, bounds[indexes], bounds[indexes + 1], lines[indexes]
    at = line_start = line = 0
    for end, literal, record, start, stop, start_line in zip(*(column.tolist() for column in columns), strict=True):
        if record >= 0 and start > at:
            at, line_start, line = start, start, start_line
        newline = data.rfind(b"\n", at, end)
        if newline >= 0:
            line += data.count(b"\n", at, newline + 1)
            line_start = newline + 1
        at = end
        first = start if record >= 0 else line_start
        if end - first <= RECORD_BYTES_MAX:
            last = stop if record >= 0 else block.line_end(line_start)
            yield _Hit(literal, record, first, last, line_start, line)


def _text_to_match(block: Block, hit: _Hit) -> str:
    """Return the record on one line, because a statement may span several lines.

    The text starts at the line of the hit in quoted text, where lines may be wrapped, and far from the record's start."""
    from_line = block.mode is FileMode.PROSE or hit.line_start - hit.start >= MATCHED_BYTES_MAX // 2
    begin = hit.line_start if from_line else hit.start
    text = decode(block.data[begin : min(hit.end, begin + MATCHED_BYTES_MAX)])
    if block.mode is FileMode.WRAPPED:
        text = " ".join(block.library.formats.unwrap(line)[1] for line in text.split("\n"))
    elif block.mode is FileMode.PROSE:
        text = _QUOTATION.sub(" ", text)
    return " ".join(text.split())


def _with_header_fields(fields: dict[str, str], header_fields: Mapping[str, str]) -> dict[str, str]:
    """Merge the fields of a match with those of its header.

    A field captured from JSON text may be escaped or truncated; the header has the decoded value and wins if it is the same."""
    if header_fields.keys().isdisjoint(fields):
        return {**header_fields, **fields}

    def is_same(value: str, decoded: str) -> bool:
        escaped = json.dumps(decoded, ensure_ascii=False)[1:-1]
        return escaped == value or (len(value) >= TRUNCATED_CHARS_MIN and escaped.startswith(value))

    captured = {
        name: header_fields[name] if name in header_fields and is_same(value, header_fields[name]) else value
        for name, value in fields.items()
    }
    return {**header_fields, **captured}
