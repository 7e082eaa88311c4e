"""Whatever bytes somebody writes into a znode: they never cause anything but one of two errors."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.cluster_records import BeatRecord, EpochRecord, NodeRecord
from holdfast.model.codec import SCHEMA, Garbage, NewerSchema, decode, encode
from holdfast.model.identifiers import Epoch, NodeId

KINDS = (EpochRecord, BeatRecord, NodeRecord)
FIELDS = ("schema", "leader", "contender", "epoch", "wall_s", "slots", "address", "version", "newest_schema")

huge = st.integers(min_value=300, max_value=4000).map(lambda digits: 10**digits)
"""Whole numbers for JSON, and too large for a float."""
scalars = st.none() | st.booleans() | st.integers() | huge | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
almost_records = st.dictionaries(st.sampled_from(FIELDS), values).map(lambda fields: fields | {"schema": SCHEMA} | fields)
encodings = st.sampled_from(["utf-8", "utf-16", "utf-32", "latin-1"])
names = st.text()
records = (
    st.builds(EpochRecord, leader=names.map(NodeId), contender=names)
    | st.builds(BeatRecord, leader=names.map(NodeId), epoch=st.integers().map(Epoch), wall_s=st.floats(allow_nan=False))
    | st.builds(NodeRecord, slots=st.integers(), address=names, version=names, newest_schema=st.integers())
)
spoiled = st.tuples(records, st.sampled_from(FIELDS), values).map(
    lambda parts: json.loads(encode(parts[0])) | {parts[1]: parts[2]}
)
anything = (
    st.binary()
    | values.map(lambda value: json.dumps(value).encode())
    | spoiled.map(lambda fields: json.dumps(fields).encode())
    | st.tuples(almost_records, encodings).map(lambda pair: json.dumps(pair[0]).encode(pair[1]))
    | st.text().map(lambda text: text.encode(errors="surrogatepass"))
    | st.integers(min_value=1, max_value=10_000).map(lambda digits: b'{"schema":' + b"9" * digits + b"}")
    | st.integers(min_value=1, max_value=10_000).map(lambda depth: b'{"schema":1,"leader":' * depth)
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=200, deadline=None)
@given(data=anything)
def test_decoding_never_raises_anything_but_garbage_or_newer_schema(kind: type[EpochRecord], data: bytes) -> None:
    try:
        record = decode(kind, data, where="/z")
    except (Garbage, NewerSchema):
        return
    # What was read is written back as the same: nothing is lost between two leaders. (By bytes: NaN equals nothing.)
    assert encode(decode(kind, encode(record), where="/z")) == encode(record)


@settings(max_examples=200, deadline=None)
@given(record=records)
def test_a_record_is_never_changed_by_writing_and_reading_it(record: EpochRecord | BeatRecord | NodeRecord) -> None:
    assert decode(type(record), encode(record), where="/z") == record


@settings(max_examples=100, deadline=None)
@given(record=records, schema=st.integers(min_value=SCHEMA + 1, max_value=10**6))
def test_a_later_schema_is_never_taken_for_garbage(record: EpochRecord | BeatRecord | NodeRecord, schema: int) -> None:
    for kind in KINDS:
        with pytest.raises(NewerSchema):
            decode(kind, encode(record, schema=schema), where="/z")
