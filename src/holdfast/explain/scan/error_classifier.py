"""Classify lines that report errors, whether or not an event pattern knows them.

A record is an error by its level, or an exception if its message starts with one. A line that starts no record is an error if
it starts with an exception class, `Caused by:`, a Python traceback or a level.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.explain.library.log_format import RecordHeader
from holdfast.explain.scan import jit
from holdfast.explain.scan.block import RECORD_BYTES_MAX, Block
from holdfast.explain.scan.header_dfa import HeaderTable
from holdfast.explain.scan.jit import NON_NEGATIVE
from holdfast.explain.scan.literal_automaton import LiteralTable, compile_literals
from holdfast.explain.scan.literal_search import search_literals
from holdfast.explain.scan.record_scan import BYTE_KINDS, FileMode, RecordScan

LEVEL_CHARS = 200
"""Characters at the start of a record that are searched for a level if the header states none."""
PREFILTER_RECORDS_MIN = 64
"""Number of records from which a compiled search for hints is faster than one search in Python per record."""


class ErrorKind(IntEnum):
    NONE = 0
    EXCEPTION = 1
    ERROR = 2
    FATAL = 3


_KIND_OF_LEVEL = {
    **dict.fromkeys(("ERROR", "ERR", "SEVERE"), ErrorKind.ERROR),
    **dict.fromkeys(("FATAL", "CRITICAL", "CRIT", "ALERT", "EMERGENCY", "EMERG", "PANIC"), ErrorKind.FATAL),
}
_LEVEL = re.compile(
    r"(?<![\w.$/@-])(?P<level>TRACE|FINEST|FINER|FINE|DEBUG|CONFIG|INFO|NOTICE|WARN|WARNING|ERROR|SEVERE|FATAL|CRITICAL)"
    r"(?![\w.$/@-])"
)
_JSON_LEVEL = re.compile(r'"(?:log\.)?(?:level|levelname|severity)"\s*:\s*"(?P<level>\w+)"')
_HINTS = (b"ERR", b"FATAL", b"SEVERE", b"CRIT", b"ALERT", b"EMERG", b"PANIC", b"EXCEPT", b"THROW", b"CAUSED", b"TRACE")
"""A line that `classify_record` classifies as an error contains one of these, in upper or lower case."""
_TRACEBACK = "Traceback (most recent call last)"
_EXCEPTION = re.compile(
    r"\s*(?:(?:[\w$-]+\.)*[\w$]*(?:Exception|Error|Throwable)(?::|\s*$|\\)"
    r"|Exception in thread |Caused by: |Traceback \(most recent)"
)
_EXCEPTION_KEYS = ("exception", "stack_trace", "error.stack_trace", "stacktrace")


def _case_insensitive(literals: Sequence[bytes]) -> LiteralTable:
    """Compile upper-case literals and make lower-case letters share the columns of upper-case ones."""
    table = compile_literals(literals)
    columns = table.columns.copy()
    columns[ord("a") : ord("z") + 1] = columns[ord("A") : ord("Z") + 1]
    return replace(table, columns=columns)


_HINT_TABLE = _case_insensitive(_HINTS)


def records_with_hints(block: Block, records: Sequence[int], *, compiled: bool) -> list[int]:
    """Return the records whose first line may be an error; `records` ascends.

    All records that are left out are none: most logs with very many templates are classified without reading a header."""
    if compiled and len(records) >= PREFILTER_RECORDS_MIN:
        indexes = np.array(records)
        bounds = np.append(block.records.starts, block.records.stop)
        begins = bounds[indexes]
        ends = np.minimum(bounds[indexes + 1], begins + RECORD_BYTES_MAX)
        hits = search_literals(block.data, begins, ends, _HINT_TABLE, compiled=True)
        records = indexes[np.unique(np.searchsorted(begins, hits.ends) - 1)].tolist()
    starts = block.records.starts
    return [record for record in records if _has_hint(block.first_line_bytes(int(starts[record])))]


def _has_hint(line: bytes) -> bool:
    upper = line.upper()
    return any(hint in upper for hint in _HINTS)


def classify_record(header: RecordHeader, text: str) -> ErrorKind:
    """Classify a record by its header and its first line (without the prefix of a log collector)."""
    is_json = header.message_at == 0 and text.startswith("{")
    level = header.level.upper() or _find_level(text, is_json=is_json)
    known = _KIND_OF_LEVEL.get(level)
    if known is not None:
        return known
    return ErrorKind.EXCEPTION if _has_exception(header, text, is_json=is_json) else ErrorKind.NONE


def _find_level(text: str, *, is_json: bool) -> str:
    """Find the level of a record whose header cannot be read or states none."""
    match = _JSON_LEVEL.search(text) if is_json else _LEVEL.search(text, 0, LEVEL_CHARS)
    return match["level"].upper() if match is not None else ""


def _has_exception(header: RecordHeader, text: str, *, is_json: bool) -> bool:
    if not is_json:
        return _EXCEPTION.match(text, header.message_at) is not None
    named = any(header.fields.get(key, "") not in ("", "True", "False") for key in _EXCEPTION_KEYS)
    return named or _TRACEBACK in text or _EXCEPTION.match(header.fields.get("message", "")) is not None


TEMPLATE_BYTES = 512
"""Bytes of an error line that determine its template, if the line starts no record."""
WORD_BYTES = 512
"""Bytes of a line's first word that are compared with exception classes and levels."""
_FIVE_BYTES, _SEVEN_BYTES = (1 << 40) - 1, (1 << 56) - 1
_CAUSED, _ERROR, _SEVERE, _FATAL = (int.from_bytes(word) for word in (b"Caused", b"ERROR", b"SEVERE", b"FATAL"))
_ENDS_ERROR = int.from_bytes(b"Error")
# The last seven bytes of Exception, Throwable, Traceback and CRITICAL.
_CEPTION, _ROWABLE, _ACEBACK, _RITICAL = (int.from_bytes(word) for word in (b"ception", b"rowable", b"aceback", b"RITICAL"))


class OtherErrors(NamedTuple):
    """Error lines of a block that start no record."""

    starts: npt.NDArray[np.int64]
    lines: npt.NDArray[np.int64]
    templates: npt.NDArray[np.int64]
    """Hashes; the two lowest bits are the `ErrorKind`."""


def find_other_errors(
    data: bytes, records: RecordScan, mode: FileMode, wrappers: HeaderTable, *, compiled: bool
) -> OtherErrors:
    """Find the error lines among the lines that start no record. In a file without records, those are all lines."""
    starts, lines = records.other_starts, records.other_lines
    if mode is FileMode.PLAIN:
        starts, lines = np.append(starts, records.starts), np.append(lines, records.start_lines)
        order = np.argsort(starts)
        starts, lines = starts[order], lines[order]
    templates = np.zeros(len(starts), np.int64)
    if len(starts):
        tables = wrappers.next.reshape(-1), wrappers.accepts, BYTE_KINDS, starts, lines
        jit.run(_classify, compiled, data, tables, len(data), int(mode), templates)
    errors = np.flatnonzero(templates)
    numbers = lines[errors]
    return OtherErrors(starts[errors], np.where(numbers < 0, -1 - numbers, numbers), templates[errors])


def _classify(  # noqa: PLR0912, PLR0915 -- calls between compiled functions are slow
    data: Any, wrapper_next: Any, wrapper_accepts: Any, kinds: Any, starts: Any, lines: Any, size: int, mode: int,
    templates: Any,
) -> None:  # fmt: skip  # one item per line is harder to read
    """Write the template and the kind of each line that reports an error. The first word of a line decides.

    Terminal colours (ESC [ digits m) before and after the word are skipped."""
    mask = (1 << 62) - 1
    for number in range(len(starts)):
        at = starts[number]
        last = min(size, at + TEMPLATE_BYTES)
        if mode == 3:
            state = 1
            probe = at
            while state > 0 and probe < size and data[probe] != 10:
                state = wrapper_next[state * 256 + data[probe]]
                probe += 1
                if wrapper_accepts[state] >= 0:
                    at = probe  # an earlier shape than any before
        while at < size and (
            data[at] == 32
            or data[at] == 9
            or (mode == 1 and (data[at] == 62 or data[at] == 96 or data[at] == 42 or data[at] == 45))
        ):
            at += 1
        word = at
        if word < size and (data[word] == 91 or data[word] == 27):
            in_colour = False
            brackets = 0
            while word < size:
                byte = data[word]
                if byte == 27 and word + 1 < size and data[word + 1] == 91:
                    in_colour = True
                    word += 1
                elif in_colour and byte == 109:
                    in_colour = False
                elif in_colour and not (48 <= byte <= 57 or byte == 59):
                    break
                elif not in_colour and byte == 91 and brackets == 0:
                    brackets = 1
                elif not in_colour:
                    break
                word += 1
        after = word
        tail = 0  # the last seven bytes of the word
        while after < size and after < word + WORD_BYTES and kinds[data[after & NON_NEGATIVE]] != 0:
            tail = ((tail << 8) | data[after & NON_NEGATIVE]) & _SEVEN_BYTES
            after += 1
        length = after - word
        behind = after  # after a colour that ends here
        while behind + 1 < size and data[behind] == 27 and data[behind + 1] == 91:
            behind += 2
            while behind < size and (48 <= data[behind] <= 57 or data[behind] == 59):
                behind += 1
            if behind < size and data[behind] == 109:
                behind += 1
        follows = int(data[behind]) if behind < size else 10
        kind = 0
        if follows in (58, 10, 13, 92):  # a colon, or the end of the line
            ends_exception = length >= 9 and tail == _CEPTION and data[after - 9] == 69 and data[after - 8] == 120
            ends_throwable = length >= 9 and tail == _ROWABLE and data[after - 9] == 84 and data[after - 8] == 104
            if ends_exception or ends_throwable or (tail & _FIVE_BYTES) == _ENDS_ERROR:
                kind = 1
        elif follows == 32 and behind + 2 < size:
            caused_by = length == 6 and tail == _CAUSED and data[behind + 1] == 98 and data[behind + 2] == 121
            in_thread = length == 9 and tail == _CEPTION and data[behind + 1] == 105 and data[behind + 2] == 110
            traceback = length == 9 and tail == _ACEBACK and data[behind + 1] == 40
            if caused_by or in_thread or traceback:
                kind = 1
        if lines[number] >= 0 and follows in (58, 32, 93):
            if (length == 5 and tail == _ERROR) or (length == 6 and tail == _SEVERE):
                kind = 2
            elif (length == 5 and tail == _FATAL) or (length == 8 and tail == _RITICAL and data[word] == 67):
                kind = 3
        if kind > 0:
            template = 0
            token = 0
            has_digit = 0
            while at < last and data[at & NON_NEGATIVE] != 10:
                byte = data[at & NON_NEGATIVE]
                if kinds[byte] == 0:
                    template = ((template ^ (7 if has_digit > 0 else token)) * 1000003 + byte) & mask
                    token = 0
                    has_digit = 0
                else:
                    token = (token * 31 + byte) & mask
                    has_digit |= kinds[byte] & 2
                at += 1
            template = ((template ^ (7 if has_digit > 0 else token)) * 1000003) & mask
            templates[number] = (template >> 2 << 2) | kind
