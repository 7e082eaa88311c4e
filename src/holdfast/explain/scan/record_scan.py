"""One pass over bytes: where records begin, what each looks like without its numbers, and what of them is worth a search."""

import functools
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.explain.scan import jit
from holdfast.explain.scan.header_dfa import Shapes
from holdfast.explain.scan.jit import UNSIGNED

LOOKED_AT_BYTES = 4096
"""Of a record's first line, so much counts for what it looks like."""
PAPER = 1 << 21
TOKEN_OF_FOUR = 300_000
"""No word of four letters or more is hashed to less, and none of three to more."""

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
    piece_begins: npt.NDArray[np.int64]
    """What is worth a search: runs of lines,"""
    piece_ends: npt.NDArray[np.int64]
    """each up to here."""


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
    data: bytes,
    end: int,
    mode: Mode,
    shapes: Shapes,
    *,
    wrappers: Shapes,
    compiled: bool,
    hold_last: bool = False,
) -> Swept:
    """Of the lines that begin before `end`, where a line begins at 0. Of lines after that which belong to the last record, only
    how far they go. `hold_last`: the last record is left for later, because it may go on after what is here."""
    filled = starts, formats, looks, start_lines, *pieces = _paper(len(data) // 2 + 2)
    counts = np.zeros(9, np.int64)
    tables = wrappers.next.reshape(-1), wrappers.fits, shapes.next.reshape(-1), shapes.fits, shapes.alike, CLASSES
    jit.run(_sweep, compiled, data, tables, len(data), end, int(mode), *filled, counts)
    lines, lead, stray, records, searched, stop, last_start, *at_last = counts.tolist()
    if hold_last and records:
        end = stop = last_start
        records -= 1
        lines, stray = at_last
    of_records = [array[:records].copy() for array in (starts, formats, looks, start_lines)]
    begins, ends = (array[:searched] for array in pieces)
    of_pieces = [begins[begins < stop], np.minimum(ends[begins < stop], stop)]
    return Swept(lines, lead, stray, end, stop, *of_records, *of_pieces)


@functools.lru_cache(maxsize=1)
def _large_paper(room: int) -> tuple[npt.NDArray[np.int64], ...]:
    return tuple(np.empty(room, np.int64) for _ in range(6))


def _paper(room: int) -> tuple[npt.NDArray[np.int64], ...]:
    """To write on, and again the next time: what is found is copied from it. New pages would take longer than to fill them."""
    return _large_paper(max(PAPER, 1 << (room - 1).bit_length()))


def _sweep(  # noqa: PLR0912, PLR0915
    data: Any, wrapper_next: Any, wrapper_fits: Any, shape_next: Any, shape_fits: Any, alike: Any, classes: Any, size: int,
    end: int, mode: int, starts: Any, formats: Any, looks: Any, start_lines: Any, piece_begins: Any, piece_ends: Any,
    counts: Any,
) -> None:  # fmt: skip
    """One function, because calls between compiled functions that fill arrays cost more than all the rest."""
    mask = (1 << 62) - 1  # what is more is lost anyway, at the latest where a word ends
    at = 0
    lines = 0
    lead = 0
    stray = 0
    records = 0
    pieces = 0
    open_piece = False
    inside = False
    after_blank = False
    record_indent = 0
    last_start = 0
    last_lines = 0
    last_stray = 0
    known = 0
    known_size = 0
    known_fits = -1
    known_headed = 0
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
                # As the last record did? That is seen sooner than where each byte leads to.
                same = 0
                most = min(known_size, size - at)
                while same < most and alike[data[(at + same) & UNSIGNED]] == alike[data[(known + same) & UNSIGNED]]:
                    same += 1
                if same == known_size > 0:
                    fits = known_fits
                    headed = at + known_headed
                else:
                    state = 1
                    probe = at
                    while state > 0 and probe < size and data[probe & UNSIGNED] != 10:
                        state = shape_next[state * 256 + data[probe & UNSIGNED]]
                        if shape_fits[state] >= 0:
                            fits = shape_fits[state]  # better than any before
                            headed = probe + 1
                        probe += 1
                    if fits >= 0 and probe < size:
                        known = at
                        known_size = probe - at
                        if state > 0:
                            known_size += 1  # the end of the line, which has ended it
                        known_fits = fits
                        known_headed = headed - at
        if line >= end and (fits >= 0 or not inside):
            at = line
            break  # only what belongs to the last record is looked at
        # A frame of a stack trace says nothing that anybody looks for.
        frame = not blank and fits < 0 and at + 3 < size and data[at] == 97 and data[at + 1] == 116 and data[at + 2] == 32
        if fits >= 0:
            last_start = line
            last_lines = lines
            last_stray = stray
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
        searched = not frame and (mode != 1 or inside)  # what is not quoted in prose is what somebody thought of it
        if searched and not open_piece:
            piece_begins[pieces] = line
        elif open_piece and not searched:
            piece_ends[pieces] = line
            pieces += 1
        open_piece = searched
        # What does it look like? That begins after its time.
        look = 0
        token = 0
        numbered = 0
        after_number = 0
        at = headed
        looked_at = min(size, line + LOOKED_AT_BYTES) if fits >= 0 and mode != 2 else line
        while at < looked_at:
            byte = data[at & UNSIGNED]
            kind = classes[byte]
            if kind == 0:
                if byte == 10:
                    break
                # After a number, B, KB, MiB and the like change with it: what ends with B, and is of three letters at most.
                if after_number > 0 and token < TOKEN_OF_FOUR and data[(at - 1) & UNSIGNED] == 66:
                    token = 7
                token = 7 if numbered > 0 else token  # without a branch: whether it is a number cannot be foretold
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
        while at < size and data[at & UNSIGNED] != 10:
            at += 1
        at += 1
        if line < end:
            lines += 1
    if open_piece:
        piece_ends[pieces] = min(at, size)
        pieces += 1
    counts[0] = lines
    counts[1] = lead
    counts[2] = stray
    counts[3] = records
    counts[4] = pieces
    counts[5] = min(at, size)
    counts[6] = last_start
    counts[7] = last_lines
    counts[8] = last_stray
