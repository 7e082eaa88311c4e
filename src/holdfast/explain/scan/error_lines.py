"""Lines that report errors: counts, the first line and the most frequent templates, per range and merged.

The result of a range is bounded. Merging gives the same result in any order of the ranges.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from holdfast.explain.library.log_format import RecordHeader
from holdfast.explain.scan.block import Block
from holdfast.explain.scan.error_classifier import (
    ErrorKind,
    OtherErrors,
    classify_record,
    find_other_errors,
    records_with_hints,
)
from holdfast.explain.scan.record_scan import FileMode
from holdfast.explain.scan.templates import TemplateCount, TemplateHash, count_templates

DATED_TEMPLATES_MAX = 1000
"""Templates of a range that are checked for a valid time. Reading a header takes microseconds, and odd logs have many
templates."""
ERROR_TEMPLATES_MAX = 50
"""Templates of error lines that a range returns."""


class ErrorLine(NamedTuple):
    """Error lines of one template: the first one, and their number."""

    kind: ErrorKind
    template: TemplateHash
    total: int
    file: int
    offset: int
    line: int
    """Line number: from 0 within a range, from 1 within a file."""
    text: str
    format: str
    """Clock of the record, as in `LogEvent.format`."""
    ms: int | None
    """Time of the record since 1970, if the record states time and date."""

    @property
    def position(self) -> tuple[int, int]:
        return self.file, self.offset


@dataclass(slots=True)
class ErrorLines:
    """Error lines of one range, or of several merged ranges."""

    counts: Counter[ErrorKind] = field(default_factory=Counter)
    """Lines of each kind, including those of templates that are not kept."""
    first: list[ErrorLine] = field(default_factory=list)
    """First error line of each range that has one."""
    templates: dict[tuple[ErrorKind, TemplateHash], ErrorLine] = field(default_factory=dict)
    """Most frequent templates of each range."""
    undated_records: int = 0
    """Records whose template starts with no valid time, among the first `DATED_TEMPLATES_MAX` templates of each range."""

    def merge(self, other: "ErrorLines", lines_before: int = 0) -> None:
        """Merge the lines of another range. `lines_before` is added to its line numbers."""
        self.counts.update(other.counts)
        self.undated_records += other.undated_records
        self.first += [one._replace(line=one.line + lines_before) for one in other.first]
        for key, in_range in other.templates.items():
            one = in_range._replace(line=in_range.line + lines_before)
            known = self.templates.get(key, one._replace(total=0))
            earlier = min(known, one, key=lambda line: line.position)
            self.templates[key] = earlier._replace(total=known.total + one.total)

    def most_frequent(self) -> list[ErrorLine]:
        return sorted(self.templates.values(), key=lambda one: (-one.total, one.position))


class RangeErrorLines:
    """Error lines of one range, collected from its start to its end.

    A template is classified once per range, by its first line. Ranges share no state: which ranges share a task depends on
    the cluster, and the result must not."""

    def __init__(self, file: int, record_counts: Mapping[TemplateHash, int]) -> None:
        """`record_counts` is the number of records of each template of the range; it grows while the range is read."""
        self._file = file
        self._record_counts = record_counts
        self._record_errors: list[ErrorLine] = []
        self._undated: list[TemplateHash] = []
        self._other_counts: dict[TemplateHash, int] = {}
        self._other_errors: list[ErrorLine] = []

    def add(self, block: Block, new: Sequence[TemplateCount], *, compiled: bool) -> None:
        """Add a block. `new` has the templates of its records that are new in this range."""
        seen = len(self._record_counts) - len(new) + len(self._other_counts)
        dated = max(0, DATED_TEMPLATES_MAX - seen)
        for template, record, _ in new[:dated]:
            self._add_record(block, template, record)
        rest = {record: template for template, record, _ in new[dated:]}
        for record in records_with_hints(block, list(rest), compiled=compiled) if rest else ():
            self._add_record(block, rest[record], record)
        self._add_others(block, compiled)

    def _add_record(self, block: Block, template: TemplateHash, record: int) -> None:
        start = int(block.records.starts[record])
        header, text = block.header(record), block.first_line(start)
        if block.mode is FileMode.WRAPPED:
            text = block.library.formats.unwrap(text)[1]
        if header.timestamp is None:
            self._undated.append(template)
        if kind := classify_record(header, text):
            line = int(block.records.start_lines[record])
            self._record_errors.append(self._error_line(block, kind, template, header, start, line))

    def _add_others(self, block: Block, compiled: bool) -> None:
        wrappers = block.library.formats.wrapper_table
        errors = find_other_errors(block.data, block.records, block.mode, wrappers, compiled=compiled)
        for template, index, count in count_templates(errors.templates, compiled=compiled) if len(errors.templates) else ():
            if template not in self._other_counts:
                self._other_errors.append(self._other_error(block, errors, index))
            self._other_counts[template] = self._other_counts.get(template, 0) + count

    def _other_error(self, block: Block, errors: OtherErrors, index: int) -> ErrorLine:
        """Describe an error line that starts no record. It has the time of its record, if that is in this block."""
        start, template = int(errors.starts[index]), int(errors.templates[index])
        record = int(np.searchsorted(block.records.starts, start, "right")) - 1
        return self._error_line(block, ErrorKind(template & 3), template, block.header(record), start, int(errors.lines[index]))

    def _error_line(
        self, block: Block, kind: ErrorKind, template: TemplateHash, header: RecordHeader, start: int, line: int
    ) -> ErrorLine:
        timestamp = header.timestamp
        ms = timestamp.ms if timestamp is not None and timestamp.dated else None
        text, format = block.shown_line(start), header.format if block.mode is FileMode.PROSE else ""
        return ErrorLine(kind, template, 0, self._file, block.offset + start, block.line + line, text, format, ms)

    def close(self) -> ErrorLines:
        lines = [one._replace(total=self._record_counts[one.template]) for one in self._record_errors]
        lines += [one._replace(total=self._other_counts[one.template]) for one in self._other_errors]
        closed = ErrorLines(undated_records=sum(self._record_counts[template] for template in self._undated))
        for one in lines:
            closed.counts[one.kind] += one.total
        if lines:
            closed.first = [min(lines, key=lambda one: one.position)]
        lines.sort(key=lambda one: (-one.total, one.position))
        closed.templates = {(one.kind, one.template): one for one in lines[:ERROR_TEMPLATES_MAX]}
        return closed
