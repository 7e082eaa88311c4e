"""Detect how a file is to be read, from a sample of its start: log, quoted log lines, wrapped log or plain text."""

import numpy as np

from holdfast.explain.library import Library
from holdfast.explain.scan.block import decode
from holdfast.explain.scan.record_scan import MARKS, FileMode, RecordScan, scan_records

SAMPLE_BYTES = 16 * 1024
ENCODING_BYTES = 1024
STRAY_SHARE = 0.05
"""Lines between records, per record, above which a file is text that quotes records."""
WRAPPED_SHARE = 0.9
"""Share of lines with the prefix of a log collector above which the prefix is removed (see `RECORD_SHARE`)."""
RECORD_SHARE = 0.02
"""Least share of lines that must start a record without the prefix. Otherwise the prefix is kept."""
_CONTINUES = (b"at ", b"Caused by", b"... ", b"\t", b" ", b"java.", b"org.", b"com.", b"Traceback", b"\n", b"\r")
_MARKS = tuple(bytes([byte]) for byte in b" \t" + MARKS.encode())


def detect_mode(sample: bytes, library: Library, *, compiled: bool = False) -> FileMode:
    prose = _scan(sample, FileMode.PROSE, library, compiled)
    if _is_wrapped(sample, library, compiled):
        return FileMode.WRAPPED
    if not len(prose.starts):
        return FileMode.PLAIN
    formats = [
        (library.formats.format(FileMode.PROSE, number), count)
        for number, count in enumerate(np.bincount(prose.formats).tolist())
        if count
    ]
    if sum(count for format, count in formats if format.wrapper) > WRAPPED_SHARE * prose.lines:
        return FileMode.LOG
    lead = sample[: int(prose.starts[0])].splitlines(keepends=True)
    text_lines = prose.stray_lines + sum(1 for line in lead if not line.startswith(_CONTINUES))
    quoted = sum(count for format, count in formats if format.prose)
    has_text_between = text_lines > max(2, STRAY_SHARE * len(prose.starts))
    behind_marks = sum(1 for start in prose.starts.tolist() if sample[start : start + 1] in _MARKS)
    is_prose = has_text_between or 2 * max(quoted, behind_marks) > len(prose.starts)
    return FileMode.PROSE if is_prose else FileMode.LOG


def _is_wrapped(sample: bytes, library: Library, compiled: bool) -> bool:
    """Return True if nearly all lines have the prefix of a log collector, and some of them start a record behind it."""
    lines = [line for line in sample.split(b"\n") if line.strip()]
    if not _have_prefixes(lines, library):
        return False
    return len(_scan(sample, FileMode.WRAPPED, library, compiled).starts) > RECORD_SHARE * len(lines)


def _have_prefixes(lines: list[bytes], library: Library) -> bool:
    """Return True if more than WRAPPED_SHARE of the lines have a prefix. In most files, the first lines rule that out."""
    without_prefix = 0
    for line in lines:
        without_prefix += not library.formats.is_wrapped(decode(line))
        if len(lines) - without_prefix <= WRAPPED_SHARE * len(lines):
            return False
    return bool(lines)


def _scan(sample: bytes, mode: FileMode, library: Library, compiled: bool) -> RecordScan:
    headers, wrappers = library.formats.header_table(mode), library.formats.wrapper_table
    return scan_records(sample, len(sample), mode, headers, wrappers=wrappers, compiled=compiled)


def is_utf_16(sample: bytes) -> bool:
    """Return True for a byte order mark, or if every other byte is mostly zero, as in Latin text with two-byte characters."""
    halves = sample[:ENCODING_BYTES:2], sample[1:ENCODING_BYTES:2]
    return sample[:2] in (b"\xff\xfe", b"\xfe\xff") or any(2 * half.count(0) > len(half) > 1 for half in halves)
