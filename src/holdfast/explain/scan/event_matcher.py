"""What the literals in a piece of a file mean: events, seen first, and read to the end only if they are kept."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from holdfast.explain.event import Event, Like, minute, told
from holdfast.explain.library import Library
from holdfast.explain.library.event_pattern import Pattern
from holdfast.explain.library.log_format import NO_HEADER, Header
from holdfast.explain.scan.literal_search import Hits
from holdfast.explain.scan.record_scan import Mode, Swept
from holdfast.explain.scan.templates import Place

RECORD_BYTES_MAX = 64 * 1024
"""A record is looked at so far, from its beginning."""
MATCHED_BYTES_MAX = 4 * 1024
"""A line, and what belongs to it, is matched so far."""
TEXT_MAX = 500
"""So much of a line is kept to be shown."""
CUT_MIN = 300
"""Expressions take so much of a sentence, at least."""
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_SERVER = re.compile(r"(?:myid[=:]|SyncThread:|WorkerReceiver\[myid=)(\d+)")


class Spot(NamedTuple):
    """Where something stands."""

    record: int
    """Its number, or -1: then its line is all there is."""
    start: int
    end: int
    """Of the record."""
    line_start: int
    line: int


@dataclass(slots=True)
class Sighting:
    """An event as far as it must be known to be counted. A large log has far more of them than are kept."""

    pattern: Pattern
    header: Header
    fields: Mapping[str, str]
    spot: Spot
    reader: "Reader"

    @property
    def kind(self) -> str:
        return self.pattern.kind

    @property
    def ms(self) -> int | None:
        return self.header.moment.ms if self.header.moment is not None else None

    @property
    def minute(self) -> int:
        return minute(self.ms)

    @property
    def duration_ms(self) -> int:
        said = self.fields.get("duration_ms", "0")
        return int(said) if said.isascii() and said.isdigit() and len(said) < 12 else 0

    @property
    def repeatable(self) -> bool:
        """What took a time of its own is no repetition of another."""
        return not self.duration_ms and not self.pattern.each

    @property
    def format(self) -> str:
        return self.header.format if self.reader.mode is Mode.PROSE else ""

    @property
    def actor(self) -> str:
        told = self.fields.get("server") or self.fields.get("myid")
        if told:
            return f"server {told}"
        server = _SERVER.search(self.header.thread)
        return f"server {server[1]}" if server is not None else self.header.actor

    @property
    def like(self) -> Like:
        return Like(self.kind, self.minute, self.format, self.actor, told(self.fields))

    def event(self) -> Event:
        moment = self.header.moment
        return Event(
            kind=self.kind,
            system=self.pattern.system,
            says=self.pattern.sentence(self.fields),
            file=self.reader.file,
            offset=self.reader.offset + self.spot.line_start,
            line=self.reader.line + self.spot.line,
            text=self.reader.line_at(self.spot.line_start),
            ms=self.ms,
            zoned=moment is not None and moment.zoned,
            dated=moment is None or moment.dated,
            duration_ms=self.duration_ms,
            format=self.format,
            level=self.header.level,
            actor=self.actor,
            fields=self.fields,
            each=self.pattern.each,
        )


class Reader:
    """Of a piece of a file, in which records and literals have been found."""

    def __init__(self, data: bytes, swept: Swept, mode: Mode, library: Library, *, file: int, offset: int, line: int) -> None:
        self._data = data
        self._swept = swept
        self._library = library
        self._header_of: tuple[int, Header] = (-1, NO_HEADER)
        self.mode = mode
        self.file = file
        self.offset = offset
        self.line = line

    def sightings(self, hits: Hits) -> Iterator[Sighting]:
        """A record says each kind of thing once; quoted in prose, where lines share one time, again if it says more."""
        said: dict[tuple[int, str], list[dict[str, str]]] = {}
        seen: set[tuple[int, int]] = set()
        for literal, spot in self._spots(hits):
            if (spot.line_start, literal) in seen:
                continue  # a line may have it a thousand times
            seen.add((spot.line_start, literal))
            text = ""
            for pattern in self._library.patterns.of(literal):
                before = said.setdefault((spot.start, pattern.kind), [])
                if before and self.mode is not Mode.PROSE:
                    continue
                text = text or self._matched(spot)
                fields = pattern.fields(text)
                if fields is not None:
                    if not any(fields.items() <= known.items() for known in before):
                        before.append(fields)
                        header = self._header(spot)
                        yield Sighting(pattern, header, _known(fields, header.fields), spot, self)
                    break

    def _spots(self, hits: Hits) -> Iterator[tuple[int, Spot]]:
        """Each literal, and where it stands; those far from the beginning of their record are left out."""
        swept = self._swept
        bounds = np.append(swept.starts, swept.stop)
        lines = np.append(swept.start_lines, 0)
        records = np.searchsorted(swept.starts, hits.ends) - 1
        columns = hits.ends, hits.literals, records, bounds[records], bounds[records + 1], lines[records]
        at = line_start = line = 0
        for end, literal, record, start, stop, start_line in zip(*(column.tolist() for column in columns), strict=True):
            if record >= 0 and start > at:
                at, line_start, line = start, start, start_line
            newline = self._data.rfind(b"\n", at, end)
            if newline >= 0:
                line += self._data.count(b"\n", at, newline + 1)
                line_start = newline + 1
            at = end
            first = start if record >= 0 else line_start
            if end - first <= RECORD_BYTES_MAX:
                yield literal, Spot(record, first, stop if record >= 0 else self._line_end(line_start), line_start, line)

    def _header(self, spot: Spot) -> Header:
        if spot.record < 0:
            return NO_HEADER
        if self._header_of[0] != spot.record:
            line = _text(self._data[spot.start : min(self._line_end(spot.start), spot.start + RECORD_BYTES_MAX)])
            header = self._library.formats.read(self.mode, int(self._swept.formats[spot.record]), line)
            self._header_of = spot.record, header
        return self._header_of[1]

    def _matched(self, spot: Spot) -> str:
        """The record, blanks as one: what is said may stand on several of its lines. In prose, or far from its beginning, from
        the line on: a quoted line may have been wrapped."""
        from_line = self.mode is Mode.PROSE or spot.line_start - spot.start >= MATCHED_BYTES_MAX // 2
        begin = spot.line_start if from_line else spot.start
        text = _text(self._data[begin : min(spot.end, begin + MATCHED_BYTES_MAX)])
        if self.mode is Mode.WRAPPED:
            text = " ".join(self._library.formats.unwrapped(line)[1] for line in text.split("\n"))
        return " ".join(text.split())

    def _line_end(self, start: int) -> int:
        end = self._data.find(b"\n", start)
        return len(self._data) if end < 0 else end

    def line_at(self, start: int) -> str:
        end = min(self._line_end(start), start + 4 * TEXT_MAX)
        return _text(self._data[start:end]).strip()[:TEXT_MAX]

    def place(self, record: int) -> Place:
        start = int(self._swept.starts[record])
        return Place(self.file, self.offset + start, self.line_at(start))


def _known(fields: dict[str, str], told: Mapping[str, str]) -> dict[str, str]:
    """With what the header tells. What was found in JSON is as it was before it was written so, and whole: quotes, and letters
    by their numbers."""
    if told.keys().isdisjoint(fields):
        return {**told, **fields}

    def is_of(value: str, text: str) -> bool:
        written = json.dumps(text, ensure_ascii=False)[1:-1]
        return written == value or (len(value) >= CUT_MIN and written.startswith(value))

    found = {name: told[name] if name in told and is_of(value, told[name]) else value for name, value in fields.items()}
    return {**told, **found}


def _text(data: bytes) -> str:
    """Without colours, and without what some editors put before everything."""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    return _COLOURS.sub("", text) if "\x1b" in text else text
