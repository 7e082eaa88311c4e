"""What the literals in a piece of a file mean: events, seen first, and read to the end only if they are kept."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow

from holdfast.explain.event import Event, Like, minute, told
from holdfast.explain.format import NO_HEADER, Header
from holdfast.explain.library import Library
from holdfast.explain.looks import Place
from holdfast.explain.pattern import Pattern
from holdfast.explain.search import Hits
from holdfast.explain.sweep import Mode, Swept

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


@dataclass(slots=True)
class Sighting:
    """An event as far as it must be known to be counted. A large log has far more of them than are kept."""

    pattern: Pattern
    header: Header
    fields: Mapping[str, str]
    record: int
    """Its number, or -1."""
    line_start: int
    line: int
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
            offset=self.reader.offset + self.line_start,
            line=self.reader.line + self.line,
            text=self.reader.line_at(self.line_start),
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
        for end, literal, record, line_start, line in self._places(hits):
            start = int(self._swept.starts[record]) if record >= 0 else line_start
            if end - start > RECORD_BYTES_MAX:
                continue
            if (line_start, literal) in seen:
                continue  # a line may have it a thousand times
            seen.add((line_start, literal))
            text = ""
            for number in self._library.patterns.of(literal):
                pattern = self._library.patterns.all[number]
                before = said.setdefault((start, pattern.kind), [])
                if before and self.mode is not Mode.PROSE:
                    continue
                text = text or self._matched(record, line_start)
                fields = pattern.fields(text)
                if fields is not None:
                    if not any(fields.items() <= known.items() for known in before):
                        before.append(fields)
                        yield self._sighting(pattern, fields, record, line_start, line)
                    break

    def _places(self, hits: Hits) -> Iterator[tuple[int, int, int, int, int]]:
        """Where each literal ends, which it is, its record, where its line begins, and that line's number."""
        starts, start_lines = self._swept.starts, self._swept.start_lines
        records = np.searchsorted(starts, hits.ends) - 1
        at = line_start = line = 0
        for end, literal, record in zip(hits.ends.tolist(), hits.literals.tolist(), records.tolist(), strict=True):
            if record >= 0 and starts[record] > at:
                at = line_start = int(starts[record])
                line = int(start_lines[record])
            newline = self._data.rfind(b"\n", at, end)
            if newline >= 0:
                line += self._data.count(b"\n", at, newline + 1)
                line_start = newline + 1
            at = end
            yield end, literal, record, line_start, line

    def _sighting(self, pattern: Pattern, fields: dict[str, str], record: int, line_start: int, line: int) -> Sighting:
        header = self._header(record)
        known = {**header.fields, **_as_told(fields, header.fields)} if header.fields else fields
        return Sighting(pattern, header, known, record, line_start, line, self)

    def _header(self, record: int) -> Header:
        if record < 0:
            return NO_HEADER
        if self._header_of[0] != record:
            start = int(self._swept.starts[record])
            line = _text(self._data[start : min(self._line_end(start), start + RECORD_BYTES_MAX)])
            self._header_of = record, self._library.formats.read(self.mode, int(self._swept.formats[record]), line)
        return self._header_of[1]

    def _matched(self, record: int, line_start: int) -> str:
        """The record, blanks as one: what is said may stand on several of its lines. In prose, or far from its beginning, from
        the line on: a quoted line may have been wrapped."""
        end = self._end_of(record) if record >= 0 else self._line_end(line_start)
        first = int(self._swept.starts[record]) if record >= 0 and self.mode is not Mode.PROSE else line_start
        begin = first if line_start - first < MATCHED_BYTES_MAX // 2 else line_start
        text = _text(self._data[begin : min(end, begin + MATCHED_BYTES_MAX)])
        if self.mode is Mode.WRAPPED:
            text = " ".join(self._library.formats.unwrapped(line)[1] for line in text.split("\n"))
        return " ".join(text.split())

    def _end_of(self, record: int) -> int:
        following = record + 1
        return int(self._swept.starts[following]) if following < len(self._swept.starts) else self._swept.stop

    def _line_end(self, start: int) -> int:
        end = self._data.find(b"\n", start)
        return len(self._data) if end < 0 else end

    def line_at(self, start: int) -> str:
        end = min(self._line_end(start), start + 4 * TEXT_MAX)
        return _text(self._data[start:end]).strip()[:TEXT_MAX]

    def looks(self) -> list[tuple[int, int, int]]:
        """Each one, the number of the record that it is first in, and how often it is; in the order in which they come."""
        encoded = pyarrow.array(self._swept.looks).dictionary_encode()  # by a hash: to sort them would take longer
        numbers = encoded.indices.to_numpy()
        distinct = encoded.dictionary.to_numpy()
        first = np.empty(len(distinct), np.int64)
        first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the last one that is put there is the first one that there is
        return list(zip(distinct.tolist(), first.tolist(), np.bincount(numbers).tolist(), strict=True))

    def place(self, record: int) -> Place:
        start = int(self._swept.starts[record])
        return Place(self.file, self.offset + start, self.line_at(start))


def _as_told(fields: dict[str, str], told: Mapping[str, str]) -> dict[str, str]:
    """What was found in JSON as it was before it was written so, and whole: quotes, and letters by their numbers."""

    def is_of(value: str, text: str) -> bool:
        written = json.dumps(text, ensure_ascii=False)[1:-1]
        return written == value or (len(value) >= CUT_MIN and written.startswith(value))

    return {name: told[name] if name in told and is_of(value, told[name]) else value for name, value in fields.items()}


def _text(data: bytes) -> str:
    """Without colours, and without what some editors put before everything."""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    return _COLOURS.sub("", text) if "\x1b" in text else text
