"""Properties of the codec: arbitrary bytes in a znode cause only the two documented errors."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.cluster_records import HeartbeatRecord, NodeRecord
from holdfast.model.codec import SCHEMA, MalformedRecord, NewerSchema, decode, encode
from holdfast.model.epoch_record import EpochRecord
from holdfast.model.identifiers import Epoch, NodeId

KINDS = (EpochRecord, HeartbeatRecord, NodeRecord)
FIELDS = ("schema", "leader", "contender", "epoch", "wall_s", "slots", "address", "version", "newest_schema")

huge = st.integers(min_value=300, max_value=4000).map(lambda digits: 10**digits)
"""Integers that are valid JSON and too large for a float."""
scalars = st.none() | st.booleans() | st.integers() | huge | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
record_like_values = st.dictionaries(st.sampled_from(FIELDS), values).map(lambda fields: fields | {"schema": SCHEMA} | fields)
encodings = st.sampled_from(["utf-8", "utf-16", "utf-32", "latin-1"])
names = st.text()
records = (
    st.builds(EpochRecord, leader=names.map(NodeId), contender=names)
    | st.builds(HeartbeatRecord, leader=names.map(NodeId), epoch=st.integers().map(Epoch), wall_s=st.floats(allow_nan=False))
    | st.builds(NodeRecord, slots=st.integers(), address=names, version=names, newest_schema=st.integers())
)
modified_records = st.tuples(records, st.sampled_from(FIELDS), values).map(
    lambda parts: json.loads(encode(parts[0])) | {parts[1]: parts[2]}
)
arbitrary_bytes = (
    st.binary()
    | values.map(lambda value: json.dumps(value).encode())
    | modified_records.map(lambda fields: json.dumps(fields).encode())
    | st.tuples(record_like_values, encodings).map(lambda pair: json.dumps(pair[0]).encode(pair[1]))
    | st.text().map(lambda text: text.encode(errors="surrogatepass"))
    | st.integers(min_value=1, max_value=10_000).map(lambda digits: b'{"schema":' + b"9" * digits + b"}")
    | st.integers(min_value=1, max_value=10_000).map(lambda depth: b'{"schema":1,"leader":' * depth)
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=200, deadline=None)
@given(data=arbitrary_bytes)
def test_decoding_arbitrary_bytes_raises_only_malformed_record_or_newer_schema(kind: type[EpochRecord], data: bytes) -> None:
    try:
        record = decode(kind, data, where="/z")
    except (MalformedRecord, NewerSchema):
        return
    # Re-encoding loses nothing. The bytes are compared, because NaN is not equal to itself.
    assert encode(decode(kind, encode(record), where="/z")) == encode(record)


@settings(max_examples=200, deadline=None)
@given(record=records)
def test_round_trip_never_changes_a_record(record: EpochRecord | HeartbeatRecord | NodeRecord) -> None:
    assert decode(type(record), encode(record), where="/z") == record


@settings(max_examples=100, deadline=None)
@given(record=records, schema=st.integers(min_value=SCHEMA + 1, max_value=10**6))
def test_later_schema_is_never_reported_as_malformed(record: EpochRecord | HeartbeatRecord | NodeRecord, schema: int) -> None:
    for kind in KINDS:
        with pytest.raises(NewerSchema):
            decode(kind, encode(record, schema=schema), where="/z")
