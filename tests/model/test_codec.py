"""Codec of znode records: round trip, malformed bytes, newer schemas."""

import json

import pytest

from holdfast.model.cluster_records import HeartbeatRecord, NodeRecord
from holdfast.model.codec import OLDEST_SCHEMA, SCHEMA, MalformedRecord, NewerSchema, decode, encode
from holdfast.model.epoch_record import EpochRecord
from holdfast.model.identifiers import Epoch, NodeId

EPOCH = EpochRecord(leader=NodeId("n1"), contender="c-0a1b-0000000003")
BEAT = HeartbeatRecord(leader=NodeId("n1"), epoch=Epoch(4), wall_s=1_790_000_000.125)
NODE = NodeRecord(slots=4, address="http://127.0.0.1:7070", version="0.1.0", newest_schema=1)


@pytest.mark.parametrize("record", [EPOCH, BEAT, NODE], ids=lambda record: type(record).__name__)
def test_encoded_record_is_decoded_unchanged(record: EpochRecord | HeartbeatRecord | NodeRecord) -> None:
    assert decode(type(record), encode(record), where="/z") == record


def test_record_is_one_json_object_with_its_schema() -> None:
    assert json.loads(encode(EPOCH)) == {"schema": OLDEST_SCHEMA, "leader": "n1", "contender": "c-0a1b-0000000003"}


def test_record_can_be_encoded_in_an_older_schema() -> None:
    assert json.loads(encode(EPOCH, schema=0))["schema"] == 0
    assert decode(EpochRecord, encode(EPOCH, schema=0), where="/z") == EPOCH


def test_integer_is_accepted_for_a_float_field() -> None:
    assert decode(HeartbeatRecord, b'{"schema":1,"leader":"n","epoch":1,"wall_s":5}', where="/z").wall_s == 5


def test_unknown_fields_are_ignored() -> None:
    assert decode(EpochRecord, b'{"schema":1,"leader":"n","contender":"c","colour":"red"}', where="/z").contender == "c"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"7",
        b'"text"',
        b"[1]",
        b"{}",
        b"{",
        b"\x00\xff\xfe",
        b'{"schema":null}',
        b'{"schema":"1","leader":"n","contender":"c"}',
        b'{"schema":1.0,"leader":"n","contender":"c"}',
        b'{"schema":true,"leader":"n","contender":"c"}',
        b'{"schema":1,"leader":"n"}',
        b'{"schema":1,"leader":null,"contender":"c"}',
        b'{"schema":1,"leader":7,"contender":"c"}',
        b'{"schema":1,"leader":["n"],"contender":"c"}',
        b"9" * 5000,
        b"[" * 100_000,
    ],
    ids=range(18),
)
def test_malformed_bytes_raise_an_error_that_names_their_origin(data: bytes) -> None:
    with pytest.raises(MalformedRecord, match=r"^/holdfast/c/epoch holds ") as error:
        decode(EpochRecord, data, where="/holdfast/c/epoch")
    assert len(str(error.value)) < 250, "the message contains only an excerpt"


def test_number_too_large_for_a_float_is_malformed() -> None:
    data = b'{"schema":1,"leader":"n","epoch":1,"wall_s":1' + b"0" * 400 + b"}"
    with pytest.raises(MalformedRecord, match="field 'wall_s' is missing or has the wrong type"):
        decode(HeartbeatRecord, data, where="/z")


@pytest.mark.parametrize("field", ["slots", "newest_schema"])
@pytest.mark.parametrize("value", [True, 1.5, "4", None])
def test_other_type_for_an_integer_field_is_malformed(field: str, value: object) -> None:
    fields = json.loads(encode(NODE)) | {field: value}
    with pytest.raises(MalformedRecord, match=f"field '{field}' is missing or has the wrong type"):
        decode(NodeRecord, json.dumps(fields).encode(), where="/z")


def test_later_schema_is_reported_as_newer_whatever_its_fields_are() -> None:
    data = json.dumps({"schema": SCHEMA + 1, "leader": {"id": "n9"}}).encode()
    with pytest.raises(
        NewerSchema, match=r"^/z was written by a later Holdfast \(schema 3\); this version reads up to schema 2"
    ):
        decode(EpochRecord, data, where="/z")
