"""Looks are counted as a simple count would, and what is put together does not depend on how."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.explain.scan.templates import Looks, Place, RangeLooks, counted

_LOOKS = st.lists(st.sampled_from([0, 1, 2, 3, 1 << 20, (1 << 62) - 1]) | st.integers(0, (1 << 62) - 1), max_size=60)


@settings(max_examples=200, deadline=None)
@given(_LOOKS, st.booleans())
def test_each_look_is_told_once_with_its_first_record_and_how_often_it_is(told: list[int], compiled: bool) -> None:
    often = Counter(told)
    expected = [(look, told.index(look), often[look]) for look in dict.fromkeys(told)]
    assert counted(np.array(told, np.int64), compiled=compiled) == expected


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), max_size=12), min_size=1, max_size=6), st.data())
def test_however_ranges_are_put_together_it_is_the_same(ranges: list[list[int]], data: st.DataObject) -> None:
    """Of each range the three commonest are told, so that some are told of one and not of another."""
    apart = [_put_together([(number, one)]) for number, one in enumerate(ranges)]
    at_once = _put_together(list(enumerate(ranges)))
    assert at_once.often.total() + at_once.others == sum(map(len, ranges))
    one_by_one = Looks()
    for one in data.draw(st.permutations(apart)):
        one_by_one.add(one)
    assert one_by_one == at_once


def _put_together(ranges: list[tuple[int, list[int]]]) -> Looks:
    found = Looks()
    for number, told in ranges:
        of_range = RangeLooks(found, room=3)
        for at in range(0, len(told), 5):  # in blocks
            block = counted(np.array(told[at : at + 5], np.int64), compiled=False)
            of_range.add(block, lambda record, number=number, at=at: Place(number, at + record, "text"))  # type: ignore[misc]
        of_range.close()
    return found
