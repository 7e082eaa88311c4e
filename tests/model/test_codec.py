"""Records in znodes: what is written is read back, and what is not a record is told from what is too new to read."""

import json

import pytest

from holdfast.model.cluster_records import BeatRecord, EpochRecord, NodeRecord
from holdfast.model.codec import SCHEMA, Garbage, NewerSchema, decode, encode
from holdfast.model.identifiers import Epoch, NodeId

EPOCH = EpochRecord(leader=NodeId("n1"), contender="c-0a1b-0000000003")
BEAT = BeatRecord(leader=NodeId("n1"), epoch=Epoch(4), wall_s=1_790_000_000.125)
NODE = NodeRecord(slots=4, address="http://127.0.0.1:7070", version="0.1.0", newest_schema=1)


@pytest.mark.parametrize("record", [EPOCH, BEAT, NODE], ids=lambda record: type(record).__name__)
def test_what_is_written_is_read_back(record: EpochRecord | BeatRecord | NodeRecord) -> None:
    assert decode(type(record), encode(record), where="/z") == record


def test_a_record_is_one_json_object_that_names_its_schema() -> None:
    assert json.loads(encode(EPOCH)) == {"schema": SCHEMA, "leader": "n1", "contender": "c-0a1b-0000000003"}


def test_a_record_may_be_written_in_an_older_schema_for_older_nodes() -> None:
    assert json.loads(encode(EPOCH, schema=0))["schema"] == 0
    assert decode(EpochRecord, encode(EPOCH, schema=0), where="/z") == EPOCH


def test_a_time_written_without_decimals_is_still_a_time() -> None:
    assert decode(BeatRecord, b'{"schema":1,"leader":"n","epoch":1,"wall_s":5}', where="/z").wall_s == 5


def test_fields_that_this_version_does_not_know_are_left_alone() -> None:
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
def test_bytes_that_are_no_record_are_garbage_and_the_sentence_says_where_they_are(data: bytes) -> None:
    with pytest.raises(Garbage, match=r"^/holdfast/c/epoch holds ") as refused:
        decode(EpochRecord, data, where="/holdfast/c/epoch")
    assert len(str(refused.value)) < 250, "an excerpt, not a megabyte"


def test_a_number_that_is_too_large_for_a_time_is_garbage() -> None:
    data = b'{"schema":1,"leader":"n","epoch":1,"wall_s":1' + b"0" * 400 + b"}"
    with pytest.raises(Garbage, match="without a usable 'wall_s'"):
        decode(BeatRecord, data, where="/z")


@pytest.mark.parametrize("field", ["slots", "newest_schema"])
@pytest.mark.parametrize("value", [True, 1.5, "4", None])
def test_a_number_that_is_not_a_whole_number_is_garbage(field: str, value: object) -> None:
    fields = json.loads(encode(NODE)) | {field: value}
    with pytest.raises(Garbage, match=f"without a usable '{field}'"):
        decode(NodeRecord, json.dumps(fields).encode(), where="/z")


def test_a_later_schema_is_not_garbage_whatever_its_fields_are() -> None:
    data = json.dumps({"schema": SCHEMA + 1, "leader": {"id": "n9"}}).encode()
    with pytest.raises(NewerSchema, match=r"^/z was written by a later Holdfast \(schema 2, this one knows 1\)"):
        decode(EpochRecord, data, where="/z")
