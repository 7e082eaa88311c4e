"""Messages between a driver and its Kafka monitor."""

import json

import pytest

from holdfast.driver_protocol.kafka_messages import (
    DiagnoseFailure,
    FailureDiagnosis,
    MonitorAnswer,
    MonitoredQuery,
    MonitorRequest,
    ParkRequired,
    QueryRejected,
    StartAllowed,
    WatchQuery,
    encode_message,
    parse_answer,
    parse_request,
)

QUERY = MonitoredQuery("/c/query-1", "words", ({"number": 0, "folder": 0, "options": {"subscribe": "t"}},))


@pytest.mark.parametrize(
    "request_", [WatchQuery(QUERY, before_start=True), WatchQuery(QUERY, before_start=False), DiagnoseFailure()]
)
def test_request_survives_the_round_trip(request_: MonitorRequest) -> None:
    assert parse_request(encode_message(request_)) == request_


@pytest.mark.parametrize(
    "answer",
    [
        StartAllowed("/c/query-1"),
        QueryRejected("/c/query-1", "unsafe options"),
        QueryRejected("/c/query-1", "no client library", node_lacks_dependency=True),
        ParkRequired("/c/query-1", "data is lost"),
        FailureDiagnosis("wait", "brokers are unreachable"),
    ],
)
def test_answer_survives_the_round_trip(answer: MonitorAnswer) -> None:
    assert parse_answer(encode_message(answer)) == answer


def test_messages_keep_the_format_of_earlier_versions() -> None:
    assert json.loads(encode_message(WatchQuery(QUERY, before_start=True))) == {
        "guard": {"location": "/c/query-1", "label": "words", "sources": list(QUERY.sources)},
        "gate": True,
    }
    assert json.loads(encode_message(DiagnoseFailure())) == {"why": True}
    assert json.loads(encode_message(StartAllowed("/c"))) == {"go": "/c"}
    assert json.loads(encode_message(ParkRequired("/c", "lost"))) == {"park": "/c", "sentence": "lost"}
    assert json.loads(encode_message(QueryRejected("/c", "no"))) == {"refused": "/c", "sentence": "no"}
    assert json.loads(encode_message(FailureDiagnosis("go", ""))) == {"why": {"verdict": "go", "sentence": ""}}


@pytest.mark.parametrize("line", [b"", b"7", b"[]", b"{}", b"{", b'{"why": true}', b'{"unknown": 1}'])
def test_line_that_is_no_answer_is_ignored(line: bytes) -> None:
    assert parse_answer(line) is None
