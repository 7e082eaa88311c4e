"""Literal search finds the same hits as a simple search: compiled or not, in pieces of any length."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.explain.library import load_library
from holdfast.explain.scan import literal_automaton
from holdfast.explain.scan.literal_search import SPLIT_MIN_BYTES, LiteralHits, search_literals
from holdfast.explain.scan.record_scan import FileMode, scan_records

WORDS = ["ab", "abc", "bca", "c", "cab"]
TABLE = literal_automaton.compile_literals([word.encode() for word in WORDS])


def _search(text: str, pieces: list[tuple[int, int]], *, compiled: bool) -> list[tuple[int, int]]:
    begins, ends = (np.array([piece[side] for piece in pieces], np.int64) for side in (0, 1))
    hits = search_literals(text.encode(), begins, ends, TABLE, compiled=compiled)
    return list(zip(hits.ends.tolist(), hits.literals.tolist(), strict=True))


def _search_simply(text: str, pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the hits in order; of hits with the same end, the longest literal first."""
    found = [
        (match.start() + len(word), -len(word), number)
        for number, word in enumerate(WORDS)
        for match in re.finditer(f"(?={word})", text)
        if any(begin <= match.start() and match.start() + len(word) <= end for begin, end in pieces)
    ]
    return [(end, number) for end, _, number in sorted(found)]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.text("abc\n", min_size=1, max_size=200), st.booleans(), st.booleans())
def test_overlapping_literals_are_found(text: str, long: bool, compiled: bool) -> None:
    text *= SPLIT_MIN_BYTES // len(text) + 1 if long else 1
    whole = [(0, len(text))]
    assert _search(text, whole, compiled=compiled) == _search_simply(text, whole)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.text("abc\n", min_size=1, max_size=300), st.integers(1, SPLIT_MIN_BYTES // 100), st.data(), st.booleans())
def test_only_literals_within_the_pieces_are_found(text: str, times: int, data: st.DataObject, compiled: bool) -> None:
    text *= times
    lines = [0, *(at + 1 for at, letter in enumerate(text) if letter == "\n")]
    cuts = sorted(data.draw(st.sets(st.sampled_from(lines), max_size=6)))
    pieces = list(zip(cuts[::2], cuts[1::2], strict=False))
    assert _search(text, pieces, compiled=compiled) == _search_simply(text, pieces)


@pytest.mark.parametrize("compiled", [False, True])
def test_piece_that_is_one_long_line_is_searched_to_its_end(compiled: bool) -> None:
    text = "x" * (2 * SPLIT_MIN_BYTES) + "cab"
    assert _search(text, [(0, len(text))], compiled=compiled) == _search_simply(text, [(0, len(text))])


def test_more_hits_than_the_initial_capacity_are_found() -> None:
    """Literals in a user's library may be very short."""
    table = literal_automaton.compile_literals([b"a", b"aa", b"aaa", b"aaaa"])
    size = 10_000
    begins, ends = np.array([0]), np.array([size])
    found = search_literals(b"a" * size, begins, ends, table, compiled=True)
    assert len(found.ends) == 4 * size - (1 + 2 + 3)


def _search_log(data: bytes, *words: bytes) -> LiteralHits:
    formats, table = load_library().formats, literal_automaton.compile_literals(words)
    records = scan_records(
        data, len(data), FileMode.LOG, formats.header_table(FileMode.LOG), wrappers=formats.wrapper_table, compiled=False
    )
    return search_literals(data, records.search_begins, records.search_ends, table, compiled=False)


def test_literal_in_a_header_is_found() -> None:
    found = _search_log(b'{"event": "leading"}\n2016-01-19 13:13:09,418 - WARN  [x] - y\n', b'"event', b",418 - W")
    assert found.literals.tolist() == [0, 1]


def test_stack_frames_are_not_searched() -> None:
    frame = b"\tat org.a.Session.expired(Session.java:7)\n"
    data = b"2016-01-19 13:13:09,418 - WARN  [x] - expired\n" + frame + b"Caused by: expired\n" + frame * 2 + b"expired\n"
    found = _search_log(data, b"expired")
    assert found.ends.tolist() == [place for place in (45, 106, len(data) - 1)]
