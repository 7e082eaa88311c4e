"""Scan bytes once: find the starts of records, the template of each record, and the lines that are worth searching.

The template of a record is a hash of its first line without numbers, ids and units.
"""

import functools
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.explain.scan import jit
from holdfast.explain.scan.header_dfa import HeaderTable
from holdfast.explain.scan.jit import NON_NEGATIVE

TEMPLATE_LINE_BYTES = 4096
"""Bytes of a record's first line that determine its template."""
SCRATCH_ENTRIES_MIN = 1 << 21
FOUR_LETTER_TOKEN_MIN = 300_000
"""Least hash of a word of four or more letters; words of up to three letters have smaller hashes."""

MARKS = ">`*-"
"""Characters before a record in text: quotation in a mail, code and lists in Markdown. A line of these alone is empty."""

_DELIMITER, _WORD, _DIGIT = 0, 1, 2


class FileMode(IntEnum):
    LOG = 0
    """Log: a line that starts no record belongs to the record before."""
    PROSE = 1
    """Text that quotes records. They may be indented, or follow `MARKS`. An empty line ends them unless the next line has as
    many quotation marks and is indented deeper."""
    PLAIN = 2
    """Text without records: every line counts on its own."""
    WRAPPED = 3
    """Log whose lines have the prefix of a log collector."""


@dataclass(slots=True)
class RecordScan:
    """Records of a block. Positions are offsets into the block; a record is known by its index in `starts`."""

    lines: int
    """Lines that start before `end`."""
    lead_lines: int
    """Lines before the first record, except blank ones."""
    stray_lines: int
    """Lines after the first record that belong to none, except blank ones."""
    end: int
    """End of the scanned part: the start of the last record if that was held back."""
    stop: int
    """End of the last record; may be after `end`."""
    starts: npt.NDArray[np.int64]
    formats: npt.NDArray[np.int64]
    templates: npt.NDArray[np.int64]
    start_lines: npt.NDArray[np.int64]
    search_begins: npt.NDArray[np.int64]
    """Starts of the parts that are worth searching for literals. A part consists of whole lines."""
    search_ends: npt.NDArray[np.int64]
    """Ends of these parts."""
    other_starts: npt.NDArray[np.int64]
    """Lines that start no record, except blank lines and stack frames."""
    other_lines: npt.NDArray[np.int64]
    """Line number n of each; -1 - n if it is text around quoted records, which is not searched."""


def _byte_kinds() -> npt.NDArray[np.uint8]:
    kinds = np.full(256, _DELIMITER, np.uint8)
    for byte in b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-$@":
        kinds[byte] = _WORD
    kinds[128:] = _WORD
    for byte in b"0123456789":
        kinds[byte] = _DIGIT
    return kinds


BYTE_KINDS = _byte_kinds()


def scan_records(
    data: bytes,
    end: int,
    mode: FileMode,
    headers: HeaderTable,
    *,
    wrappers: HeaderTable,
    compiled: bool,
    hold_last: bool = False,
) -> RecordScan:
    """Scan the lines that start before `end`. Offset 0 is the start of a line.

    Beyond `end`, only find where the last record ends.
    With `hold_last`, leave the last record to the next block, because it may continue after this one."""
    filled = starts, formats, templates, start_lines, *search, other_starts, other_lines = _scratch(len(data) // 2 + 2)
    counts = np.zeros(10, np.int64)
    tables = (
        wrappers.next.reshape(-1),
        wrappers.accepts,
        headers.next.reshape(-1),
        headers.accepts,
        headers.byte_classes,
        BYTE_KINDS,
    )
    jit.run(_scan, compiled, data, tables, len(data), end, int(mode), *filled, counts)
    lines, lead, stray, records, runs, stop, last_start, *at_last, others = counts.tolist()
    if hold_last and records:
        end = stop = last_start
        records -= 1
        lines, stray = at_last
    of_records = [array[:records].copy() for array in (starts, formats, templates, start_lines)]
    begins, ends = (array[:runs] for array in search)
    of_search = [begins[begins < stop], np.minimum(ends[begins < stop], stop)]
    before_end = int(np.searchsorted(other_starts[:others], end))
    of_others = [array[:before_end].copy() for array in (other_starts, other_lines)]
    return RecordScan(lines, lead, stray, end, stop, *of_records, *of_search, *of_others)


@functools.lru_cache(maxsize=1)
def _scratch_of_size(size: int) -> tuple[npt.NDArray[np.int64], ...]:
    return tuple(np.empty(size, np.int64) for _ in range(8))


def _scratch(size: int) -> tuple[npt.NDArray[np.int64], ...]:
    """Return reusable scratch arrays; results are copied out. Allocating new pages would take longer than filling them."""
    return _scratch_of_size(max(SCRATCH_ENTRIES_MIN, 1 << (size - 1).bit_length()))


def _scan(  # noqa: PLR0912, PLR0915 -- calls between compiled functions are slow
    data: Any, wrapper_next: Any, wrapper_accepts: Any, header_next: Any, header_accepts: Any, byte_classes: Any, kinds: Any,
    size: int, end: int, mode: int, starts: Any, formats: Any, templates: Any, start_lines: Any, search_begins: Any,
    search_ends: Any, other_starts: Any, other_lines: Any, counts: Any,
) -> None:  # fmt: skip  # one item per line is harder to read
    """Fill the arrays. One function: calls between compiled functions that fill arrays would take longer than the scan."""
    mask = (1 << 62) - 1  # higher bits are lost anyway, at the latest at the end of a word
    at = 0
    lines = 0
    lead = 0
    stray = 0
    records = 0
    runs = 0
    others = 0
    in_run = False
    inside = False
    after_blank = False
    record_indent = 0
    record_quotes = 0
    last_start = 0
    last_lines = 0
    last_stray = 0
    known = 0
    known_size = 0
    known_shape = -1
    known_header_end = 0
    while at < size:
        line = at
        if mode == 3:
            state = 1
            probe = at
            while state > 0 and probe < size and data[probe] != 10:
                state = wrapper_next[state * 256 + data[probe]]
                probe += 1
                if wrapper_accepts[state] >= 0:
                    at = probe  # an earlier shape than any before
        indent = 0
        quotes = 0
        marked = 0
        while at < size and (
            data[at] == 32
            or data[at] == 9
            or (
                mode == 1
                and (data[at] == 62 or data[at] == 96 or data[at] == 42 or data[at] == 45)
                and header_next[256 + data[at]] == 0  # no shape begins with this mark
            )
        ):
            if data[at] == 62:  # >
                quotes += 1
                indent = 0
            elif data[at] != 32 and data[at] != 9:
                marked = 1
            elif marked == 0:
                indent += 1
            at += 1
        blank = at >= size or data[at] == 10 or (data[at] == 13 and at + 1 < size and data[at + 1] == 10)
        # Does the line start a record?
        shape = -1
        header_end = line
        if not blank and (indent == 0 or mode == 1):
            if mode == 2:
                shape = 0
            else:
                # Most headers equal the last one but for digits: comparing byte classes is faster than the DFA.
                equal = 0
                equal_max = min(known_size, size - at)
                while (
                    equal < equal_max
                    and byte_classes[data[(at + equal) & NON_NEGATIVE]] == byte_classes[data[(known + equal) & NON_NEGATIVE]]
                ):
                    equal += 1
                if equal == known_size > 0:
                    shape = known_shape
                    header_end = at + known_header_end
                else:
                    state = 1
                    probe = at
                    while state > 0 and probe < size and data[probe & NON_NEGATIVE] != 10:
                        state = header_next[state * 256 + data[probe & NON_NEGATIVE]]
                        if header_accepts[state] >= 0:
                            shape = header_accepts[state]  # an earlier shape than any before
                            header_end = probe + 1
                        probe += 1
                    if shape >= 0 and probe < size:
                        known = at
                        known_size = probe - at
                        if state > 0:
                            known_size += 1  # the newline that ended the header
                        known_shape = shape
                        known_header_end = header_end - at
        if line >= end and (shape >= 0 or not inside):
            at = line
            break  # beyond `end`, only lines of the last record count
        # No pattern matches a stack frame ("at ").
        frame = not blank and shape < 0 and at + 3 < size and data[at] == 97 and data[at + 1] == 116 and data[at + 2] == 32
        frame = frame and marked == 0
        if shape >= 0:
            last_start = line
            last_lines = lines
            last_stray = stray
            starts[records] = line
            formats[records] = shape
            start_lines[records] = lines
            records += 1
            inside = True
            after_blank = False
            record_indent = indent
            record_quotes = quotes
        elif blank:
            after_blank = True
        elif mode == 1 and inside and after_blank:
            cause = at + 9 < size and data[at] == 67 and data[at + 1] == 97 and data[at + 2] == 117 and data[at + 7] == 98
            inside = frame or cause or (quotes == record_quotes and indent > record_indent)
            after_blank = not inside
        if shape < 0 and not blank and line < end:
            if records == 0:
                lead += 1
            elif not inside:
                stray += 1
        searched = not frame and (mode != 1 or inside)  # text around quoted records is opinion, not evidence
        if searched and not in_run:
            search_begins[runs] = line
        elif in_run and not searched:
            search_ends[runs] = line
            runs += 1
        in_run = searched
        if shape < 0 and not blank and not frame:
            other_starts[others] = line
            other_lines[others] = lines if searched else -1 - lines
            others += 1
        # Hash the first line after its header, without numbers.
        template = 0
        token = 0
        has_digit = 0
        after_number = 0
        at = header_end
        hash_end = min(size, line + TEMPLATE_LINE_BYTES) if shape >= 0 and mode != 2 else line
        while at < hash_end:
            byte = data[at & NON_NEGATIVE]
            kind = kinds[byte]
            if kind == 0:
                if byte == 10:
                    break
                # A unit after a number (B, KB, MiB) varies with it: a word of at most three letters that ends with B.
                if after_number > 0 and token < FOUR_LETTER_TOKEN_MIN and data[(at - 1) & NON_NEGATIVE] == 66:
                    token = 7
                token = 7 if has_digit > 0 else token  # without a branch, because it could not be predicted
                template = ((template ^ token) * 1000003 + byte) & mask
                after_number = has_digit if byte == 32 else 0
                token = 0
                has_digit = 0
            else:
                token = token * 31 + byte
                has_digit |= kind & 2
            at += 1
        if shape >= 0:
            if has_digit > 0 or (after_number > 0 and token < FOUR_LETTER_TOKEN_MIN and data[at - 1] == 66):
                token = 7
            templates[records - 1] = ((template ^ token) * 1000003) & mask
        while at < size and data[at & NON_NEGATIVE] != 10:
            at += 1
        at += 1
        if line < end:
            lines += 1
    if in_run:
        search_ends[runs] = min(at, size)
        runs += 1
    counts[0] = lines
    counts[1] = lead
    counts[2] = stray
    counts[3] = records
    counts[4] = runs
    counts[5] = min(at, size)
    counts[6] = last_start
    counts[7] = last_lines
    counts[8] = last_stray
    counts[9] = others
