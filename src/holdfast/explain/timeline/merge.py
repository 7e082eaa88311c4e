"""Merge the scans of all ranges: per file, with line numbers from 1."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.explain.event import LogEvent
from holdfast.explain.gc_pause import gc_disabled
from holdfast.explain.inputs import InputFile
from holdfast.explain.range_scan import RangeScan, TaskScan
from holdfast.explain.scan.error_lines import ErrorLines
from holdfast.explain.scan.event_budget import EventMerger
from holdfast.explain.scan.record_scan import FileMode
from holdfast.explain.scan.templates import LogTemplate, TemplateTotals


@dataclass(frozen=True, slots=True)
class ScanCounts:
    bytes: int = 0
    lines: int = 0
    records: int = 0
    events: int = 0
    """Events, including those that are only counted."""
    unparsed_lines: int = 0
    """Lines that belong to no record."""


@dataclass(frozen=True, slots=True)
class MergedScan:
    """Everything that was read from all files."""

    files: tuple[str, ...]
    counts: ScanCounts
    counts_by_file: tuple[ScanCounts, ...]
    events: tuple[LogEvent, ...]
    """Events in order of files and lines."""
    dropped: Counter[tuple[int, str, int]]
    """(file, kind, minute) → events that are neither kept nor repeat a kept one."""
    templates: tuple[LogTemplate, ...]
    """Most frequent first. Their records and `uncounted_records` add up to all records."""
    uncounted_records: int
    problems: tuple[str, ...]
    """Sentences about input that was not read completely."""
    errors: ErrorLines = field(default_factory=ErrorLines)


@gc_disabled()
def merge_scans(inputs: list[InputFile], scans: Sequence[TaskScan]) -> MergedScan:
    templates = TemplateTotals()
    for task in scans:
        templates.merge(task.templates)
    counts = [ScanCounts() for _ in inputs]
    has_record = [False] * len(inputs)
    merger, errors = EventMerger(), ErrorLines()
    problems = [f"{one.name}: {one.problem}" for one in inputs if one.problem]
    ranges = [one for task in scans for one in task.ranges]
    for one in sorted(ranges, key=lambda scan: (scan.range.file, scan.range.begin)):
        file, before = one.range.file, counts[one.range.file]
        for range_events in (one.record_events,) if has_record[file] else (one.lead_events, one.record_events):
            merger.add(file, range_events, before.lines + 1)
        errors.merge(one.errors, before.lines + 1)
        counts[file] = _add_range(before, one, has_record=has_record[file])
        has_record[file] |= one.has_record
        if one.problem:
            problems.append(f"{inputs[file].name}: {one.problem}")
    events, dropped = merger.close()
    return MergedScan(
        tuple(one.name for one in inputs),
        _sum(counts),
        tuple(counts),
        events,
        dropped,
        templates.by_frequency(),
        templates.uncounted_records,
        tuple(problems),
        errors,
    )


def _add_range(before: ScanCounts, one: RangeScan, *, has_record: bool) -> ScanCounts:
    """Add the counts of a range. If the file has an earlier record, the range's lead lines and events belong to it."""
    lead_lines = 0 if has_record else one.lead_lines
    plain_lines = one.lines if one.mode is FileMode.PLAIN else 0
    return ScanCounts(
        bytes=before.bytes + one.bytes,
        lines=before.lines + one.lines,
        records=before.records + one.records,
        events=before.events + one.record_events.total + (0 if has_record else one.lead_events.total),
        unparsed_lines=before.unparsed_lines + (plain_lines or lead_lines + one.stray_lines),
    )


def _sum(counts: Iterable[ScanCounts]) -> ScanCounts:
    total = ScanCounts()
    for one in counts:
        total = ScanCounts(*(getattr(total, name) + getattr(one, name) for name in ScanCounts.__slots__))
    return total
