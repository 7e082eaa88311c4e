"""Count log templates: records that differ only in numbers, ids and other variable parts.

A template is known by a hash (see `record_scan`). Each range returns its most frequent templates; further records are counted.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.explain.scan import jit

TEMPLATES_PER_RANGE_MAX = 500
"""Distinct templates kept per range; records of any further template are only counted."""

TemplateHash = int
TemplateCount = tuple[TemplateHash, int, int]
"""(template, index of its first record in the block, number of records). A plain tuple: some logs have one per record."""


class FirstRecord(NamedTuple):
    """Position of a template's first record. Orders by file, then by offset."""

    file: int
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class LogTemplate:
    """Template with its number of records and the first of them."""

    template: TemplateHash
    count: int
    file: int
    first_offset: int
    text: str


def count_templates(hashes: npt.NDArray[np.int64], *, compiled: bool) -> list[TemplateCount]:
    """Return each distinct template with its first record and its number of records, in order of first occurrence."""
    table = np.zeros(1 << (2 * len(hashes)).bit_length(), np.int64)
    distinct, first, counts = (np.zeros(len(hashes), np.int64) for _ in range(3))
    total = np.zeros(1, np.int64)
    jit.run(_count, compiled, b"", (hashes, table), len(hashes), len(table) - 1, distinct, first, counts, total)
    return list(zip(*(column[: total[0]].tolist() for column in (distinct, first, counts)), strict=True))


def _count(
    data: Any, hashes: Any, table: Any, records: int, mask: int, distinct: Any, first: Any, counts: Any, total: Any
) -> None:  # fmt: skip  # one item per line is harder to read
    """Fill an open-addressing hash table that is at most half full. A slot holds 1 + the template's index; 0 is empty."""
    templates = 0
    for record in range(records):
        template = hashes[record]
        slot = (template ^ (template >> 20)) & mask
        while table[slot] > 0 and distinct[table[slot] - 1] != template:
            slot = (slot + 1) & mask
        if table[slot] == 0:
            distinct[templates] = template
            first[templates] = record
            templates += 1
            table[slot] = templates
        counts[table[slot] - 1] += 1
    total[0] = templates


@dataclass(slots=True)
class TemplateTotals:
    """Template counts over many ranges. Merging is commutative, so the order of ranges does not matter."""

    counts: Counter[TemplateHash] = field(default_factory=Counter)
    first: dict[TemplateHash, FirstRecord] = field(default_factory=dict)
    uncounted_records: int = 0
    """Records of templates beyond the limit of their range."""

    def merge(self, other: "TemplateTotals") -> None:
        self.uncounted_records += other.uncounted_records
        for template, count in other.counts.items():
            self.counts[template] += count
            first = other.first[template]
            if template not in self.first or first < self.first[template]:
                self.first[template] = first

    def by_frequency(self) -> tuple[LogTemplate, ...]:
        """Return the templates by number of records, most frequent first."""
        templates = [LogTemplate(template, count, *self.first[template]) for template, count in self.counts.items()]
        return tuple(sorted(templates, key=lambda one: (-one.count, one.file, one.first_offset)))


class RangeTemplates:
    """Templates of one range, collected from its start to its end and then merged into the totals."""

    def __init__(self, totals: TemplateTotals, limit: int) -> None:
        self._totals = totals
        """Templates of earlier ranges, whose first record is already known."""
        self._limit = min(limit, TEMPLATES_PER_RANGE_MAX)
        self._first: dict[TemplateHash, FirstRecord] = {}
        self.counts: dict[TemplateHash, int] = {}

    def add(self, counted: Iterable[TemplateCount], locate: Callable[[int], FirstRecord]) -> list[TemplateCount]:
        """Add the templates of one block and return those that are new in this range.

        `locate` maps the index of a record in the block to its position."""
        new = []
        for one in counted:
            template, first_record, records = one
            known = self.counts.get(template)
            if known is not None:
                self.counts[template] = known + records
                continue
            self.counts[template] = records
            new.append(one)
            if template not in self._totals.first:
                self._first[template] = locate(first_record)
        return new

    def close(self) -> None:
        """Merge the most frequent templates into the totals; ties keep the earlier template."""
        ranked = list(self.counts)
        if len(ranked) > self._limit:
            ranked.sort(key=lambda template: -self.counts[template])
        for template in ranked[: self._limit]:
            self._totals.counts[template] += self.counts[template]
            if template in self._first:
                self._totals.first[template] = self._first[template]
        self._totals.uncounted_records += sum(self.counts[template] for template in ranked[self._limit :])
