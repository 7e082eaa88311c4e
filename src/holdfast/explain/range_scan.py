"""Ranges of files, read in blocks: their counts, their events, and what their records look like.

A record belongs to the range that its first byte is in, and so does a line; whoever owns a record reads on after the end for
what belongs to it. What comes back is bounded: so many events of a kind in a minute, and so many looks; the rest is counted.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO

from holdfast.explain.inputs import opened
from holdfast.explain.library import Library
from holdfast.explain.scan.block import SAMPLE_BYTES, Findings, findings, is_utf_16, mode_of
from holdfast.explain.scan.event_budget import NOTHING_TOLD, Said, Told
from holdfast.explain.scan.event_matcher import MATCHED_BYTES_MAX, RECORD_BYTES_MAX
from holdfast.explain.scan.ranges import Range
from holdfast.explain.scan.record_scan import Mode
from holdfast.explain.scan.templates import Looks, RangeLooks

BLOCK_BYTES = 1024 * 1024
"""Read, swept and searched while it is in a processor's own cache."""
STEP_BYTES = 64 * 1024
LONG_BYTES = 16 * 1024 * 1024
"""A record or a line that is longer is not kept together."""
PROSE_BYTES_MAX = 64 * 1024 * 1024
"""What is longer was not written by a person."""
_NO_END = 1 << 62


@dataclass(slots=True)
class Scanned:
    """What a range has. Lines are counted from the range's own beginning, and from 0."""

    range: Range
    mode: Mode
    bytes: int = 0
    lines: int = 0
    lead_lines: int = 0
    stray_lines: int = 0
    records: int = 0
    begun: bool = False
    """A record begins in it."""
    lead: Told = NOTHING_TOLD
    """What is said before that: it counts if no record was begun before this range, either."""
    own: Told = NOTHING_TOLD
    opened: bool = False
    trouble: str = ""
    """Why it was not read to its end, or not as a log."""


@dataclass(frozen=True, slots=True)
class Haul:
    """What a task brings back."""

    ranges: tuple[Scanned, ...]
    looks: Looks


def scan(ranges: Iterable[Range], library: Library, *, compiled: bool) -> Haul:
    looks = Looks()
    in_order = sorted(ranges, key=lambda range: (range.file, range.begin))
    return Haul(tuple([_of_range(range, library, looks, compiled) for range in in_order]), looks)


def _of_range(range: Range, library: Library, looks: Looks, compiled: bool) -> Scanned:
    reading = _Reading(range, library, looks, compiled)
    reading.run()
    if reading.scanned.trouble and range.compression and not reading.scanned.lines:
        reading = _Reading(range._replace(compression=""), library, looks, compiled)  # it only begins as if it were compressed
        reading.run()
    return reading.close()


class _Reading:
    """Of one range."""

    def __init__(self, range: Range, library: Library, looks: Looks, compiled: bool) -> None:
        self.scanned = Scanned(range, Mode.PLAIN)
        self._library = library
        self._compiled = compiled
        self._lead = Said(range.room)
        self._own = Said(range.room)
        self._looks = RangeLooks(looks, range.room)

    def run(self) -> None:
        range, scanned = self.scanned.range, self.scanned
        try:
            _check_same(range)
            with opened(range.path, range.compression) as file:
                scanned.opened = True
                sample = file.read(SAMPLE_BYTES)
                long = not range.compression and file.seek(0, os.SEEK_END) > PROSE_BYTES_MAX
                scanned.mode = mode_of(sample, self._library, compiled=self._compiled)
                if scanned.mode is Mode.PROSE and long:
                    scanned.mode = Mode.LOG  # of a program that prints as well
                elif scanned.mode is Mode.PROSE:
                    if range.begin:
                        return  # what a line of prose is depends on all before it: the first range has them all
                    range = range._replace(end=_NO_END)
                if not range.compression:
                    self._read(_Window(file, range))
                else:
                    with opened(range.path, range.compression) as anew:
                        self._read(_Window(anew, range))
            if not range.begin and not scanned.trouble and is_utf_16(sample):
                scanned.trouble = "this is UTF-16, in which no log lines are found: make it UTF-8 first"
        except (OSError, EOFError, ValueError) as error:
            scanned.trouble = f"{'not read to its end' if scanned.opened else 'cannot be read'}: {error}"

    def close(self) -> Scanned:
        self.scanned.lead = self._lead.close()
        self.scanned.own = self._own.close()
        self._looks.close()
        return self.scanned

    def _read(self, window: "_Window") -> None:
        scanned = self.scanned
        while not window.over and not window.outside:
            window.fill()
            if window.until <= 0:
                continue  # a very long line
            hold = not window.over and not window.long
            found = findings(
                window.data, window.until, scanned.mode, self._library,
                file=scanned.range.file, offset=window.offset, line=scanned.lines, compiled=self._compiled, hold_last=hold,
            )  # fmt: skip
            if found.end > 0:  # else it is a very long record
                self._add(found)
                window.drop(found.end)
        scanned.bytes = window.offset if window.open_ended else scanned.range.end - scanned.range.begin
        scanned.trouble = window.trouble

    def _add(self, found: Findings) -> None:
        scanned = self.scanned
        if not scanned.begun:  # else they belong to the record before
            scanned.lead_lines += found.lead_lines
            for event in found.lead_events:
                self._lead.add(event)
        for event in found.events:
            self._own.add(event)
        self._looks.add(found.looks, found.place)
        scanned.lines += found.lines
        scanned.stray_lines += found.stray_lines
        scanned.records += found.records
        scanned.begun = scanned.begun or found.begun


def _check_same(range: Range) -> None:
    if range.beginning:
        with opened(range.path, "") as file:
            if file.read(len(range.beginning)) != range.beginning:
                raise OSError("there is another file of that name")


class _Window:
    """What is in memory of a file. It begins where a line does."""

    def __init__(self, file: IO[bytes], range: Range) -> None:
        self._file = file
        self._compressed = bool(range.compression)
        self._end = range.end if not range.compression else _NO_END
        self._within_a_line = range.begin > 0
        """Then it is read from one byte before the range on, which may be the end of a line."""
        self.offset = max(range.begin - 1, 0)
        self.data = b""
        self.over = False
        """Nothing more is needed."""
        self.trouble = ""

    def fill(self) -> None:
        before = len(self.data)
        self.data = self._more()
        block = len(self.data) - before
        if self._within_a_line:
            newline = self.data.find(b"\n")
            self._within_a_line = newline < 0
            self.drop(newline + 1 or len(self.data))
        self.over = block < BLOCK_BYTES or self.offset + len(self.data) >= self._end + RECORD_BYTES_MAX + MATCHED_BYTES_MAX

    def _more(self) -> bytes:
        """What there is, and a block after it."""
        if not self._compressed:
            left = self._end + RECORD_BYTES_MAX + MATCHED_BYTES_MAX - self.offset - len(self.data)
            self._file.seek(self.offset)  # what there is is little, as a rule: to read it again is faster than to copy the rest
            return self._file.read(len(self.data) + min(BLOCK_BYTES, left))
        block = bytearray(self.data)  # in small steps: of one that fails, nothing comes
        try:
            until = len(block) + BLOCK_BYTES
            while not self.trouble and len(block) < until and (step := self._file.read(STEP_BYTES)):
                block += step
        except (OSError, EOFError, ValueError) as error:
            self.trouble = f"not read to its end: {error}"
        return bytes(block)

    @property
    def open_ended(self) -> bool:
        """It is read as far as it goes."""
        return self._end == _NO_END

    @property
    def outside(self) -> bool:
        return self.offset >= self._end

    @property
    def until(self) -> int:
        """The end of what can be looked at: whole lines, that begin in the range."""
        whole = len(self.data) if self.over else self.data.rfind(b"\n") + 1
        if whole == 0 and self.long:
            whole = len(self.data)
        return min(whole, self._end - self.offset)

    @property
    def long(self) -> bool:
        return len(self.data) > LONG_BYTES

    def drop(self, size: int) -> None:
        self._within_a_line = self._within_a_line or (0 < size == len(self.data) and not self.data.endswith(b"\n"))
        self.data = self.data[size:]
        self.offset += size
