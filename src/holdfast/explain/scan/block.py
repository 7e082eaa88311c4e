"""Records and events in a piece of a file. Pure: bytes in, findings out."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from holdfast.explain.library import Library
from holdfast.explain.scan.event_matcher import Reader, Sighting
from holdfast.explain.scan.literal_search import search
from holdfast.explain.scan.record_scan import Mode, Swept, sweep
from holdfast.explain.scan.templates import Place, counted

SAMPLE_BYTES = 16 * 1024
ENCODING_BYTES = 1024
STRAY_SHARE = 0.05
"""So many lines between the records, for each of them, and it is text with records in it."""
WRAPPED_SHARE = 0.9
"""So many of all lines have something before them, and they are taken out of it,"""
RECORD_SHARE = 0.02
"""if as many of them begin a record then."""
_CONTINUES = (b"at ", b"Caused by", b"... ", b"\t", b" ", b"java.", b"org.", b"com.", b"Traceback", b"\n", b"\r")


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
    lead_events: tuple[Sighting, ...]
    """Of lines before that. They belong to the record before, if there is one, and then are its reader's."""
    events: tuple[Sighting, ...]
    looks: list[tuple[int, int, int]]
    """Each one, the number of the record that it is first in, and how often it is; in the order in which they come."""
    place: Callable[[int], Place]
    """Of a record, by its number."""


def mode_of(sample: bytes, library: Library, *, compiled: bool = False) -> Mode:
    """What kind of file this is, from its beginning."""
    prose = _swept(sample, len(sample), Mode.PROSE, library, compiled=compiled)
    if not len(prose.starts):
        return Mode.PLAIN
    formats = [
        (library.formats.format(Mode.PROSE, number), count)
        for number, count in enumerate(np.bincount(prose.formats).tolist())
        if count
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
    reader = Reader(data, swept, mode, library, file=file, offset=offset, line=line)
    events = list(reader.sightings(hits)) if len(hits.ends) else []
    return Findings(
        swept.end,
        swept.lines,
        swept.lead_lines,
        swept.stray_lines,
        len(swept.starts) if mode is not Mode.PLAIN else 0,
        len(swept.starts) > 0,
        tuple(event for event in events if event.spot.record < 0),
        tuple(event for event in events if event.spot.record >= 0),
        counted(swept.looks, compiled=compiled) if mode is not Mode.PLAIN else [],
        reader.place,
    )


def _swept(data: bytes, end: int, mode: Mode, library: Library, *, compiled: bool, hold_last: bool = False) -> Swept:
    shapes, wrappers = library.formats.shapes(mode), library.formats.wrappers
    return sweep(data, end, mode, shapes, wrappers=wrappers, compiled=compiled, hold_last=hold_last)
