"""Template counts equal a simple count, and merging does not depend on the order."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.explain.scan.templates import FirstRecord, RangeTemplates, TemplateTotals, count_templates

_HASHES = st.lists(st.sampled_from([0, 1, 2, 3, 1 << 20, (1 << 62) - 1]) | st.integers(0, (1 << 62) - 1), max_size=60)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(_HASHES, st.booleans())
def test_each_template_is_returned_once_with_first_record_and_count(hashes: list[int], compiled: bool) -> None:
    counts = Counter(hashes)
    expected = [(template, hashes.index(template), counts[template]) for template in dict.fromkeys(hashes)]
    assert count_templates(np.array(hashes, np.int64), compiled=compiled) == expected


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), max_size=12), min_size=1, max_size=6), st.data())
def test_totals_do_not_depend_on_merge_order(ranges: list[list[int]], data: st.DataObject) -> None:
    """Each range keeps its three most frequent templates, so that ranges keep different ones."""
    apart = [_collect([(number, one)]) for number, one in enumerate(ranges)]
    together = _collect(list(enumerate(ranges)))
    assert together.counts.total() + together.uncounted_records == sum(map(len, ranges))
    merged = TemplateTotals()
    for one in data.draw(st.permutations(apart)):
        merged.merge(one)
    assert merged == together


def _collect(ranges: list[tuple[int, list[int]]]) -> TemplateTotals:
    found = TemplateTotals()
    for number, hashes in ranges:
        of_range = RangeTemplates(found, limit=3)
        for at in range(0, len(hashes), 5):  # in blocks
            block = count_templates(np.array(hashes[at : at + 5], np.int64), compiled=False)
            of_range.add(block, lambda record, number=number, at=at: FirstRecord(number, at + record, "text"))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        of_range.close()
    return found
