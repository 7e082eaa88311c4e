"""Records in control files: the reader gets the writer's values, and malformed records never raise."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.driver_protocol.control_files import FILE_BYTES_MAX
from holdfast.driver_protocol.exit_record import STOPPED, ExitRecord, parse_exit_record
from holdfast.driver_protocol.kafka_status import NOTE_MAX, KafkaStatus, parse_kafka_status
from holdfast.driver_protocol.location_claim import parse_claim_answers, parse_claim_requests
from holdfast.driver_protocol.progress_record import (
    ProgressRecord,
    QueryProgress,
    limit_progress_size,
    parse_progress,
    parse_query_batches,
)
from holdfast.driver_protocol.query_record import BATCH_S_MAX, StartedQuery, parse_started_queries, started_queries_to_json

QUERY = StartedQuery(label="words", location="/c/query-1", name="words", format="parquet", path="/out")
ENTRY = started_queries_to_json([QUERY])["queries"][0]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_exit_record_survives_the_round_trip() -> None:
    record = ExitRecord("failed", "out of luck", "SOME_CONDITION", "ValueError", started=False, java_status=-9)
    assert parse_exit_record(record.to_json()) == record
    assert parse_exit_record(STOPPED.to_json()) == STOPPED


def test_invalid_fields_of_an_exit_record_are_dropped() -> None:
    fields = {"how": "failed", "reason": "two\nlines", "condition": 7, "exception": None, "started": "yes", "java_status": True}
    assert parse_exit_record(fields) == ExitRecord("failed", "two lines", "", "", started=None, java_status=None)


@pytest.mark.parametrize("fields", [None, 7, [], {}, {"how": "ended"}, {"how": ["failed"]}])
def test_exit_record_without_a_valid_kind_is_none(fields: Any) -> None:
    assert parse_exit_record(fields) is None


def test_started_queries_survive_the_round_trip() -> None:
    other = replace(QUERY, label="id-2", location="", name="")
    assert parse_started_queries(started_queries_to_json([QUERY, other])) == [QUERY, other]


@pytest.mark.parametrize(
    ("reported", "batch_s"),
    [(300, 300.0), (12.5, 12.5), (10**400, BATCH_S_MAX), (-5, 0.0), (float("nan"), 0.0), ("5 minutes", 0.0), (None, 0.0)],
)
def test_batch_duration_of_a_started_query_is_bounded(reported: Any, batch_s: float) -> None:
    (query,) = parse_started_queries({"queries": [{**ENTRY, "batch_s": reported, "note": "two\nlines"}]})
    assert (query.batch_s, query.note) == (batch_s, "two lines")


def test_started_query_of_an_earlier_release_has_neither_batch_duration_nor_note() -> None:
    earlier = {key: value for key, value in ENTRY.items() if key not in ("batch_s", "note")}
    assert parse_started_queries({"queries": [earlier]}) == [QUERY]


@pytest.mark.parametrize(
    "queries",
    [None, 7, [7], [{}], [{**ENTRY, "location": 7}], [{**ENTRY, "path": "x" * 9000}], [{**ENTRY, "name": "\ud800"}]],
)
def test_malformed_started_queries_are_dropped(queries: Any) -> None:
    assert parse_started_queries({"queries": queries}) == []


def test_progress_survives_the_round_trip() -> None:
    record = ProgressRecord(7, 2.5, ({"topic": {"0": 12}}, None), (QueryProgress("words", 7, 2.5), QueryProgress("idle")))
    assert parse_progress(record.to_json()) == replace(record, queries=())
    assert parse_query_batches(record.to_json()) == {"words": 7}


@pytest.mark.parametrize("batch_id", [None, "7", -1, True, 2**70, 1.5])
def test_invalid_batch_of_a_query_is_dropped(batch_id: Any) -> None:
    assert parse_query_batches({"queries": [{"name": "words", "batch_id": batch_id}]}) == {}


@pytest.mark.parametrize(
    "fields", [{"batch_id": "x"}, {"batch_id": []}, {"rows_per_second": {}}, {"offsets": None}, {"offsets": 7}]
)
def test_progress_with_an_invalid_value_is_none(fields: dict[str, Any]) -> None:
    assert parse_progress(fields) is None


def test_kafka_status_survives_the_round_trip() -> None:
    status = KafkaStatus("Kafka: brokers are unreachable", ({"topic": "t", "lag": 3},))
    assert parse_kafka_status(status.to_json()) == status


def test_malformed_kafka_status_is_empty_and_a_long_note_is_cut() -> None:
    assert parse_kafka_status({"note": 7, "lag": "x"}) == KafkaStatus()
    assert parse_kafka_status({"note": "two\nlines"}) == KafkaStatus()
    assert len(parse_kafka_status({"note": "x" * 5000}).note) == NOTE_MAX


def test_offsets_that_are_too_large_are_replaced_by_a_sentence_and_the_rest_is_kept() -> None:
    many = {"topic": {str(partition): 10**12 + partition for partition in range(11_000)}}
    record = ProgressRecord(
        batch_id=7,
        rows_per_second=1.5,
        offsets=(many, {"small": {"0": 5}}),
        offset_queries=("a", "b"),
        queries=(QueryProgress("a", 7, 1.5),),
    )
    assert len(json.dumps(record.to_json())) > FILE_BYTES_MAX
    limited = limit_progress_size(record, FILE_BYTES_MAX)
    assert len(json.dumps(limited.to_json())) <= FILE_BYTES_MAX
    size = len(json.dumps(many))
    assert limited == replace(record, offsets=(f"omitted, because its size is {size} bytes", {"small": {"0": 5}}))
    assert limit_progress_size(limited, FILE_BYTES_MAX) is limited


def test_progress_with_too_many_small_offsets_keeps_batch_and_rate() -> None:
    record = ProgressRecord(batch_id=7, rows_per_second=1.5, offsets=tuple(range(1000)), offset_queries=("q",) * 1000)
    limited = limit_progress_size(record, 1000)
    assert (limited.batch_id, limited.rows_per_second, limited.offsets) == (7, 1.5, ())


FIELDS = ["how", "reason", "queries", "batch_id", "offsets", "note", "lag", "requests", "answers"]


@pytest.mark.slow
@given(fields=st.dictionaries(st.sampled_from(FIELDS), anything))
def test_parsers_never_raise(fields: dict[str, Any]) -> None:
    parse_exit_record(fields)
    parse_started_queries(fields)
    parse_progress(fields)
    parse_query_batches(fields)
    parse_kafka_status(fields)
    parse_claim_requests(fields)
    parse_claim_answers(fields)
