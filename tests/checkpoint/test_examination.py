"""What is found in a checkpoint, file by file. The trees are made by hand; `test_fuzz` has those that Spark has made."""

import pytest

from holdfast.checkpoint import Finding
from holdfast.checkpoint.examination import examine
from holdfast.checkpoint.file_sink import sink_of
from tests.harness.checkpoint_trees import (
    LIMIT_KEY,
    LONG_KEY,
    NO_KEY,
    Files,
    checkpoint,
    commit,
    offsets,
    operator_state,
    read_files,
    sink,
    tree,
    with_state,
)


def found(files: Files) -> tuple[Finding, ...]:
    return examine(tree(files)).findings


def harmful(files: Files) -> list[str]:
    return [str(finding) for finding in found(files) if finding.harms]


def without(files: Files, *paths: str) -> Files:
    return {path: data for path, data in files.items() if path not in paths}


@pytest.mark.parametrize("files", [checkpoint(5), checkpoint(5, committed=5), checkpoint(0), checkpoint(0, committed=0), {}])
def test_nothing_is_found_in_a_checkpoint_that_is_whole(files: Files) -> None:
    assert found(files) == ()


def test_a_query_is_as_far_as_its_logs_say() -> None:
    query = examine(tree(with_state(checkpoint(5), 5)), "query-1")
    assert (query.place, query.planned, query.committed, query.next_batch) == ("query-1", 5, 4, 5)
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
    offsets(5)[:-1],
    offsets(5).rpartition(b"\n")[0],
    b"v9\n{}\n{}",
]


@pytest.mark.parametrize("data", TORN)
def test_the_newest_plan_may_be_set_aside_if_it_is_torn_and_was_not_committed(data: bytes) -> None:
    (finding,) = found({**checkpoint(5), "offsets/5": data})
    assert (finding.file, finding.torn_batch, finding.harms) == ("offsets/5", 5, True)
    (finding,) = found({**checkpoint(5, committed=5), "offsets/5": data})
    assert (finding.torn_batch, finding.harms) == (None, True)


@pytest.mark.parametrize("data", TORN)
def test_what_no_batch_needs_any_more_is_only_remarked(data: bytes) -> None:
    for path in ("offsets/2", "commits/2"):
        (finding,) = found({**checkpoint(5), path: data})
        assert (finding.file, finding.harms) == (path, False)


@pytest.mark.parametrize(
    "data", [b"", b"v1", b"v1\n", b"v1\n{", b"\0" * 29, b'v1\n"text"', b'v1\n{"nextBatchWatermarkMs":"x"}']
)
def test_a_torn_newest_commit_is_found_even_where_spark_takes_it(data: bytes) -> None:
    assert harmful({**checkpoint(5), "commits/4": data})[0].startswith("commits/4 ")


@pytest.mark.parametrize("data", [b"", b"{", b'{"id":', b'{"id":""}', b"[]", b"\0" * 45, b"\xff"])
def test_torn_metadata_is_found(data: bytes) -> None:
    assert harmful({**checkpoint(5), "metadata": data})[0].startswith("metadata ")


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (["metadata"], "metadata is not there"),
        (["offsets/4"], "offsets/4 is not there"),
        (["commits/4"], "commits/4 is not there"),
        (["offsets/5", "offsets/4"], "offsets/4 is not there, and commits/4 is: Spark would run an earlier batch again"),
        (["sources/0/5"], "sources/0/5 is not there: Spark would not know that those files were read"),
        (["sources/0/2"], "sources/0/2 is not there"),
        ([f"offsets/{batch}" for batch in range(6)], "offsets/4 is not there"),
    ],
)
def test_what_is_missing_is_named(missing: list[str], said: str) -> None:
    assert any(finding.startswith(said) for finding in harmful(without(checkpoint(5), *missing)))


def test_a_gap_among_old_batches_is_remarked() -> None:
    (finding,) = found(without(checkpoint(5), "offsets/1"))
    assert (finding.file, finding.harms) == ("offsets/1", False)


@pytest.mark.parametrize(
    ("path", "other"), [("offsets/5", "offsets/4"), ("offsets/5", "offsets/1"), ("offsets/4", "offsets/5")]
)
def test_the_plan_of_another_batch_is_found(path: str, other: str) -> None:
    files = checkpoint(5, committed=5)
    assert harmful({**files, path: files[other]})


def test_the_commit_of_another_batch_is_found_by_its_watermark() -> None:
    files = checkpoint(5, committed=5)
    files.update({f"offsets/{batch}": offsets(batch, watermark_ms=batch * 1000) for batch in range(6)})
    files.update({f"commits/{batch}": commit(watermark_ms=(batch + 1) * 1000) for batch in range(6)})
    assert harmful(files) == []
    assert "commit of another batch" in harmful({**files, "commits/5": files["commits/2"]})[0]


def test_the_log_of_a_file_source_must_hold_its_own_batches() -> None:
    files = checkpoint(5)
    assert "another batch" in harmful({**files, "sources/0/5": read_files(3)})[0]
    assert harmful({**files, "sources/0/5": b"v1"}) == ["sources/0/5 ends after its version"]
    compacted = b"\n".join([read_files(0), *(read_files(batch)[3:] for batch in (1, 2, 3))])
    assert harmful({**without(files, *(f"sources/0/{batch}" for batch in range(4))), "sources/0/3.compact": compacted}) == []


def test_the_log_of_any_other_source_is_not_held_to_that() -> None:
    files = {**checkpoint(5), **{f"offsets/{batch}": offsets(batch, source=str(batch)) for batch in range(6)}}
    only = {path: data for path, data in files.items() if not path.startswith("sources")}
    assert harmful({**only, "sources/0/0": b"v1\n1794783642603"}) == []
    assert harmful({**only, "sources/0/0": b'\0v1\n{"topic":{"0":5}}'}) == []
    assert harmful({**only, "sources/0/0": b"something of its own"}) == []
    assert harmful({**only, "sources/0/0": b"v1\n{"})
    assert harmful({**only, "sources/0/0": b""})


def test_checksums_that_are_left_of_a_batch_to_come_are_found_because_spark_takes_them_for_another_drivers() -> None:
    files = checkpoint(5)
    assert harmful({**files, "commits/.5.crc": b"crc"})[0].startswith("commits/5 is not there, and its checksums are")
    assert harmful({**files, "offsets/.6.crc": b"crc"})[0].startswith("offsets/6 is not there")
    assert harmful({**files, "sources/0/.6.crc": b"crc"})[0].startswith("sources/0/6 is not there")
    assert harmful({**files, "commits/..5.0b1c.tmp.crc": b"crc", "commits/.2.crc": b"crc", "offsets/.x.crc": b"crc"}) == []
    assert sink_of(tree({**sink(4), ".5.crc": b"crc"})).findings[0].file == "_spark_metadata/5"


def test_the_state_that_the_next_batch_begins_with_must_be_there() -> None:
    files = with_state(checkpoint(5), 5)
    assert harmful(files) == []
    assert harmful(without(files, "state/0/1/5.delta")) == ["state/0/1 lacks version 5 of the state, which batch 5 needs"]
    assert harmful(without(files, "state/0/1/2.delta")) == ["state/0/1 lacks version 2 of the state, which batch 5 needs"]
    assert harmful({**without(files, "state/0/1/2.delta"), "state/0/1/3.snapshot": b"x"}) == []
    assert harmful({**files, "state/0/1/4.delta": b""}) == ["state/0/1/4.delta is empty"]
    gone = {path: data for path, data in files.items() if not path.startswith("state/0/1/")}
    assert harmful(gone) == ["state/0/1 is not there, and the state has 2 partitions"]
    assert harmful({**files, "state/0/_metadata/metadata": b"v1\n{"})


def test_state_of_a_batch_that_was_not_committed_does_not_matter() -> None:
    files = with_state(checkpoint(5), 6)
    assert harmful({**files, "state/0/1/6.delta": b""}) == []


@pytest.mark.parametrize(("name", "key"), [("stateStoreSave", NO_KEY), ("globalLimit", LIMIT_KEY)])
def test_operator_without_a_key_needs_only_partition_0(name: str, key: str) -> None:
    files = {**checkpoint(5), **operator_state(0, name, key, shuffle_partitions=200, partitions=1, version=5)}
    assert found(files) == ()
    gone = without(files, *(f"state/0/0/{version}.delta" for version in range(1, 6)))
    assert harmful(gone) == ["state/0/0 is not there, and the state has 1 partitions"]
    assert harmful(without(files, "state/0/0/3.delta")) == ["state/0/0 lacks version 3 of the state, which batch 5 needs"]


@pytest.mark.parametrize("name", ["stateStoreSave", "dedupe", "sessionWindowStateStoreSaveExec", "applyInPandasWithState"])
@pytest.mark.parametrize("partition", [0, 1])
def test_operator_with_a_key_needs_every_partition(name: str, partition: int) -> None:
    files = {**checkpoint(5), **operator_state(0, name, LONG_KEY, shuffle_partitions=2, partitions=2, version=5)}
    assert found(files) == ()
    gone = without(files, *(f"state/0/{partition}/{version}.delta" for version in range(1, 6)))
    assert harmful(gone) == [f"state/0/{partition} is not there, and the state has 2 partitions"]


def test_partitions_are_counted_for_each_operator_of_a_query() -> None:
    limit = operator_state(0, "globalLimit", LIMIT_KEY, shuffle_partitions=2, partitions=1, version=5)
    dedupe = operator_state(1, "dedupe", LONG_KEY, shuffle_partitions=2, partitions=2, version=5)
    assert found({**checkpoint(5), **limit, **dedupe}) == ()
    half = operator_state(1, "dedupe", LONG_KEY, shuffle_partitions=2, partitions=1, version=5)
    assert harmful({**checkpoint(5), **limit, **half}) == ["state/1/1 is not there, and the state has 2 partitions"]


def test_every_store_of_a_join_has_a_key() -> None:
    files = {**checkpoint(5), **operator_state(0, "symmetricHashJoin", LONG_KEY, shuffle_partitions=2, partitions=1, version=5)}
    moved = {path.replace("state/0/0/", "state/0/0/left-keyToNumValues/"): data for path, data in files.items()}
    assert harmful(moved) == ["state/0/1 is not there, and the state has 2 partitions"]


@pytest.mark.parametrize("schema", [None, b"", b"noise", b"\0\2v2"])
def test_operator_without_a_readable_schema_needs_every_partition(schema: bytes | None) -> None:
    files = {**checkpoint(5), **operator_state(0, "stateStoreSave", NO_KEY, shuffle_partitions=2, partitions=1, version=5)}
    path = "state/0/0/_metadata/schema"
    damaged = without(files, path) if schema is None else {**files, path: schema}
    assert "state/0/1 is not there, and the state has 2 partitions" in harmful(damaged)


@pytest.mark.parametrize("partitions", [0, 1, 2])
def test_no_state_is_needed_before_the_first_commit(partitions: int) -> None:
    state = operator_state(0, "stateStoreSave", LONG_KEY, shuffle_partitions=2, partitions=partitions, version=1)
    assert found({**checkpoint(0), **state}) == ()
    assert found({**without(checkpoint(0), "offsets/0", "sources/0/0"), **state}) == ()
    assert harmful({**checkpoint(0), **state, "state/0/_metadata/metadata": b"v1\n{"})


def test_state_is_needed_from_the_first_commit_on() -> None:
    state = operator_state(0, "stateStoreSave", LONG_KEY, shuffle_partitions=2, partitions=0, version=0)
    for planned in (0, 1):
        files = {**checkpoint(planned, committed=0), **state}
        assert harmful(files) == ["state/0/0 is not there, and the state has 2 partitions"]


def test_a_sink_tells_its_newest_batch_and_what_its_readers_miss() -> None:
    assert sink_of(tree({})).newest is None
    whole = sink_of(tree(sink(12)))
    assert (whole.newest, whole.findings) == (12, ())
    assert sink_of(tree({**sink(3), "3": b"v1"})).findings == ()  # a batch that wrote nothing
    assert [str(each) for each in sink_of(tree({**sink(3), "2": b""})).findings] == ["_spark_metadata/2 is empty"]
    assert sink_of(tree(without(sink(3), "2"))).findings[0].file == "_spark_metadata/2"
    compacted = {**without(sink(12), *map(str, range(10))), "9.compact": sink(9)["9"]}
    assert sink_of(tree(compacted)).findings == ()
