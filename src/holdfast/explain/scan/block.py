"""Block of a file: its bytes, the records in them, and their text and headers.

The event matcher, the template counter and the error classifier work on one block at a time.
"""

import re
from dataclasses import dataclass

from holdfast.explain.library import Library
from holdfast.explain.library.log_format import NO_HEADER, RecordHeader
from holdfast.explain.scan.record_scan import FileMode, RecordScan, scan_records
from holdfast.explain.scan.templates import FirstRecord

RECORD_BYTES_MAX = 64 * 1024
"""Bytes of a record that are examined, from its start."""
TEXT_CHARS_MAX = 500
"""Characters of a line that are kept to be shown."""
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


@dataclass(slots=True)
class Block:
    data: bytes
    records: RecordScan
    mode: FileMode
    library: Library
    file: int
    """Index of the input file."""
    offset: int
    """Offset of the block in the file."""
    line: int
    """Number of the block's first line in its range, from 0."""
    _cached_header: tuple[int, RecordHeader] = (-1, NO_HEADER)

    def header(self, record: int) -> RecordHeader:
        """Return the header of a record; `NO_HEADER` for lines before the first record (-1) and in files without records.

        The header of the last record is cached: several events may share it."""
        if record < 0 or self.mode is FileMode.PLAIN:
            return NO_HEADER
        if self._cached_header[0] != record:
            text = self.first_line(int(self.records.starts[record]))
            header = self.library.formats.read(self.mode, int(self.records.formats[record]), text)
            self._cached_header = record, header
        return self._cached_header[1]

    def line_end(self, start: int) -> int:
        end = self.data.find(b"\n", start)
        return len(self.data) if end < 0 else end

    def first_line(self, start: int) -> str:
        return decode(self.first_line_bytes(start))

    def first_line_bytes(self, start: int) -> bytes:
        return self.data[start : min(self.line_end(start), start + RECORD_BYTES_MAX)]

    def shown_line(self, start: int) -> str:
        """Return the line that starts here, shortened for display."""
        end = min(self.line_end(start), start + 4 * TEXT_CHARS_MAX)
        return decode(self.data[start:end]).strip()[:TEXT_CHARS_MAX]

    def locate(self, record: int) -> FirstRecord:
        start = int(self.records.starts[record])
        return FirstRecord(self.file, self.offset + start, self.shown_line(start))


def scan_block(
    data: bytes,
    end: int,
    mode: FileMode,
    library: Library,
    *,
    file: int,
    offset: int,
    line: int,
    compiled: bool,
    hold_last: bool = False,
) -> Block:
    """Find the records that start before `end`. With `hold_last`, leave the last one to the next block.

    `offset` is the position of `data` in its file, `line` the number of its first line."""
    headers, wrappers = library.formats.header_table(mode), library.formats.wrapper_table
    records = scan_records(data, end, mode, headers, wrappers=wrappers, compiled=compiled, hold_last=hold_last)
    return Block(data, records, mode, library, file, offset, line)


def decode(data: bytes) -> str:
    """Decode UTF-8 without terminal colours and without a byte order mark."""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    return _COLOURS.sub("", text) if "\x1b" in text else text
