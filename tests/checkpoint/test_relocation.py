"""Paths that a copied checkpoint names: those inside the old root move with it, all others stay."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.checkpoint.relocation.relocation import LINE_BYTES_MAX, Relocation
from holdfast.checkpoint.relocation.spark_path import SparkPath, parse_spark_path

METADATA = "query-1/state/0/_metadata/v2/3"
SCHEMA = "query-1/state/0/_stateSchema/default/0_5a92"
LATER_SCHEMA = "query-1/state/0/_stateSchema/default/3_18a5"
SOURCE_LOG = "query-1/sources/0/7"
SINK_LOG = "warehouse/words/_spark_metadata/9.compact"


def root(location: str) -> SparkPath:
    path = parse_spark_path(location)
    assert path is not None
    return path


def relocate(path: str, data: bytes, old: str, new: str, *, files: tuple[str, ...] = (), part: int = 1 << 20) -> bytes:
    rewriter = Relocation((root(old),), root(new), files).open_rewriter(path)
    assert rewriter is not None
    parts = [data[start : start + part] for start in range(0, len(data), part)]
    result = b"".join([rewriter.feed(each) for each in parts]) + rewriter.finish()
    assert rewriter.has_changed == (result != data)
    return result


def metadata_file(*schemas: str) -> bytes:
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2, "stateSchemaFilePaths": list(schemas)}
    info = {"operatorId": 0, "operatorName": "transformWithStateInPySparkExec"}
    value = {"operatorInfo": info, "stateStoreInfo": [store], "operatorPropertiesJson": '{"timeMode":"NoTime"}'}
    return f"v2\n{json.dumps(value, ensure_ascii=False, separators=(',', ':'))}".encode()


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("/s/checkpoints/j1", "/s/checkpoints/j2", "file:/s/checkpoints/{}/"),
        ("/s/checkpoints/j1", "/s/checkpoints/j2", "file:///s/checkpoints/{}/"),
        ("/mein Speicher/ä%41/j1", "/mein Speicher/ä%41/j2", "file:/mein Speicher/ä%41/{}/"),
        ("s3a://b/checkpoints/j1", "s3a://b/checkpoints/j2", "s3a://b/checkpoints/{}/"),
        ("s3a://b/checkpoints/j1", "s3a://b/checkpoints/j2", "s3://b/checkpoints/{}/"),
        ("hdfs://ns/checkpoints/j1", "hdfs://ns/checkpoints/j2", "hdfs://ns/checkpoints/{}/"),
        ("hdfs:///checkpoints/j1", "hdfs:///checkpoints/j2", "hdfs://name:8020/checkpoints/{}/"),
    ],
)
def test_schema_files_in_the_old_root_are_named_in_the_new_root(old: str, new: str, named: str) -> None:
    before, after = named.format("j1"), named.format("j2")
    data = metadata_file(f"{before}{SCHEMA}", f"{before}{LATER_SCHEMA}")
    assert relocate(METADATA, data, old, new) == metadata_file(f"{after}{SCHEMA}", f"{after}{LATER_SCHEMA}")


@pytest.mark.parametrize(
    "named",
    [
        "file:/s/checkpoints/j11/query-1/state/0/_stateSchema/default/0_5a92",
        "file:/elsewhere/s/checkpoints/j1/query-1/state/0/_stateSchema/default/0_5a92",
        "s3a://b/s/checkpoints/j1/query-1/state/0/_stateSchema/default/0_5a92",
        "file:/s/checkpoints/j1",
        "not a path",
        "",
    ],
)
def test_paths_outside_of_the_old_root_stay(named: str) -> None:
    data = metadata_file(named)
    assert relocate(METADATA, data, "/s/checkpoints/j1", "/s/checkpoints/j2") == data


def test_single_schema_file_of_early_formats_is_named_in_the_new_root() -> None:
    def data(job: str) -> bytes:
        return f'v2\n{{"stateStoreInfo":[{{"stateSchemaFilePath":"file:/s/{job}/{SCHEMA}"}}]}}'.encode()

    assert relocate(METADATA, data("j1"), "/s/j1", "/s/j2") == data("j2")


@pytest.mark.parametrize("named", ["file:/backup/x/", "s3a://old-bucket/checkpoints/j0/query-1/"])
def test_copied_schema_file_is_named_in_the_new_root_whatever_its_root_was(named: str) -> None:
    data = metadata_file(f"{named}state/0/_stateSchema/default/0_5a92")
    moved = relocate(METADATA, data, "/s/checkpoints/j1", "/s/checkpoints/j2", files=(SCHEMA,))
    assert moved == metadata_file(f"file:/s/checkpoints/j2/{SCHEMA}")
    assert relocate(METADATA, moved, "/s/checkpoints/j1", "/s/checkpoints/j2", files=(SCHEMA,)) == moved


def test_schema_file_of_another_operator_is_no_copy() -> None:
    data = metadata_file("file:/backup/state/10/_stateSchema/default/0_5a92")
    files = ("query-1/state/0/_stateSchema/default/0_5a92",)
    assert relocate(METADATA, data, "/s/checkpoints/j1", "/s/checkpoints/j2", files=files) == data


def log_file(*paths: str) -> bytes:
    entries = [json.dumps({"path": path, "timestamp": 1, "batchId": 7}, separators=(",", ":")) for path in paths]
    return "\n".join(["v1", *entries]).encode()


@pytest.mark.parametrize("path", [SOURCE_LOG, SINK_LOG])
def test_logs_of_data_inside_of_the_checkpoint_name_the_copy(path: str) -> None:
    data = log_file("file:///s/j%201/in/a%20b.json", "file:///in/c.json", "file:///s/j%2012/in/d.json")
    moved = log_file("file:///s/j%202%25/in/a%20b.json", "file:///in/c.json", "file:///s/j%2012/in/d.json")
    assert relocate(path, data, "/s/j 1", "/s/j 2%") == moved


@pytest.mark.parametrize(
    "path",
    [
        "query-1/offsets/3",
        "query-1/commits/3",
        "query-1/metadata",
        "query-1/state/0/_metadata/metadata",
        "query-1/state/0/_metadata/v2/.3.crc",
        "query-1/state/0/1/3.changelog",
        SCHEMA,
        "query-1/sources/0/.7.crc",
    ],
)
def test_other_files_are_copied_as_they_are(path: str) -> None:
    assert Relocation((root("/s/j1"),), root("/s/j2"), ()).open_rewriter(path) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"v2",
        b"v2\n",
        b"v2\n{",
        b'v2\n{"stateStoreInfo":7}',
        b'v2\n{"stateStoreInfo":[7,{"stateSchemaFilePaths":{}},{"stateSchemaFilePaths":[7]}]}',
        b'v2\n["file:/s/checkpoints/j1/x"]',
        b"\xff\xfe{file:/s/checkpoints/j1/x}",
        b'v2\n{"a":"\\ud800","stateStoreInfo":[{"stateSchemaFilePaths":["file:/s/checkpoints/j1/x"]}]}',
        b"{" * 100_000,
        b"\0" * 5000,
    ],
)
def test_content_that_spark_did_not_write_is_copied_as_it_is(data: bytes) -> None:
    assert relocate(METADATA, data, "/s/checkpoints/j1", "/s/checkpoints/j2") == data


def test_lines_longer_than_the_limit_are_copied_and_not_held() -> None:
    rewriter = Relocation((root("/s/j1"),), root("/s/j2"), ()).open_rewriter(SOURCE_LOG)
    assert rewriter is not None
    entry = log_file("file:///s/j1/a").partition(b"\n")[2]
    sent = returned = b""
    for _ in range(LINE_BYTES_MAX // 1_000_000 + 2):
        sent += b"{" * 1_000_000
        returned += rewriter.feed(b"{" * 1_000_000)
    assert len(sent) - len(returned) < 1_000_000
    returned += rewriter.feed(b"\n" + entry) + rewriter.finish()
    assert returned == sent + b"\n" + entry.replace(b"/j1/", b"/j2/")


@given(
    st.lists(st.sampled_from(["file:///s/j1/é b", "file:///in/x", "file:///s/j1/" + "y" * 50]), max_size=8), st.integers(1, 99)
)
def test_result_does_not_depend_on_how_the_content_is_split(paths: list[str], part: int) -> None:
    data = log_file(*paths)
    whole = relocate(SOURCE_LOG, data, "/s/j1", "/s/j2")
    assert relocate(SOURCE_LOG, data, "/s/j1", "/s/j2", part=part) == whole
    assert b"/s/j1" not in whole
