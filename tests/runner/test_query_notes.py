"""What a driver says of its queries is the user's: garbage is left out, and what is known is not forgotten."""

from typing import Any

import pytest

from holdfast.checkpoint import Known, KnownQuery
from holdfast.runner.query_notes import is_news, with_notes

NOTE = {"label": "words", "location": "/c/query-1/", "name": "words", "format": "parquet", "path": "/out"}


def test_a_query_is_known_by_where_its_checkpoint_is_and_how_far_it_is() -> None:
    progress = {"queries": [{"name": "words", "batch_id": 7}, {"name": "other", "batch_id": 9}]}
    known = with_notes(Known(), {"queries": [NOTE]}, progress)
    assert known.queries == (KnownQuery("/c/query-1", "words", "parquet", "/out", 7),)
    assert with_notes(known, {"queries": [NOTE]}, None) == known


def test_a_query_without_a_lasting_checkpoint_is_known_and_has_no_batch_to_go_on_from() -> None:
    memory = {**NOTE, "location": "", "format": "memory", "path": ""}
    known = with_notes(Known(), {"queries": [memory]}, {"queries": [{"name": "words", "batch_id": 7}]})
    assert known.queries == (KnownQuery("", "words", "memory"),)


def test_only_what_is_new_is_worth_a_write() -> None:
    started = with_notes(Known(), {"queries": [NOTE]}, None)
    first = with_notes(started, {"queries": [NOTE]}, {"queries": [{"name": "words", "batch_id": 0}]})
    later = with_notes(first, {"queries": [NOTE]}, {"queries": [{"name": "words", "batch_id": 900}]})
    assert is_news(None, Known()) and is_news(Known(), started) and is_news(started, first)
    assert later != first and not is_news(first, later)


@pytest.mark.parametrize(
    "queries",
    [
        None,
        7,
        [7],
        [{}],
        [{**NOTE, "location": 7}],
        [{**NOTE, "path": "x" * 9000}],
        [{**NOTE, "name": "\ud800"}],
    ],
)
def test_garbage_is_left_out(queries: Any) -> None:
    assert with_notes(Known(), {"queries": queries}, {"queries": queries}) == Known()


@pytest.mark.parametrize("batch_id", [None, "7", -1, True, 2**70, 1.5])
def test_a_batch_that_is_no_number_is_left_out(batch_id: Any) -> None:
    known = with_notes(Known(), {"queries": [NOTE]}, {"queries": [{"name": "words", "batch_id": batch_id}]})
    assert known.queries[0].batch_id is None
