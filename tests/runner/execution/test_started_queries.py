"""Merging of a driver's started queries into the record that the checkpoint keeps."""

from dataclasses import replace

from holdfast.checkpoint import KnownQueries, KnownQuery
from holdfast.driver_protocol.query_record import StartedQuery
from holdfast.runner.execution.started_queries import is_worth_saving, merge_started_queries

QUERY = StartedQuery(label="words", location="/c/query-1/", name="words", format="parquet", path="/out")


def test_query_is_recorded_with_its_location_and_its_last_batch() -> None:
    known = merge_started_queries(KnownQueries(), [QUERY], {"words": 7, "other": 9})
    assert known.queries == (KnownQuery("/c/query-1", "words", "parquet", "/out", 7),)


def test_query_without_progress_keeps_the_batch_that_is_already_recorded() -> None:
    known = merge_started_queries(KnownQueries(), [QUERY], {"words": 7})
    assert merge_started_queries(known, [QUERY], {}) == known


def test_query_without_a_durable_checkpoint_is_recorded_without_a_batch() -> None:
    in_memory = replace(QUERY, location="", format="memory", path="")
    known = merge_started_queries(KnownQueries(), [in_memory], {"words": 7})
    assert known.queries == (KnownQuery("", "words", "memory"),)


def test_new_query_and_first_batch_are_worth_saving_but_later_batches_are_not() -> None:
    started = merge_started_queries(KnownQueries(), [QUERY], {})
    first = merge_started_queries(started, [QUERY], {"words": 0})
    later = merge_started_queries(first, [QUERY], {"words": 900})
    assert is_worth_saving(None, KnownQueries())
    assert is_worth_saving(KnownQueries(), started)
    assert is_worth_saving(started, first)
    assert later != first and not is_worth_saving(first, later)
