"""One pass over bytes: where records begin, what each looks like without its numbers, and where literals stand.

The same function twice. Compiled (numba) it takes some nanoseconds a byte, and the first time a few seconds to compile; as
plain Python it starts at once, which is right for a pasted report. It is written for both: no objects, no exceptions, integers
that are the same modulo 2⁶².
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.errors import Refused
from holdfast.explain.literals import Literals
from holdfast.explain.shape import Shapes

COMPILED_FROM_BYTES = 300_000
"""To compile pays from about here."""

LOOKED_AT_BYTES = 4096
"""Of a record's first line, so much counts for what it looks like."""
PAPER = 1 << 21
TOKEN_OF_FOUR = 300_000
"""No word of four letters or more is hashed to less, and none of three to more."""
TIME_BYTES = 8
"""So many of its last ones are searched."""

_DELIMITER, _WORD, _DIGIT = 0, 1, 2


class Mode(IntEnum):
    LOG = 0
    """Records, one after the other. What does not begin one belongs to the one before."""
    PROSE = 1
    """Records quoted in text. They may be indented, and an empty line ends them unless what follows is indented deeper."""
    PLAIN = 2
    """Not a log. Every line stands for itself."""
    WRAPPED = 3
    """A log each of whose lines has something before it, from whatever has collected it."""


@dataclass(slots=True)
class Swept:
    """Positions are offsets into the bytes. Records are numbered as they stand in `starts`; -1 is none."""

    lines: int
    """That begin in the part that was asked for."""
    lead_lines: int
    """Those before the first record, blank ones apart."""
    stray_lines: int
    """Those after it that belong to none, blank ones apart."""
    end: int
    """Up to where that is: the beginning of the last record if that was held back."""
    stop: int
    """Where what belongs to the last record ends; it may be after `end`."""
    starts: npt.NDArray[np.int64]
    formats: npt.NDArray[np.int64]
    looks: npt.NDArray[np.int64]
    start_lines: npt.NDArray[np.int64]
    hit_ends: npt.NDArray[np.int64]
    hit_literals: npt.NDArray[np.int64]
    hit_records: npt.NDArray[np.int64]
    hit_line_starts: npt.NDArray[np.int64]
    hit_lines: npt.NDArray[np.int64]


def _classes() -> npt.NDArray[np.uint8]:
    classes = np.full(256, _DELIMITER, np.uint8)
    for byte in b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-$@":
        classes[byte] = _WORD
    classes[128:] = _WORD
    for byte in b"0123456789":
        classes[byte] = _DIGIT
    return classes


CLASSES = _classes()


def sweep(
    data: npt.NDArray[np.uint8],
    begin: int,
    end: int,
    mode: Mode,
    shapes: Shapes,
    literals: Literals,
    *,
    wrappers: Shapes,
    compiled: bool,
    hold_last: bool = False,
) -> Swept:
    """Of the lines that begin in [begin, end), where a line begins at `begin`. Lines after that which belong to the last record
    are only searched. `hold_last`: the last record is left for later, because it may go on after what is here."""
    room = (data.size - begin) // 2 + 2
    while True:
        swept = _with_room(room, data, begin, end, mode, shapes, literals, wrappers, compiled=compiled, hold_last=hold_last)
        if swept is not None:
            return swept
        room *= 2  # literals that are very short, and many


def _with_room(
    room: int,
    data: npt.NDArray[np.uint8],
    begin: int,
    end: int,
    mode: Mode,
    shapes: Shapes,
    literals: Literals,
    wrappers: Shapes,
    *,
    compiled: bool,
    hold_last: bool,
) -> Swept | None:
    """None if there was too little of it."""
    starts, formats, looks, start_lines, *hits = _paper(room)
    counts = np.zeros(10, np.int64)
    tables = (
        wrappers.next.reshape(-1),
        wrappers.fits,
        shapes.next.reshape(-1),
        shapes.fits,
        literals.columns,
        literals.next,
        literals.found,
        literals.shorter,
        CLASSES,
    )
    literal_numbers = literals.width, literals.first_found
    filled = (starts, formats, looks, start_lines, *hits, counts)
    if compiled:
        _compiled()(data, data.size, begin, end, int(mode), *tables, *literal_numbers, room, *filled)
    else:  # Python's own numbers: numpy's would overflow
        plain: Callable[..., None] = _sweep
        listed = (table.tolist() for table in tables)
        plain(data.tobytes(), data.size, begin, end, int(mode), *listed, *literal_numbers, room, *filled)
    lines, lead, stray, records, found, stop, last_start, *at_last = (int(count) for count in counts)
    if found == room:
        return None
    if hold_last and records:
        end = stop = last_start
        records -= 1
        lines, stray, found = at_last
    of_records = (array[:records].copy() for array in (starts, formats, looks, start_lines))
    of_hits = (array[:found].copy() for array in hits)
    return Swept(lines, lead, stray, end, stop, *of_records, *of_hits)


@functools.lru_cache(maxsize=1)
def _large_paper(room: int) -> tuple[npt.NDArray[np.int64], ...]:
    return tuple(np.empty(room, np.int64) for _ in range(9))


def _paper(room: int) -> tuple[npt.NDArray[np.int64], ...]:
    """To write on, and again the next time: what is found is copied from it. New pages would take longer than to fill them."""
    return _large_paper(max(PAPER, 1 << (room - 1).bit_length()))


@functools.cache
def _compiled() -> Callable[..., None]:
    try:
        import numba
    except ImportError as error:
        raise Refused("to read large logs, numba is needed: pip install 'holdfast[explain]'") from error
    compiled: Callable[..., None]
    try:
        # What is kept goes by where the code is: code in an archive that came with a question is nowhere a second time.
        compiled = numba.njit(cache=Path(__file__).is_file(), nogil=True)(_sweep)
    except RuntimeError:  # nowhere to keep it
        compiled = numba.njit(nogil=True)(_sweep)
    return compiled


def _sweep(  # noqa: PLR0912, PLR0915
    data: Any, size: int, begin: int, end: int, mode: int, wrapper_next: Any, wrapper_fits: Any, shape_next: Any,
    shape_fits: Any, columns: Any, next: Any, found: Any, shorter: Any, classes: Any, width: int, first_found: int, room: int,
    starts: Any, formats: Any, looks: Any, start_lines: Any, hit_ends: Any, hit_literals: Any, hit_records: Any,
    hit_line_starts: Any, hit_lines: Any, counts: Any,
) -> None:  # fmt: skip
    """One function, because calls between compiled functions that fill arrays cost more than all the rest."""
    mask = (1 << 62) - 1  # what is more is lost anyway, at the latest where a word ends
    at = begin
    lines = 0
    line_number = 0
    lead = 0
    stray = 0
    records = 0
    found_count = 0
    inside = False
    after_blank = False
    record_indent = 0
    last_start = 0
    last_lines = 0
    last_stray = 0
    last_found = 0
    while at < size:
        line = at
        if mode == 3:
            state = 1
            probe = at
            while state > 0 and probe < size and data[probe] != 10:
                state = wrapper_next[state * 256 + data[probe]]
                probe += 1
                if wrapper_fits[state] >= 0:
                    at = probe
                    break
        indent = 0
        while at < size and (data[at] == 32 or data[at] == 9):
            at += 1
            indent += 1
        blank = at >= size or data[at] == 10 or (data[at] == 13 and at + 1 < size and data[at + 1] == 10)
        # Does it begin a record?
        fits = -1
        headed = line
        if not blank and (indent == 0 or mode == 1):
            if mode == 2:
                fits = 0
            else:
                state = 1
                probe = at
                while state > 0 and probe < size and data[probe] != 10:
                    state = shape_next[state * 256 + data[probe]]
                    if shape_fits[state] >= 0:
                        fits = shape_fits[state]  # better than any before
                        headed = probe + 1
                    probe += 1
        if line >= end and (fits >= 0 or not inside):
            at = line
            break  # only what belongs to the last record is looked at
        # A frame of a stack trace says nothing that anybody looks for.
        frame = not blank and fits < 0 and at + 3 < size and data[at] == 97 and data[at + 1] == 116 and data[at + 2] == 32
        if fits >= 0:
            last_start = line
            last_lines = lines
            last_stray = stray
            last_found = found_count
            starts[records] = line
            formats[records] = fits
            start_lines[records] = lines
            records += 1
            inside = True
            after_blank = False
            record_indent = indent
        elif blank:
            after_blank = True
        elif mode == 1 and inside and after_blank:
            cause = at + 9 < size and data[at] == 67 and data[at + 1] == 97 and data[at + 2] == 117 and data[at + 7] == 98
            inside = frame or cause or indent > record_indent
            after_blank = not inside
        if fits < 0 and not blank and line < end:
            if records == 0:
                lead += 1
            elif not inside:
                stray += 1
        # What does it say? That begins after its time; but the last bytes of its time may be the first ones of a literal.
        state = 0
        look = 0
        token = 0
        numbered = 0
        after_number = 0
        at = max(line, headed - TIME_BYTES)
        looked_at = min(size, line + LOOKED_AT_BYTES) if fits >= 0 else line
        if frame or blank:
            while at < size and data[at] != 10:
                at += 1
        while at < size:
            byte = data[at]
            if byte == 10:
                break
            state = next[state + columns[byte]]
            if state >= first_found:
                ending = state // width
                while ending > 0 and found_count < room:
                    hit_ends[found_count] = at + 1
                    hit_literals[found_count] = found[ending]
                    hit_records[found_count] = records - 1 if inside else -1
                    hit_line_starts[found_count] = line
                    hit_lines[found_count] = line_number
                    found_count += 1
                    ending = shorter[ending]
            if at < looked_at:
                kind = classes[byte]
                if kind == 0:
                    # After a number, B, KB, MiB and the like change with it: what ends with B, and is of three letters at most.
                    if numbered > 0 or (after_number > 0 and token < TOKEN_OF_FOUR and data[at - 1] == 66):
                        token = 7
                    look = ((look ^ token) * 1000003 + byte) & mask
                    after_number = numbered if byte == 32 else 0
                    token = 0
                    numbered = 0
                else:
                    token = token * 31 + byte
                    numbered |= kind & 2
            at += 1
        if fits >= 0:
            if numbered > 0 or (after_number > 0 and token < TOKEN_OF_FOUR and data[at - 1] == 66):
                token = 7
            looks[records - 1] = ((look ^ token) * 1000003) & mask
        at += 1
        line_number += 1
        if line < end:
            lines += 1
    counts[0] = lines
    counts[1] = lead
    counts[2] = stray
    counts[3] = records
    counts[4] = found_count
    counts[5] = min(at, size)
    counts[6] = last_start
    counts[7] = last_lines
    counts[8] = last_stray
    counts[9] = last_found
