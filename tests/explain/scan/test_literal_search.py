"""Literals are found where a simple search finds them: compiled or not, in pieces of any length."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.explain.library import library
from holdfast.explain.scan import literal_automaton
from holdfast.explain.scan.literal_search import CUT_FROM_BYTES, Hits, search
from holdfast.explain.scan.record_scan import Mode, sweep

WORDS = ["ab", "abc", "bca", "c", "cab"]
TABLE = literal_automaton.compiled([word.encode() for word in WORDS])


def _found(text: str, pieces: list[tuple[int, int]], *, compiled: bool) -> list[tuple[int, int]]:
    begins, ends = (np.array([piece[side] for piece in pieces], np.int64) for side in (0, 1))
    hits = search(text.encode(), begins, ends, TABLE, compiled=compiled)
    return list(zip(hits.ends.tolist(), hits.literals.tolist(), strict=True))


def _expected(text: str, pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order; of those that end together, the longest first."""
    found = [
        (match.start() + len(word), -len(word), number)
        for number, word in enumerate(WORDS)
        for match in re.finditer(f"(?={word})", text)
        if any(begin <= match.start() and match.start() + len(word) <= end for begin, end in pieces)
    ]
    return [(end, number) for end, _, number in sorted(found)]


@settings(max_examples=200, deadline=None)
@given(st.text("abc\n", min_size=1, max_size=200), st.booleans(), st.booleans())
def test_literals_are_found_wherever_they_stand_overlapping_or_not(text: str, long: bool, compiled: bool) -> None:
    text *= CUT_FROM_BYTES // len(text) + 1 if long else 1
    whole = [(0, len(text))]
    assert _found(text, whole, compiled=compiled) == _expected(text, whole)


@settings(max_examples=100, deadline=None)
@given(st.text("abc\n", min_size=1, max_size=300), st.integers(1, CUT_FROM_BYTES // 100), st.data(), st.booleans())
def test_only_what_is_in_the_pieces_is_found(text: str, times: int, data: st.DataObject, compiled: bool) -> None:
    text *= times
    lines = [0, *(at + 1 for at, letter in enumerate(text) if letter == "\n")]
    cuts = sorted(data.draw(st.sets(st.sampled_from(lines), max_size=6)))
    pieces = list(zip(cuts[::2], cuts[1::2], strict=False))
    assert _found(text, pieces, compiled=compiled) == _expected(text, pieces)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_piece_that_is_one_long_line_is_searched_to_its_end(compiled: bool) -> None:
    text = "x" * (2 * CUT_FROM_BYTES) + "cab"
    assert _found(text, [(0, len(text))], compiled=compiled) == _expected(text, [(0, len(text))])


def test_more_literals_than_bytes_are_all_found() -> None:
    """A user's own may be as short as they like."""
    table = literal_automaton.compiled([b"a", b"aa", b"aaa", b"aaaa"])
    size = 10_000
    begins, ends = np.array([0]), np.array([size])
    found = search(b"a" * size, begins, ends, table, compiled=True)
    assert len(found.ends) == 4 * size - (1 + 2 + 3)


def _in_a_log(data: bytes, *words: bytes) -> Hits:
    known, table = library().formats, literal_automaton.compiled(words)
    swept = sweep(data, len(data), Mode.LOG, known.shapes(Mode.LOG), wrappers=known.wrappers, compiled=False)
    return search(data, swept.piece_begins, swept.piece_ends, table, compiled=False)


def test_a_literal_may_stand_in_what_a_record_begins_with() -> None:
    found = _in_a_log(b'{"event": "leading"}\n2016-01-19 13:13:09,418 - WARN  [x] - y\n', b'"event', b",418 - W")
    assert found.literals.tolist() == [0, 1]


def test_frames_of_a_stack_trace_are_not_searched_and_all_else_is() -> None:
    frame = b"\tat org.a.Session.expired(Session.java:7)\n"
    data = b"2016-01-19 13:13:09,418 - WARN  [x] - expired\n" + frame + b"Caused by: expired\n" + frame * 2 + b"expired\n"
    found = _in_a_log(data, b"expired")
    assert found.ends.tolist() == [place for place in (45, 106, len(data) - 1)]
