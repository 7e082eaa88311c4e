"""Records and events in a piece of a file. Pure: bytes in, findings out."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow

from holdfast.explain.event import Event, Look
from holdfast.explain.format import Header
from holdfast.explain.library import Library
from holdfast.explain.pattern import Pattern
from holdfast.explain.search import Hits, search
from holdfast.explain.sweep import Mode, Swept, sweep

RECORD_BYTES_MAX = 64 * 1024
"""A record is looked at so far, from its beginning."""
MATCHED_BYTES_MAX = 4 * 1024
"""A line, and what belongs to it, is matched so far."""
TEXT_MAX = 500
"""So much of a line is kept to be shown."""
CUT_MIN = 300
"""Expressions take so much of a sentence, at least."""
SAMPLE_BYTES = 16 * 1024
ENCODING_BYTES = 1024
FEW = 4096
STRAY_SHARE = 0.05
"""So many lines between the records, for each of them, and it is text with records in it."""
WRAPPED_SHARE = 0.9
"""So many of all lines have something before them, and they are taken out of it,"""
RECORD_SHARE = 0.02
"""if as many of them begin a record then."""
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_CONTINUES = (b"at ", b"Caused by", b"... ", b"\t", b" ", b"java.", b"org.", b"com.", b"Traceback", b"\n", b"\r")
_SERVER = re.compile(r"(?:myid[=:]|SyncThread:|WorkerReceiver\[myid=)(\d+)")


@dataclass(frozen=True, slots=True)
class Findings:
    end: int
    """Up to where this is: less than was asked for if the last record was held back."""
    lines: int
    lead_lines: int
    stray_lines: int
    records: int
    begun: bool
    """A record begins in it; in what is no log, a line."""
    lead_events: tuple[Event, ...]
    """Of lines before that. They belong to the record before, if there is one, and then are its reader's."""
    events: tuple[Event, ...]
    looks: tuple[Look, ...]


def mode_of(sample: bytes, library: Library, *, compiled: bool = False) -> Mode:
    """What kind of file this is, from its beginning."""
    prose = _swept(sample, len(sample), Mode.PROSE, library, compiled=compiled)
    if not len(prose.starts):
        return Mode.PLAIN
    numbers, often = np.unique(prose.formats, return_counts=True)
    formats = [
        (library.formats.format(Mode.PROSE, number), count) for number, count in zip(numbers.tolist(), often, strict=True)
    ]
    if sum(count for format, count in formats if format.wrapper) > WRAPPED_SHARE * prose.lines:
        wrapped = _swept(sample, len(sample), Mode.WRAPPED, library, compiled=compiled)
        return Mode.WRAPPED if len(wrapped.starts) > RECORD_SHARE * prose.lines else Mode.LOG
    lead = sample[: int(prose.starts[0])].splitlines(keepends=True)
    text_lines = prose.stray_lines + sum(1 for line in lead if not line.startswith(_CONTINUES))
    quoted = sum(count for format, count in formats if format.prose)
    between = text_lines > max(2, STRAY_SHARE * len(prose.starts))
    return Mode.PROSE if between or 2 * quoted > len(prose.starts) else Mode.LOG


def is_utf_16(sample: bytes) -> bool:
    """By what it begins with, or because every other byte is zero, as where Latin letters take two."""
    halves = sample[:ENCODING_BYTES:2], sample[1:ENCODING_BYTES:2]
    return sample[:2] in (b"\xff\xfe", b"\xfe\xff") or any(2 * half.count(0) > len(half) > 1 for half in halves)


def findings(
    data: bytes,
    end: int,
    mode: Mode,
    library: Library,
    *,
    file: int,
    offset: int,
    line: int,
    compiled: bool,
    hold_last: bool = False,
) -> Findings:
    """Of the lines of `data` that begin before `end`. It begins at `offset` in its file, with the line numbered `line`."""
    swept = _swept(data, end, mode, library, compiled=compiled, hold_last=hold_last)
    hits = search(data, swept.piece_begins, swept.piece_ends, library.patterns.literals, compiled=compiled)
    reader = _Reader(data, swept, hits, mode, library, file=file, offset=offset, line=line)
    events = list(reader.events())
    return Findings(
        swept.end,
        swept.lines,
        swept.lead_lines,
        swept.stray_lines,
        len(swept.starts) if mode is not Mode.PLAIN else 0,
        len(swept.starts) > 0,
        tuple(event for record, event in events if record < 0),
        tuple(event for record, event in events if record >= 0),
        tuple(reader.looks()) if mode is not Mode.PLAIN else (),
    )


def _swept(data: bytes, end: int, mode: Mode, library: Library, *, compiled: bool, hold_last: bool = False) -> Swept:
    shapes, wrappers = library.formats.shapes(mode), library.formats.wrappers
    return sweep(data, end, mode, shapes, wrappers=wrappers, compiled=compiled, hold_last=hold_last)


def _as_told(fields: dict[str, str], told: Mapping[str, str]) -> dict[str, str]:
    """What was found in JSON as it was before it was written so, and whole: quotes, and letters by their numbers."""

    def is_of(value: str, text: str) -> bool:
        written = json.dumps(text, ensure_ascii=False)[1:-1]
        return written == value or (len(value) >= CUT_MIN and written.startswith(value))

    return {name: told[name] if name in told and is_of(value, told[name]) else value for name, value in fields.items()}


class _Reader:
    def __init__(
        self, data: bytes, swept: Swept, hits: Hits, mode: Mode, library: Library, *, file: int, offset: int, line: int
    ) -> None:
        self._data = data
        self._hits = hits
        self._line = line
        self._swept = swept
        self._mode = mode
        self._library = library
        self._file = file
        self._offset = offset
        self._header_of: tuple[int, Header] = (-1, Header(None, 0))

    def events(self) -> Iterator[tuple[int, Event]]:
        """With the number of their record, or -1. It says each kind of thing once; quoted in prose, where lines share one time,
        again if it says more."""
        said: dict[tuple[int, str], list[dict[str, str]]] = {}
        seen: set[tuple[int, int]] = set()
        for end, literal, record, line_start, line in self._places():
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
                if before and self._mode is not Mode.PROSE:
                    continue
                text = text or self._matched(record, line_start)
                fields = pattern.fields(text)
                if fields is not None:
                    if not any(fields.items() <= known.items() for known in before):
                        before.append(fields)
                        yield record, self._event(pattern, fields, record, line_start, line)
                    break

    def _places(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Where each literal ends, which it is, its record, where its line begins, and that line's number."""
        starts, start_lines = self._swept.starts, self._swept.start_lines
        records = np.searchsorted(starts, self._hits.ends) - 1
        at = line_start = line = 0
        for end, literal, record in zip(self._hits.ends.tolist(), self._hits.literals.tolist(), records.tolist(), strict=True):
            if record >= 0 and starts[record] > at:
                at = line_start = int(starts[record])
                line = int(start_lines[record])
            newline = self._data.rfind(b"\n", at, end)
            if newline >= 0:
                line += self._data.count(b"\n", at, newline + 1)
                line_start = newline + 1
            at = end
            yield end, literal, record, line_start, line

    def _event(self, pattern: Pattern, fields: dict[str, str], record: int, line_start: int, line: int) -> Event:
        header = self._header(record)
        known = {**header.fields, **_as_told(fields, header.fields)}
        duration = known.get("duration_ms", "0")
        return Event(
            kind=pattern.kind,
            system=pattern.system,
            says=pattern.sentence(known),
            file=self._file,
            offset=self._offset + line_start,
            line=self._line + line,
            text=self._line_at(line_start),
            ms=header.moment.ms if header.moment is not None else None,
            zoned=header.moment is not None and header.moment.zoned,
            dated=header.moment is None or header.moment.dated,
            duration_ms=int(duration) if duration.isascii() and duration.isdigit() and len(duration) < 12 else 0,
            format=header.format if self._mode is Mode.PROSE else "",
            level=header.level,
            actor=self._actor(header, known),
            each=pattern.each,
            fields=known,
        )

    def _actor(self, header: Header, known: dict[str, str]) -> str:
        if known.get("server") or known.get("myid"):
            return f"server {known.get('server') or known['myid']}"
        server = _SERVER.search(header.thread)
        return f"server {server[1]}" if server is not None else header.actor

    def _header(self, record: int) -> Header:
        if record < 0:
            return Header(None, 0)
        if self._header_of[0] != record:
            start = int(self._swept.starts[record])
            line = _text(self._data[start : min(self._line_end(start), start + RECORD_BYTES_MAX)])
            self._header_of = record, self._library.formats.read(self._mode, int(self._swept.formats[record]), line)
        return self._header_of[1]

    def _matched(self, record: int, line_start: int) -> str:
        """The record, blanks as one: what is said may stand on several of its lines. In prose, or far from its beginning, from
        the line on: a quoted line may have been wrapped."""
        end = self._end_of(record) if record >= 0 else self._line_end(line_start)
        first = int(self._swept.starts[record]) if record >= 0 and self._mode is not Mode.PROSE else line_start
        begin = first if line_start - first < MATCHED_BYTES_MAX // 2 else line_start
        text = _text(self._data[begin : min(end, begin + MATCHED_BYTES_MAX)])
        if self._mode is Mode.WRAPPED:
            text = " ".join(self._library.formats.unwrapped(line)[1] for line in text.split("\n"))
        return " ".join(text.split())

    def _end_of(self, record: int) -> int:
        following = record + 1
        return int(self._swept.starts[following]) if following < len(self._swept.starts) else self._swept.stop

    def _line_end(self, start: int) -> int:
        end = self._data.find(b"\n", start)
        return len(self._data) if end < 0 else end

    def _line_at(self, start: int) -> str:
        end = min(self._line_end(start), start + 4 * TEXT_MAX)
        return _text(self._data[start:end]).strip()[:TEXT_MAX]

    def looks(self) -> Iterator[Look]:
        for kind, index, count in _counted(self._swept.looks):
            start = int(self._swept.starts[index])
            yield Look(kind, count, self._file, self._offset + start, self._line_at(start))


def _counted(looks: npt.NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Each one, where it is first, and how often it is. Many are counted by a hash: to sort them would take longer."""
    if len(looks) < FEW:
        distinct, first, often = np.unique(looks, return_index=True, return_counts=True)
    else:
        encoded = pyarrow.array(looks).dictionary_encode()
        numbers = encoded.indices.to_numpy()
        distinct, often = encoded.dictionary.to_numpy(), np.bincount(numbers)
        first = np.empty(len(distinct), np.int64)
        first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the last one that is put there is the first one that there is
    yield from zip(distinct.tolist(), first.tolist(), often.tolist(), strict=True)


def _text(data: bytes) -> str:
    """Without colours, and without what some editors put before everything."""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    return _COLOURS.sub("", text) if "\x1b" in text else text
