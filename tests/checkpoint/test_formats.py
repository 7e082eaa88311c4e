"""Formats of Spark 2.1 to 4.3 that Spark reads are whole, and formats of later versions cannot be judged."""

import json
from collections.abc import Callable

import pytest

from holdfast.checkpoint import Query, judge_findings
from holdfast.checkpoint.compatibility import readable_by
from holdfast.checkpoint.examination import examine
from holdfast.checkpoint.query import all_query_places
from tests.harness.checkpoint_trees import (
    LIMIT_KEY_SCHEMA,
    LONG_KEY_SCHEMA,
    Files,
    build_file_tree,
    checkpoint_files,
    operator_state,
    source_log_file,
    with_state,
)

CONF = {"spark.sql.shuffle.partitions": "2"}
HDFS_PROVIDER = {"spark.sql.streaming.stateStore.providerClass": "HDFSBackedStateStoreProvider"}


def judge(files: Files) -> str:
    return judge_findings(examine(build_file_tree(files)).findings)


def texts(files: Files, kind: str) -> list[str]:
    return [str(finding) for finding in examine(build_file_tree(files)).findings if finding.kind == kind]


def offsets(batch: int, *sources: str, version: int = 1, conf: dict[str, str] | None = None, metadata: bool = True) -> bytes:
    fields = {"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000 + batch, "conf": CONF if conf is None else conf}
    return "\n".join([f"v{version}", json.dumps(fields) if metadata else "", *sources]).encode()


def logs(
    planned: int, committed: int, write: Callable[[int], bytes], commit: bytes = b'v1\n{"nextBatchWatermarkMs":0}'
) -> Files:
    files = {"metadata": b'{"id":"6f8b9a1e-0000-4000-8000-000000000000"}'}
    files |= {f"offsets/{batch}": write(batch) for batch in range(planned + 1)}
    return files | {f"commits/{batch}": commit for batch in range(committed + 1)}


def deltas(versions: int, partitions: int = 2, operator: int = 0) -> Files:
    return {f"state/{operator}/{part}/{each}.delta": b"x" for part in range(partitions) for each in range(1, versions + 1)}


# Early versions of Spark


def test_checkpoint_of_spark_2_1_without_commits_and_settings_is_whole() -> None:
    files = logs(1, -1, lambda batch: f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":{batch}}}\n{batch}'.encode())
    assert judge({**files, **deltas(2, partitions=10)}) == "whole"


def test_checkpoint_of_spark_2_3_with_empty_commits_is_whole() -> None:
    files = logs(1, 1, lambda batch: offsets(batch, str(batch), conf={**CONF, **HDFS_PROVIDER}), b"v1\n{}")
    assert judge({**files, **deltas(2)}) == "whole"


def test_state_without_metadata_and_schemas_is_whole() -> None:
    assert judge({**logs(1, 1, lambda batch: offsets(batch, str(batch))), **deltas(2)}) == "whole"


# Later versions


@pytest.mark.parametrize(
    "path", ["offsets/3", "commits/2", "sources/0/3", "state/0/_metadata/metadata", "state/0/0/_metadata/schema"]
)
def test_later_version_of_any_format_cannot_be_judged(path: str) -> None:
    files = with_state(checkpoint_files(3), 3)
    data = b"\0\2v9" if path.endswith("schema") else b"v9\n{}\n{}"
    assert judge(files) == "whole"
    assert judge({**files, path: data}) == "unknown"
    assert readable_by(examine(build_file_tree({**files, path: data}))).oldest is None


def test_commit_of_sink_evolution_is_read() -> None:
    sinks = {"a": {"sinkName": "a", "isActive": False}, "b": {"sinkName": "b", "isActive": True}}
    commit = f"v3\n{json.dumps({'nextBatchWatermarkMs': 0, 'sinkMetadataMap': sinks})}".encode()
    files = logs(2, 2, lambda batch: offsets(batch, str(batch)), commit)
    assert judge(files) == "whole"
    assert readable_by(examine(build_file_tree(files))).oldest == "4.3"
    assert judge({**files, "commits/2": b'v3\n{"nextBatchWatermarkMs":0}'}) == "damaged"
    assert judge({**files, "commits/2": commit.replace(b"true", b"false")}) == "damaged"


# Named sources


def named_offsets(batch: int, *names: str) -> bytes:
    return offsets(batch, *(f'{name}:{{"logOffset":{batch}}}' for name in names), version=2)


def named_source_logs(newest: int, *names: str) -> Files:
    return {f"sources/{name}/{batch}": source_log_file(batch) for name in names for batch in range(newest + 1)}


def test_sources_may_be_added_removed_and_reordered() -> None:
    files = {**logs(1, 1, lambda batch: named_offsets(batch, "left", "right")), **named_source_logs(1, "left", "right")}
    assert judge(files) == "whole"
    third = {**named_source_logs(2, "left", "right"), "sources/third/0": source_log_file(0)}
    reordered = offsets(2, 'third:{"logOffset":0}', 'right:{"logOffset":2}', 'left:{"logOffset":1}', version=2)
    assert judge({**files, **third, "offsets/2": reordered}) == "whole"
    assert judge({**files, "offsets/2": offsets(2, 'left:{"logOffset":1}', version=2)}) == "whole"
    query = examine(build_file_tree({**files, **third, "offsets/2": reordered}))
    assert (query.batches[-1].offset_of(7, "left"), query.batches[-1].offset_of(0, "gone")) == ('{"logOffset":1}', None)
    assert readable_by(query).oldest == "4.2"


def test_log_of_a_named_source_is_checked() -> None:
    files = {**logs(1, 1, lambda batch: named_offsets(batch, "left", "right")), **named_source_logs(1, "left", "right")}
    without = {path: data for path, data in files.items() if path != "sources/right/1"}
    assert texts(without, "damaged") == [
        "sources/right/1 is missing, but the offsets of the query name it: Spark would not know that it has read these files"
    ]
    assert judge({**files, "sources/left/1": b""}) == "damaged"
    assert judge({**files, "offsets/1": offsets(1, 'left:{"logOffset":0}', "right", version=2)}) == "damaged"
    behind = offsets(1, 'right:{"logOffset":1}', 'left:{"logOffset":-1}', version=2)
    assert texts({**files, "offsets/1": behind}, "damaged") == [
        "offsets/1 is behind offsets/0 for source left: one of the two holds the offsets of another batch"
    ]


def test_source_that_is_used_twice_has_two_offsets_and_one_folder() -> None:
    def write(batch: int) -> bytes:
        return offsets(batch, '{"logOffset":5}', '{"logOffset":5}', f'{{"logOffset":{batch}}}')

    first = {f"sources/0/{number}": source_log_file(number) for number in range(6)}
    second = {f"sources/1/{number}": source_log_file(number) for number in range(2)}
    assert judge({**logs(1, 1, write), **first, **second}) == "whole"


# Other ways to run a query


def test_offsets_of_a_socket_that_start_again_are_no_damage() -> None:
    values = {0: "3", 1: "7", 2: "-1"}
    assert judge(logs(2, 1, lambda batch: offsets(batch, values[batch]))) == "whole"


def test_continuous_processing_needs_only_its_newest_committed_epoch() -> None:
    files = logs(6, 4, lambda batch: offsets(batch, f'{{"0":{{"value":{batch}}}}}', metadata=False))
    assert judge(files) == "whole"
    assert examine(build_file_tree(files)).mode == "continuous"
    assert judge({**files, "offsets/6": b"v1\n", "offsets/5": b""}) == "whole"
    without = {path: data for path, data in files.items() if path != "offsets/4"}
    assert texts(without, "damaged") == ["offsets/4 is missing, but commits/4 exists"]
    assert judge({**files, "offsets/4": b""}) == "damaged"


def test_gaps_of_asynchronous_progress_tracking_cannot_be_judged() -> None:
    files = logs(19, 19, lambda batch: offsets(batch, str(batch)))
    kept = {f"{log}/{batch}" for log in ("offsets", "commits") for batch in (0, 4, 8, 19)}
    gaps = {path: data for path, data in files.items() if path in kept or path == "metadata"}
    assert judge(gaps) == "unknown"
    planned = {path: data for path, data in gaps.items() if path != "commits/19"}
    assert judge(planned) == "unknown"
    only_offsets = {path: data for path, data in files.items() if path != "offsets/18"}
    assert texts(only_offsets, "damaged") == ["offsets/18 is missing, but offsets/19 exists"]


def test_purged_logs_are_whole() -> None:
    files = {
        path: data for path, data in checkpoint_files(250).items() if "/" not in path or int(path.rpartition("/")[2]) > 149
    }
    files = {path: data for path, data in files.items() if not path.startswith("sources")}
    entries = b"\n".join(source_log_file(batch)[3:] for batch in range(240))
    compacted = {"sources/0/239.compact": b"v1\n" + entries, **{f"sources/0/{n}": source_log_file(n) for n in range(240, 251)}}
    assert judge({**files, **compacted}) == "whole"


# New checkpoints


def test_checkpoint_of_a_query_that_never_started_a_batch_is_whole() -> None:
    assert judge({"metadata": b'{"id":"6f8b9a1e-0000-4000-8000-000000000000"}'}) == "whole"
    assert judge({"metadata": b'{"id":"6f8b9a1e-0000-4000-8000-000000000000"}', "offsets/..0.x.tmp.crc": b"crc"}) == "whole"


@pytest.mark.parametrize("path", ["offsets/.0.5f2c.tmp", "commits/.0.5f2c.tmp"])
def test_file_left_in_a_new_checkpoint_is_damage(path: str) -> None:
    (text,) = texts({"metadata": b'{"id":"6f8b9a1e-0000-4000-8000-000000000000"}', path: b"v1"}, "damaged")
    assert text.startswith(f"{path} is left from a batch that was never planned")
    assert judge({**checkpoint_files(3), path: b"v1"}) == "whole"


# Repartitioned state


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)])
def test_repartitioned_state_is_whole(before: int, after: int) -> None:
    counts = {0: before, 1: after}
    files = logs(1, 1, lambda batch: offsets(0, "7", conf={"spark.sql.shuffle.partitions": str(counts[batch])}))
    state = operator_state(0, "stateStoreSave", LONG_KEY_SCHEMA, shuffle_partitions=before, partitions=before, version=1)
    new = {f"state/0/{part}/2.snapshot": b"x" for part in range(after)}
    assert judge({**files, **state, **new}) == "whole"
    lost = {path: data for path, data in new.items() if path != f"state/0/{after - 1}/2.snapshot"}
    assert judge({**files, **state, **lost}) == "damaged"


def test_unfinished_repartition_is_damage() -> None:
    counts = {0: 2, 1: 3}
    files = logs(1, 0, lambda batch: offsets(0, "7", conf={"spark.sql.shuffle.partitions": str(counts[batch])}))
    state = operator_state(0, "stateStoreSave", LONG_KEY_SCHEMA, shuffle_partitions=2, partitions=3, version=1)
    (text,) = texts({**files, **state}, "damaged")
    assert text.startswith("offsets/1 belongs to a repartitioning of the state to 3 partitions that did not finish")


def test_limit_without_operator_metadata_needs_one_partition() -> None:
    files = {**logs(1, 1, lambda batch: offsets(batch, str(batch))), **deltas(2, partitions=1)}
    schema = operator_state(0, "", LIMIT_KEY_SCHEMA, shuffle_partitions=2, partitions=0, version=0)[
        "state/0/0/_metadata/schema"
    ]
    assert judge({**files, "state/0/0/_metadata/schema": schema}) == "whole"


def test_join_store_that_one_partition_lacks_is_damage() -> None:
    names = ("left-keyToNumValues", "right-keyToNumValues")
    state = {f"state/0/{part}/{name}/1.delta": b"x" for part in range(2) for name in names}
    files = {**logs(0, 0, lambda batch: offsets(batch, "1", "2")), **state}
    assert judge(files) == "whole"
    del files["state/0/1/right-keyToNumValues/1.delta"]
    (text,) = texts(files, "damaged")
    assert text.startswith("state/0/1/right-keyToNumValues is missing")


# Folders


def test_queries_are_found_at_any_depth_but_not_inside_another_query() -> None:
    query = with_state(checkpoint_files(2), 2)
    tree = {f"{place}/{path}": data for place in ("a/b/q1", "a/state/q2") for path, data in query.items()}
    tree |= {"other/readme": b"x", "a/b/q1/_holdfast/aside/offsets/3": b"x"}
    assert all_query_places(build_file_tree(tree)) == ["a/b/q1", "a/state/q2"]
    assert all_query_places(build_file_tree(query)) == [""]
    assert all_query_places(build_file_tree({"x": b"", "state/0/_metadata/metadata": b""})) == []


def test_versions_of_spark_follow_the_formats() -> None:
    def oldest(files: Files) -> str | None:
        return readable_by(examine(build_file_tree(files))).oldest

    assert oldest(checkpoint_files(2)) == "2.1"
    rocksdb = {path.replace(".delta", ".changelog"): data for path, data in with_state(checkpoint_files(2), 2).items()}
    assert oldest(rocksdb) == "3.5"
    conf = {**CONF, "spark.sql.streaming.join.stateFormatVersion": "2"}
    state = operator_state(0, "dedupe", LONG_KEY_SCHEMA, shuffle_partitions=2, partitions=2, version=2)
    files = {**logs(1, 1, lambda batch: offsets(batch, str(batch), conf=conf)), **state}
    assert oldest(files) == "3.0"
    assert isinstance(examine(build_file_tree(files)), Query)


def test_source_with_a_format_of_its_own_is_no_damage() -> None:
    assert judge(logs(2, 1, lambda batch: offsets(batch, f"{{{batch}}}"))) == "whole"
    files = logs(2, 1, lambda batch: offsets(batch, f'{{"position":{batch}}}'))
    assert judge(files) == "whole"
    assert judge({**files, "offsets/2": offsets(2, '{"position":')}) == "damaged"


def test_other_files_in_the_folders_of_the_state_are_ignored() -> None:
    state = operator_state(0, "stateStoreSave", LONG_KEY_SCHEMA, shuffle_partitions=2, partitions=2, version=2)
    files = {**logs(1, 1, lambda batch: offsets(batch, str(batch))), **state}
    more = {
        "state/0/0/notes/readme.txt": b"x",
        "state/0/1/readme.txt": b"x",
        "state/0/7/readme.txt": b"x",
        "state/readme": b"x",
    }
    assert judge({**files, **more}) == "whole"
    only_readme = {path: data for path, data in files.items() if not path.startswith("state/0/1/")}
    assert judge({**only_readme, "state/0/1/readme.txt": b"x"}) == "damaged"


def test_transform_with_state_needs_the_metadata_of_its_operator() -> None:
    store = {"storeName": "default", "numPartitions": 2, "stateSchemaFilePath": "file:/x/state/0/_stateSchema/default/0_id"}
    metadata = {"operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateExec"}, "stateStoreInfo": [store]}
    schema = b"\0\2v3" + b"\0\0\0\0"
    state = {f"state/0/{part}/{version}.changelog": b"x" for part in range(2) for version in (1, 2)}
    described = {
        "state/0/_metadata/v2/0": f"v2\n{json.dumps(metadata)}".encode(),
        "state/0/_stateSchema/default/0_id": schema,
    }
    files = {**logs(1, 1, lambda batch: offsets(batch, str(batch))), **state, **described}
    assert judge(files) == "whole"
    assert readable_by(examine(build_file_tree(files))).oldest == "4.0"
    assert judge({**files, "state/0/_metadata/v2/0": b"v2\n{"}) == "damaged"
    assert judge({path: data for path, data in files.items() if "/_metadata/" not in path}) == "damaged"
    assert judge({**files, "state/0/_stateSchema/default/0_id": b"\0\2v"}) == "unknown"
    uncommitted = {"state/0/_metadata/v2/2": b"v2\n{"}
    assert judge({**files, **uncommitted}) == "whole"


def test_file_source_without_its_log_is_damage() -> None:
    files = checkpoint_files(2, committed=2)
    assert judge(files) == "whole"
    assert judge({path: data for path, data in files.items() if not path.startswith("sources/")}) == "damaged"


def test_operator_that_the_newest_commit_names_must_have_a_folder() -> None:
    files = checkpoint_files(1, committed=1)
    commit = b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["a"],["b"]]}}'
    assert judge({**files, "commits/1": commit}) == "damaged"
