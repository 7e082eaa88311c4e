"""Scan byte ranges of files: read each range in blocks and collect its counts, events, templates and error lines.

A line or record belongs to the range that contains its first byte. Its owner reads beyond the end of the range to complete it.
The result is bounded (see `scan.event_budget`): further events and templates are counted.
"""

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import IO

from holdfast.explain.inputs import open_input
from holdfast.explain.library import Library
from holdfast.explain.scan.block import RECORD_BYTES_MAX, Block, scan_block
from holdfast.explain.scan.error_lines import ErrorLines, RangeErrorLines
from holdfast.explain.scan.event_budget import NO_EVENTS, EventBudget, KeptEvents
from holdfast.explain.scan.event_matcher import MATCHED_BYTES_MAX, match_events
from holdfast.explain.scan.literal_search import search_literals
from holdfast.explain.scan.mode_detection import SAMPLE_BYTES, detect_mode, is_utf_16
from holdfast.explain.scan.ranges import ByteRange
from holdfast.explain.scan.record_scan import FileMode
from holdfast.explain.scan.templates import RangeTemplates, TemplateTotals, count_templates

BLOCK_BYTES = 1024 * 1024
"""Block size: a block stays in the processor's cache while it is scanned and searched."""
READ_BYTES = 64 * 1024
RECORD_MEMORY_BYTES = 16 * 1024 * 1024
"""Size above which a record or a line is split."""
PROSE_BYTES_MAX = 64 * 1024 * 1024
"""Size above which a file is a log and not text that quotes log lines: people do not write that much."""
_LOOKAHEAD_BYTES = RECORD_BYTES_MAX + MATCHED_BYTES_MAX
_NO_END = 1 << 62


@dataclass(slots=True)
class RangeScan:
    """Result of one range. Line numbers count from 0 at the start of the range."""

    range: ByteRange
    mode: FileMode
    bytes: int = 0
    lines: int = 0
    lead_lines: int = 0
    """Lines before the first record."""
    stray_lines: int = 0
    """Lines after it that belong to no record."""
    records: int = 0
    has_record: bool = False
    """True if a record starts in the range; in a file without records, if a line does."""
    lead_events: KeptEvents = NO_EVENTS
    """Events before the first record. They count only if no earlier range of the file has a record."""
    record_events: KeptEvents = NO_EVENTS
    was_opened: bool = False
    problem: str = ""
    """Reason why the range was not read completely, or not as a log."""
    errors: ErrorLines = field(default_factory=ErrorLines)


@dataclass(frozen=True, slots=True)
class TaskScan:
    """Result of one task."""

    ranges: tuple[RangeScan, ...]
    templates: TemplateTotals


def scan_ranges(ranges: Iterable[ByteRange], library: Library, *, compiled: bool) -> TaskScan:
    templates = TemplateTotals()
    in_order = sorted(ranges, key=lambda range: (range.file, range.begin))
    return TaskScan(tuple([_scan_range(range, library, templates, compiled) for range in in_order]), templates)


def _scan_range(range: ByteRange, library: Library, templates: TemplateTotals, compiled: bool) -> RangeScan:
    scanner = _RangeScanner(range, library, templates, compiled)
    scanner.run()
    if scanner.result.problem and range.compression and not scanner.result.lines:
        plain = _RangeScanner(range._replace(compression=""), library, TemplateTotals(), compiled)
        plain.run()
        if plain.result.records:  # the first bytes only look like those of a compressed file
            scanner = _RangeScanner(range._replace(compression=""), library, templates, compiled)
            scanner.run()
    return scanner.close()


class _RangeScanner:
    def __init__(self, range: ByteRange, library: Library, templates: TemplateTotals, compiled: bool) -> None:
        self.result = RangeScan(range, FileMode.PLAIN)
        self._library = library
        self._compiled = compiled
        self._lead_events = EventBudget(range.event_limit)
        self._record_events = EventBudget(range.event_limit)
        self._templates = RangeTemplates(templates, range.event_limit)
        self._errors = RangeErrorLines(range.file, self._templates.counts)

    def run(self) -> None:
        range, result = self.result.range, self.result
        try:
            _check_prefix(range)
            with open_input(range.path, range.compression) as file:
                result.was_opened = True
                sample = _read_sample(file, range)
                is_long = not range.compression and file.seek(0, os.SEEK_END) > PROSE_BYTES_MAX
                result.mode = detect_mode(sample, self._library, compiled=self._compiled)
                if result.mode is FileMode.PROSE and is_long:
                    result.mode = FileMode.LOG  # of a program that prints between its records
                elif result.mode is FileMode.PROSE:
                    if range.begin:
                        return  # quoted text depends on all lines before it: the first range reads the whole file
                    range = range._replace(end=_NO_END)
                if not range.compression:
                    self._read(_FileWindow(file, range))
                else:
                    with open_input(range.path, range.compression) as reopened:
                        self._read(_FileWindow(reopened, range))
            if not range.begin and not result.problem and is_utf_16(sample):
                result.problem = "UTF-16 is not supported: convert the file with 'iconv -f UTF-16 -t UTF-8'"
        except (OSError, EOFError, ValueError) as error:
            result.problem = f"{'not read to its end' if result.was_opened else 'cannot be read'}: {error}"

    def close(self) -> RangeScan:
        self.result.lead_events = self._lead_events.close()
        self.result.record_events = self._record_events.close()
        self.result.errors = self._errors.close()
        self._templates.close()
        return self.result

    def _read(self, window: "_FileWindow") -> None:
        result = self.result
        while not window.is_complete and not window.is_past_end:
            window.fill()
            if window.scan_end <= 0:
                continue  # a very long line: read on
            block = scan_block(
                window.data, window.scan_end, result.mode, self._library,
                file=result.range.file, offset=window.offset, line=result.lines, compiled=self._compiled,
                hold_last=not window.is_complete and not window.is_full,
            )  # fmt: skip  # one item per line is harder to read
            if block.records.end > 0:  # else a very long record: read on
                self._add(block)
                window.drop(block.records.end)
        result.bytes = window.offset if window.is_open_ended else result.range.end - result.range.begin
        result.problem = window.problem

    def _add(self, block: Block) -> None:
        self._add_events(block)
        if block.mode is not FileMode.PLAIN:
            counted = count_templates(block.records.templates, compiled=self._compiled)
            new = self._templates.add(counted, block.locate)
        else:
            new = []
        self._errors.add(block, new, compiled=self._compiled)
        result, records = self.result, block.records
        if not result.has_record:
            result.lead_lines += records.lead_lines
        result.lines += records.lines
        result.stray_lines += records.stray_lines
        result.records += len(records.starts) if block.mode is not FileMode.PLAIN else 0
        result.has_record = result.has_record or len(records.starts) > 0

    def _add_events(self, block: Block) -> None:
        records, literals = block.records, self._library.patterns.literals
        hits = search_literals(block.data, records.search_begins, records.search_ends, literals, compiled=self._compiled)
        for match in match_events(block, hits):
            if match.record >= 0:
                self._record_events.add(match)
            elif not self.result.has_record:  # otherwise the line belongs to the record before this block
                self._lead_events.add(match)


def _check_prefix(range: ByteRange) -> None:
    """Raise OSError if the file at this path is not the one that was named."""
    if range.expected_prefix:
        with open_input(range.path, "") as file:
            if file.read(len(range.expected_prefix)) != range.expected_prefix:
                raise OSError("this machine has a different file at this path")


def _read_sample(file: IO[bytes], range: ByteRange) -> bytes:
    """Return the first bytes. Raise OSError if the file is damaged from its first byte on."""
    try:
        return file.read(SAMPLE_BYTES)
    except (OSError, EOFError, ValueError):
        sample = _read_in_bytes(range, 0)[:SAMPLE_BYTES] if range.compression else b""
        if not sample:
            raise
        return sample


def _read_in_bytes(range: ByteRange, offset: int) -> bytes:
    """Return the uncompressed bytes between an offset and the damage of a compressed file.

    A read that runs into the damage returns nothing of what precedes it, so the bytes are read one by one."""
    block = bytearray()
    with contextlib.suppress(OSError, EOFError, ValueError), open_input(range.path, range.compression) as file:
        while offset and (skipped := file.read(min(offset, READ_BYTES))):
            offset -= len(skipped)
        while byte := file.read(1):
            block += byte
    return bytes(block)


class _FileWindow:
    """Part of a file that is in memory. It starts at the start of a line."""

    def __init__(self, file: IO[bytes], range: ByteRange) -> None:
        self._file = file
        self._range = range
        self._compressed = bool(range.compression)
        self._end = range.end if not range.compression else _NO_END
        self._skips_line = range.begin > 0
        """Drop bytes up to the next newline. Reading starts one byte before the range, which may be that newline."""
        self.offset = max(range.begin - 1, 0)
        self.data = b""
        self.is_complete = False
        """True if the rest of the range is in memory."""
        self.problem = ""

    def fill(self) -> None:
        """Read another block."""
        size_before = len(self.data)
        self.data = self._read_more()
        read_bytes = len(self.data) - size_before
        if self._skips_line:
            newline = self.data.find(b"\n")
            self._skips_line = newline < 0
            self.drop(newline + 1 or len(self.data))
        self.is_complete = read_bytes < BLOCK_BYTES or self.offset + len(self.data) >= self._end + _LOOKAHEAD_BYTES

    def _read_more(self) -> bytes:
        """Return the bytes in memory followed by another block."""
        if not self._compressed:
            left = self._end + _LOOKAHEAD_BYTES - self.offset - len(self.data)
            self._file.seek(self.offset)  # usually little is in memory: reading it again is faster than copying the block
            return self._file.read(len(self.data) + min(BLOCK_BYTES, left))
        block = bytearray(self.data)  # in small steps: a read that fails returns nothing
        try:
            until = len(block) + BLOCK_BYTES
            while not self.problem and len(block) < until and (step := self._file.read(READ_BYTES)):
                block += step
        except (OSError, EOFError, ValueError) as error:
            self.problem = f"not read to its end: {error}"
            block += _read_in_bytes(self._range, self.offset + len(block))
        return bytes(block)

    @property
    def is_open_ended(self) -> bool:
        """True if the file is read to its end, wherever that is."""
        return self._end == _NO_END

    @property
    def is_past_end(self) -> bool:
        return self.offset >= self._end

    @property
    def scan_end(self) -> int:
        """End of the complete lines that start in the range."""
        complete = len(self.data) if self.is_complete else self.data.rfind(b"\n") + 1
        if complete == 0 and self.is_full:
            complete = len(self.data)
        return min(complete, self._end - self.offset)

    @property
    def is_full(self) -> bool:
        return len(self.data) > RECORD_MEMORY_BYTES

    def drop(self, size: int) -> None:
        self._skips_line = self._skips_line or (0 < size == len(self.data) and not self.data.endswith(b"\n"))
        self.data = self.data[size:]
        self.offset += size
