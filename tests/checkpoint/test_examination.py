"""Findings in hand-made checkpoints, file by file. `test_fuzz` uses checkpoints that Spark wrote."""

import pytest

from holdfast.checkpoint import Finding
from holdfast.checkpoint.examination import examine
from holdfast.checkpoint.file_sink import examine_sink_log
from holdfast.checkpoint.finding import DAMAGED, REMARK, UNKNOWN
from tests.harness.checkpoint_trees import (
    EMPTY_KEY_SCHEMA,
    LIMIT_KEY_SCHEMA,
    LONG_KEY_SCHEMA,
    Files,
    build_file_tree,
    checkpoint_files,
    commit_file,
    offsets_file,
    operator_state,
    sink_log_files,
    source_log_file,
    with_state,
)


def find_all(files: Files) -> tuple[Finding, ...]:
    return examine(build_file_tree(files)).findings


def find_harmful(files: Files) -> list[str]:
    return [str(finding) for finding in find_all(files) if finding.harms]


def without(files: Files, *paths: str) -> Files:
    return {path: data for path, data in files.items() if path not in paths}


@pytest.mark.parametrize(
    "files", [checkpoint_files(5), checkpoint_files(5, committed=5), checkpoint_files(0), checkpoint_files(0, committed=0), {}]
)
def test_undamaged_checkpoint_has_no_findings(files: Files) -> None:
    assert find_all(files) == ()


def test_query_summary_follows_the_logs() -> None:
    query = examine(build_file_tree(with_state(checkpoint_files(5), 5)), "query-1")
    assert (query.place, query.planned, query.committed) == ("query-1", 5, 4)
    assert [batch.number for batch in query.batches] == [0, 1, 2, 3, 4, 5]
    assert query.batches[-1].committed_wall_s is None and query.batches[-1].offsets == ('{"logOffset": 5}',)
    (operator,) = query.operators
    assert (operator.partitions, operator.version_min, operator.version_max, operator.bytes) == (2, 1, 5, 10)


TORN = [
    b"",
    b"v1",
    b"v1\n",
    b"v1\n{",
    b"\0" * 40,
    b"noise\xff\xfe",
    offsets_file(5)[:-1],
    offsets_file(5).rpartition(b"\n")[0],
]


@pytest.mark.parametrize("data", TORN)
def test_torn_newest_offsets_may_be_set_aside_only_before_their_commit(data: bytes) -> None:
    (finding,) = find_all({**checkpoint_files(5), "offsets/5": data})
    assert (finding.file, finding.torn_batch, finding.harms) == ("offsets/5", 5, True)
    (finding,) = find_all({**checkpoint_files(5, committed=5), "offsets/5": data})
    assert (finding.torn_batch, finding.harms) == (None, True)


@pytest.mark.parametrize("data", [b"", b"v1\n{", b"\0" * 40, b"noise\xff\xfe"])
def test_damage_to_files_that_no_batch_needs_is_harmless(data: bytes) -> None:
    for path in ("offsets/2", "commits/2"):
        (finding,) = find_all({**checkpoint_files(5), path: data})
        assert (finding.file, finding.harms) == (path, False)


@pytest.mark.parametrize("data", [b"", b"v1\n{", b"\0" * 29, b'v1\n{"nextBatchWatermarkMs":"x"}', b"v0\n{}", b"vx\n{}"])
def test_newest_commit_that_spark_cannot_read_is_damage(data: bytes) -> None:
    assert find_harmful({**checkpoint_files(5), "commits/4": data})[0].startswith("commits/4 ")


@pytest.mark.parametrize("data", [b"v1", b"v1\n", b"v1\n{}", b'v1\n{"nextBatchWatermarkMs":0}\n{}', b"v2\n{}"])
def test_commit_that_spark_accepts_is_no_damage(data: bytes) -> None:
    assert find_harmful({**checkpoint_files(5), "commits/4": data}) == []


@pytest.mark.parametrize("data", [b"v4\n{}", b"v9", b'v1\n"text"'])
def test_commit_of_an_unknown_format_cannot_be_judged(data: bytes) -> None:
    (finding,) = [each for each in find_all({**checkpoint_files(5), "commits/4": data}) if each.kind == UNKNOWN]
    assert finding.file == "commits/4"
    assert find_harmful({**checkpoint_files(5), "commits/4": data}) == []


@pytest.mark.parametrize("data", [b"", b"{", b'{"id":', b'{"id":""}', b"[]", b"\0" * 45, b"\xff"])
def test_torn_metadata_is_harmful(data: bytes) -> None:
    assert find_harmful({**checkpoint_files(5), "metadata": data})[0].startswith("metadata ")


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (["metadata"], "metadata is missing"),
        (["offsets/4"], "offsets/4 is missing"),
        (["offsets/5", "offsets/4"], "offsets/4 is missing, but commits/4 exists: Spark would run an earlier batch again"),
        (["sources/0/5"], "sources/0/5 is missing, but the offsets of the query name it"),
        (["sources/0/2"], "sources/0/2 is missing"),
        ([f"offsets/{batch}" for batch in range(6)], "offsets/4 is missing"),
    ],
)
def test_missing_file_is_named(missing: list[str], message: str) -> None:
    assert any(finding.startswith(message) for finding in find_harmful(without(checkpoint_files(5), *missing)))


def test_missing_commit_before_a_planned_batch_is_a_remark() -> None:
    (finding,) = find_all(without(checkpoint_files(5), "commits/4"))
    assert (finding.kind, str(finding)) == (REMARK, "commits/4 is missing, but offsets/5 exists: Spark repeats only batch 5")


def test_gap_among_old_batches_is_harmless() -> None:
    (finding,) = find_all(without(checkpoint_files(5), "offsets/1"))
    assert (finding.file, finding.harms) == ("offsets/1", False)


@pytest.mark.parametrize(
    ("path", "other"), [("offsets/5", "offsets/4"), ("offsets/5", "offsets/1"), ("offsets/4", "offsets/5")]
)
def test_offsets_of_another_batch_are_harmful(path: str, other: str) -> None:
    files = checkpoint_files(5, committed=5)
    assert find_harmful({**files, path: files[other]})


def test_commit_with_a_lower_watermark_is_a_remark() -> None:
    files = checkpoint_files(5, committed=5)
    files.update({f"offsets/{batch}": offsets_file(batch, watermark_ms=batch * 1000) for batch in range(6)})
    files.update({f"commits/{batch}": commit_file(watermark_ms=(batch + 1) * 1000) for batch in range(6)})
    assert find_harmful(files) == []
    (finding,) = find_all({**files, "commits/5": files["commits/2"]})
    assert finding.kind == REMARK and "lower watermark" in finding.problem


def test_log_of_a_file_source_must_list_its_own_batches() -> None:
    files = checkpoint_files(5)
    assert "another batch" in find_harmful({**files, "sources/0/5": source_log_file(3)})[0]
    assert find_harmful({**files, "sources/0/5": b"v1"}) == [
        "sources/0/5 ends after its version line: Spark would read these files again"
    ]
    compacted = b"\n".join([source_log_file(0), *(source_log_file(batch)[3:] for batch in (1, 2, 3))])
    assert (
        find_harmful({**without(files, *(f"sources/0/{batch}" for batch in range(4))), "sources/0/3.compact": compacted}) == []
    )


def test_log_of_another_source_may_have_any_valid_content() -> None:
    files = {**checkpoint_files(5), **{f"offsets/{batch}": offsets_file(batch, source=str(batch)) for batch in range(6)}}
    without_source_logs = {path: data for path, data in files.items() if not path.startswith("sources")}
    assert find_harmful({**without_source_logs, "sources/0/0": b"v1\n1794783642603"}) == []
    assert find_harmful({**without_source_logs, "sources/0/0": b'\0v1\n{"topic":{"0":5}}'}) == []
    assert find_harmful({**without_source_logs, "sources/0/0": b"something of its own"}) == []
    assert find_all({**without_source_logs, "sources/0/0": b"v1\n{"}) == ()
    (finding,) = find_all({**without_source_logs, "sources/0/0": b""})
    assert (finding.file, finding.kind) == ("sources/0/0", UNKNOWN)


def test_checksum_file_of_a_future_batch_is_harmful() -> None:
    files = checkpoint_files(5)
    assert find_harmful({**files, "commits/.5.crc": b"crc"})[0].startswith("commits/5 is missing, but its checksum file exists")
    assert find_harmful({**files, "offsets/.6.crc": b"crc"})[0].startswith("offsets/6 is missing")
    assert find_harmful({**files, "sources/0/.6.crc": b"crc"})[0].startswith("sources/0/6 is missing")
    assert find_harmful({**files, "commits/..5.0b1c.tmp.crc": b"crc", "commits/.2.crc": b"crc", "offsets/.x.crc": b"crc"}) == []
    assert examine_sink_log(build_file_tree({**sink_log_files(4), ".5.crc": b"crc"})).findings[0].file == "_spark_metadata/5"


def test_state_for_the_next_batch_must_be_complete() -> None:
    files = with_state(checkpoint_files(5), 5)
    assert find_harmful(files) == []
    assert find_harmful(without(files, "state/0/1/5.delta")) == ["state/0/1 has no version 5 of the state, which batch 5 needs"]
    assert find_harmful(without(files, "state/0/1/2.delta")) == ["state/0/1 has no version 2 of the state, which batch 5 needs"]
    assert find_harmful({**without(files, "state/0/1/2.delta"), "state/0/1/3.snapshot": b"x"}) == []
    incomplete = {path: data for path, data in files.items() if not path.startswith("state/0/1/")}
    assert find_harmful(incomplete) == ["state/0/1 is missing, but batch 5 needs it: the state has 2 partitions"]
    (remark,) = find_all({**files, "state/0/_metadata/metadata": b"v1\n{"})
    assert (remark.file, remark.kind) == ("state/0/_metadata/metadata", REMARK)


def test_state_of_an_uncommitted_batch_is_not_needed() -> None:
    files = with_state(checkpoint_files(5), 6)
    assert find_harmful({**files, "state/0/1/6.delta": b""}) == []


@pytest.mark.parametrize(("name", "key"), [("stateStoreSave", EMPTY_KEY_SCHEMA), ("globalLimit", LIMIT_KEY_SCHEMA)])
def test_operator_without_a_key_needs_only_partition_0(name: str, key: str) -> None:
    files = {**checkpoint_files(5), **operator_state(0, name, key, shuffle_partitions=200, partitions=1, version=5)}
    assert find_all(files) == ()
    incomplete = without(files, *(f"state/0/0/{version}.delta" for version in range(1, 6)))
    assert find_harmful(incomplete) == ["state/0/0 is missing, but batch 5 needs it: the state has 1 partition"]
    assert find_harmful(without(files, "state/0/0/3.delta")) == ["state/0/0 has no version 3 of the state, which batch 5 needs"]


@pytest.mark.parametrize("name", ["stateStoreSave", "dedupe", "sessionWindowStateStoreSaveExec", "applyInPandasWithState"])
@pytest.mark.parametrize("partition", [0, 1])
def test_operator_with_a_key_needs_every_partition(name: str, partition: int) -> None:
    files = {**checkpoint_files(5), **operator_state(0, name, LONG_KEY_SCHEMA, shuffle_partitions=2, partitions=2, version=5)}
    assert find_all(files) == ()
    incomplete = without(files, *(f"state/0/{partition}/{version}.delta" for version in range(1, 6)))
    assert find_harmful(incomplete) == [f"state/0/{partition} is missing, but batch 5 needs it: the state has 2 partitions"]


def test_partitions_are_counted_for_each_operator_of_a_query() -> None:
    limit = operator_state(0, "globalLimit", LIMIT_KEY_SCHEMA, shuffle_partitions=2, partitions=1, version=5)
    dedupe = operator_state(1, "dedupe", LONG_KEY_SCHEMA, shuffle_partitions=2, partitions=2, version=5)
    assert find_all({**checkpoint_files(5), **limit, **dedupe}) == ()
    half = operator_state(1, "dedupe", LONG_KEY_SCHEMA, shuffle_partitions=2, partitions=1, version=5)
    assert find_harmful({**checkpoint_files(5), **limit, **half}) == [
        "state/1/1 is missing, but batch 5 needs it: the state has 2 partitions"
    ]


def test_every_store_of_a_join_has_a_key() -> None:
    files = {
        **checkpoint_files(5),
        **operator_state(0, "symmetricHashJoin", LONG_KEY_SCHEMA, shuffle_partitions=2, partitions=1, version=5),
    }
    moved = {path.replace("state/0/0/", "state/0/0/left-keyToNumValues/"): data for path, data in files.items()}
    assert find_harmful(moved) == ["state/0/1 is missing, but batch 5 needs it: the state has 2 partitions"]


@pytest.mark.parametrize("schema", [None, b"", b"noise", b"\0\2v2", b"\0\2v9"])
def test_partitions_of_an_operator_without_a_readable_schema_cannot_be_judged(schema: bytes | None) -> None:
    files = {
        **checkpoint_files(5),
        **operator_state(0, "stateStoreSave", EMPTY_KEY_SCHEMA, shuffle_partitions=2, partitions=1, version=5),
    }
    path = "state/0/0/_metadata/schema"
    found = find_all(without(files, path) if schema is None else {**files, path: schema})
    assert [finding.kind for finding in found if finding.file == "state/0/1"] == [UNKNOWN]
    of_schema = [finding.kind for finding in found if finding.file == path]
    assert of_schema == ([] if schema is None else [UNKNOWN] if schema == b"\0\2v9" else [DAMAGED])


@pytest.mark.parametrize("partitions", [0, 1, 2])
def test_no_state_is_needed_before_the_first_commit(partitions: int) -> None:
    state = operator_state(0, "stateStoreSave", LONG_KEY_SCHEMA, shuffle_partitions=2, partitions=partitions, version=1)
    assert find_all({**checkpoint_files(0), **state}) == ()
    assert find_harmful({**checkpoint_files(0), **state, "state/0/_metadata/metadata": b"v1\n{"}) == []


def test_state_without_offsets_cannot_be_judged() -> None:
    state = operator_state(0, "stateStoreSave", LONG_KEY_SCHEMA, shuffle_partitions=2, partitions=1, version=1)
    (finding,) = find_all({**without(checkpoint_files(0), "offsets/0", "sources/0/0"), **state})
    assert (finding.file, finding.kind) == ("state", UNKNOWN)


def test_state_is_needed_from_the_first_commit_on() -> None:
    state = operator_state(0, "stateStoreSave", LONG_KEY_SCHEMA, shuffle_partitions=2, partitions=0, version=0)
    for planned in (0, 1):
        files = {**checkpoint_files(planned, committed=0), **state}
        assert find_harmful(files) == ["state/0/0 is missing, but batch 1 needs it: the state has 2 partitions"]


def test_sink_log_has_newest_batch_and_problems_for_readers() -> None:
    assert examine_sink_log(build_file_tree({})).newest is None
    undamaged = examine_sink_log(build_file_tree(sink_log_files(12)))
    assert (undamaged.newest, undamaged.findings) == (12, ())
    assert examine_sink_log(build_file_tree({**sink_log_files(3), "3": b"v1"})).findings == ()  # a batch that wrote nothing
    assert [str(each) for each in examine_sink_log(build_file_tree({**sink_log_files(3), "2": b""})).findings] == [
        "_spark_metadata/2 is empty"
    ]
    assert examine_sink_log(build_file_tree(without(sink_log_files(3), "2"))).findings[0].file == "_spark_metadata/2"
    compacted = {**without(sink_log_files(12), *map(str, range(10))), "9.compact": sink_log_files(9)["9"]}
    assert examine_sink_log(build_file_tree(compacted)).findings == ()
