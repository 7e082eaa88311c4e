"""Schema files that the metadata of an operator names: where they are decides whether Spark continues."""

import dataclasses
import json
import struct

import pytest

from holdfast.checkpoint import Finding, judge_findings
from holdfast.checkpoint.examination import examine
from holdfast.checkpoint.file_tree import ELSEWHERE, HERE, MISSING
from tests.harness.checkpoint_trees import (
    LONG_KEY_SCHEMA,
    Files,
    build_file_tree,
    checkpoint_files,
    schema_file_of_format_3,
    transform_state,
)

OWN = "file:/s/j2/state/0/_stateSchema/default/0_5a92"
OTHER = "file:/s/j1/state/0/_stateSchema/default/0_5a92"
WITH_BAD_ENCODER = schema_file_of_format_3("{}\v")
WITH_BAD_TYPE = schema_file_of_format_3("{}").replace(b"long", b",ong")
JOIN, TRANSFORM = "symmetricHashJoin", "transformWithStateInPySparkExec"


def findings(files: Files, named: dict[str, str]) -> tuple[Finding, ...]:
    return examine(dataclasses.replace(build_file_tree(files), named_files=named)).findings


def checkpoint(path: str, operator: str = TRANSFORM) -> Files:
    return {**checkpoint_files(2, committed=2), **transform_state(path, operator, version=3)}


@pytest.mark.parametrize("operator", [TRANSFORM, JOIN, "laterOperator"])
def test_schema_file_of_the_checkpoint_itself_is_no_finding(operator: str) -> None:
    assert findings(checkpoint(OWN, operator), {OWN: HERE}) == ()


@pytest.mark.parametrize(
    ("operator", "verdict"),
    [(TRANSFORM, "damaged"), ("transformWithStateExec", "damaged"), (JOIN, "whole"), ("laterOperator", "unknown")],
)
def test_missing_schema_file_is_judged_by_what_the_operator_does(operator: str, verdict: str) -> None:
    (found,) = findings(checkpoint(OTHER, operator), {OTHER: MISSING})
    assert judge_findings((found,)) == verdict
    assert found.file == "state/0/_metadata/v2/0" and OTHER in found.problem
    assert "copied or moved from file:/s/j1" in found.problem and found.has_copy
    assert found.spark == ("StateSchemaMetadata.createStateSchemaMetadata" if verdict == "damaged" else "")


def test_missing_schema_file_without_a_copy_has_no_advice_about_a_move() -> None:
    files = {path: data for path, data in checkpoint(OWN).items() if "_stateSchema" not in path}
    (found,) = findings(files, {OWN: MISSING})
    assert found.harms and found.problem == f"names {OWN}, which does not exist" and not found.has_copy


def test_schema_file_of_another_checkpoint_is_a_remark() -> None:
    (found,) = findings(checkpoint(OTHER), {OTHER: ELSEWHERE})
    assert found.kind == "remark" and "a file of another checkpoint" in found.problem


def test_schema_file_that_cannot_be_seen_is_a_doubt() -> None:
    (found,) = findings(checkpoint("s3a://b/x"), {})
    assert found.kind == "unknown"


def test_only_the_metadata_that_the_next_batch_reads_counts() -> None:
    later = {path.replace("v2/0", "v2/7"): data for path, data in transform_state(OTHER, TRANSFORM, version=3).items()}
    assert findings({**later, **checkpoint(OWN)}, {OWN: HERE, OTHER: MISSING}) == ()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "damaged"),
        (b"\0\2v3\0\0", "damaged"),
        (b"\0\2v9", "unknown"),
        (WITH_BAD_ENCODER, "damaged"),
        (WITH_BAD_TYPE, "damaged"),
    ],
)
@pytest.mark.parametrize("operator", [TRANSFORM, JOIN])
def test_unreadable_schema_file_is_damage_if_spark_reads_it(data: bytes, kind: str, operator: str) -> None:
    files = {**checkpoint(OWN, operator), "state/0/_stateSchema/default/0_5a92": data}
    (found,) = findings(files, {OWN: HERE})
    assert (found.kind, found.file) == (kind, "state/0/_stateSchema/default/0_5a92")
    (copied, *_) = findings(files, {OWN: ELSEWHERE})
    assert copied.kind == "unknown"
    other = {**checkpoint(OWN, "laterOperator"), "state/0/_stateSchema/default/0_5a92": data}
    assert [found.kind for found in findings(other, {OWN: HERE})] == ["unknown"]


def test_first_batch_does_not_read_the_schema_files_that_its_metadata_names() -> None:
    files = {**checkpoint_files(0), **transform_state(OTHER, TRANSFORM, version=0)}
    assert findings(files, {OTHER: MISSING}) == ()


@pytest.mark.parametrize("type", ["decimal(10,0)", "interval day to second", "string collate UTF8_LCASE", "timestamp_ntz"])
def test_schema_with_a_type_that_spark_knows_is_no_finding(type: str) -> None:
    schema = schema_file_of_format_3("{}").replace(b'"type":"long"', f'"type":"{type}"'.encode(), 1)
    size, new_size = (struct.pack(">H", len(LONG_KEY_SCHEMA) + more) for more in (0, len(type) - len("long")))
    sized = schema.replace(size, new_size, 1)
    assert findings({**checkpoint(OWN), "state/0/_stateSchema/default/0_5a92": sized}, {OWN: HERE}) == ()


@pytest.mark.parametrize("stores", [None, 7, [7], [{}], [{"stateSchemaFilePaths": "x"}], [{"stateSchemaFilePaths": [7]}]])
def test_metadata_that_names_no_schema_file_is_no_finding(stores: object) -> None:
    value = {"operatorInfo": {"operatorId": 0, "operatorName": TRANSFORM}, "stateStoreInfo": stores}
    files = {**checkpoint(OWN), "state/0/_metadata/v2/0": f"v2\n{json.dumps(value)}".encode()}
    assert findings(files, {}) == ()
