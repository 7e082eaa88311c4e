"""Checkpoints in a directory and in S3 are examined and repaired the same way, without Spark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.checkpoint import KnownQueries, KnownQuery
from holdfast.checkpoint.finding import DAMAGED, REMARK, UNKNOWN
from holdfast.client.checkpoints import judge_location
from holdfast.errors import Refused, Unavailable
from holdfast.kafka.check.last_known import (
    JobLastKnown,
    LastKnown,
    LastKnownPartition,
    LastKnownSource,
    LastKnownTopic,
    decode_last_known,
)
from holdfast.storage import KAFKA_LAST_KNOWN_FILE, Checkpoints, Claims, examine_file_sink
from holdfast.storage.location import parse_location
from tests.harness.checkpoint_trees import (
    Files,
    checkpoint_files,
    sink_log_files,
    transform_state,
    with_state,
    write_files,
)
from tests.harness.s3 import Bucket


class Store:
    """Checkpoint of a job, and the output of its sink."""

    def __init__(self, request: pytest.FixtureRequest, location: str) -> None:
        base, _, query = location.partition("?")
        self._suffix = f"?{query}" if query else ""
        self._base = base
        self._bucket: Bucket | None = request.getfixturevalue("bucket") if query else None
        self.checkpoint = self.at("checkpoints/j1")

    def at(self, name: str) -> str:
        return f"{self._base}/{name}{self._suffix}"

    def put(self, files: Files, below: str) -> None:
        if self._bucket is None:
            write_files(files, Path(self._base) / below)
            return
        for path, data in files.items():
            self._bucket.put(f"{below}/{path}", data)

    def get(self, path: str) -> bytes | None:
        if self._bucket is not None:
            return self._bucket.get(path)
        file = Path(self._base) / path
        return file.read_bytes() if file.exists() else None


@pytest.fixture
def store(request: pytest.FixtureRequest, location: str) -> Store:
    return Store(request, location)


def test_queries_below_the_root_are_examined_with_their_batches_and_state(store: Store) -> None:
    store.put(with_state(checkpoint_files(3), 3), "checkpoints/j1/query-1")
    store.put(checkpoint_files(7, committed=7), "checkpoints/j1/clicks")
    store.put({"claim-1": b"{}"}, "checkpoints/j1/_holdfast")
    clicks, first = Checkpoints(store.checkpoint).examine_queries()
    assert (clicks.place, clicks.planned, clicks.committed, clicks.findings) == ("clicks", 7, 7, ())
    assert (first.place, first.planned, first.committed, first.findings) == ("query-1", 3, 2, ())
    assert first.operators[0].partitions == 2
    assert first.modified_wall_s is not None and first.modified_wall_s > 1e9


def test_query_at_the_root_is_examined(store: Store) -> None:
    store.put(checkpoint_files(3), "checkpoints/j1")
    assert [(query.place, query.planned) for query in Checkpoints(store.checkpoint).examine_queries()] == [("", 3)]


def test_schema_files_that_metadata_names_are_looked_up_in_and_outside_of_the_checkpoint(store: Store) -> None:
    def named_in(job: str) -> str:
        root = parse_location(store.at(f"checkpoints/{job}")).spark_uri
        return f"{'file:' if root.startswith('/') else ''}{root}/query-1/state/0/_stateSchema/default/0_5a92"

    def judge(path: str) -> list[tuple[str, bool]]:
        state = transform_state(path, "transformWithStateExec", version=3)
        store.put({**checkpoint_files(2, committed=2), **state}, "checkpoints/j1/query-1")
        (query,) = Checkpoints(store.checkpoint).examine_queries()
        return [(finding.kind, path in finding.problem) for finding in query.findings]

    store.put({"0_5a92": b"schema"}, "checkpoints/j0/query-1/state/0/_stateSchema/default")
    assert judge(named_in("j1")) == []
    assert judge(named_in("j0")) == [(REMARK, True)]
    assert judge(named_in("j3")) == [(DAMAGED, True)]
    assert judge(f"file:{Path(__file__).parent}/nowhere/0_5a92") == [(DAMAGED, True)]
    assert judge("gs://another-store/0_5a92") == [(UNKNOWN, True)]


def test_schema_file_below_a_link_to_the_checkpoint_belongs_to_it(tmp_path: Path) -> None:
    (tmp_path / "old").symlink_to(tmp_path / "new")
    schema = f"file:{tmp_path}/old/state/0/_stateSchema/default/0_5a92"
    state = transform_state(schema, "transformWithStateExec", version=3)
    write_files({**checkpoint_files(2, committed=2), **state}, tmp_path / "new")
    (query,) = Checkpoints(str(tmp_path / "new")).examine_queries()
    assert query.findings == ()


def test_missing_checkpoint_has_no_queries(store: Store) -> None:
    assert Checkpoints(store.checkpoint).examine_queries() == []
    assert examine_file_sink(store.at("out")).newest is None


def test_truncated_offsets_are_found_and_set_aside_without_deleting_them(store: Store) -> None:
    for place, below in (("query-1", "query-1/"), ("", "")):
        job = f"checkpoints/{'a' if place else 'b'}"
        store.put({**checkpoint_files(3), "offsets/3": b"v1\n{"}, f"{job}/{below}".rstrip("/"))
        checkpoints = Checkpoints(store.at(job))
        (query,) = checkpoints.examine_queries()
        assert [finding.torn_batch for finding in query.findings] == [3]
        aside = checkpoints.set_aside(query, 3, attempt=8)
        assert aside == f"_holdfast/aside/{below}offsets-3-8"
        assert store.get(f"{job}/{aside}") == b"v1\n{"
        assert store.get(f"{job}/{below}offsets/3") is None
        (repaired,) = checkpoints.examine_queries()
        assert (repaired.planned, repaired.committed, repaired.findings) == (2, 2, ())
        assert checkpoints.set_aside(query, 3, attempt=9), "setting a missing file aside does nothing"


def test_sink_log_is_examined(store: Store) -> None:
    store.put({**sink_log_files(4), "4": b""}, "out/_spark_metadata")
    found = examine_file_sink(store.at("out"))
    assert found.newest == 4
    assert [str(finding) for finding in found.findings] == ["_spark_metadata/4 is empty"]


def test_known_queries_are_saved_and_loaded(store: Store) -> None:
    warnings: list[str] = []
    claims = Claims(store.checkpoint, warn=warnings.append)
    assert claims.load_known_queries() is None
    known = KnownQueries((KnownQuery("/c/query-1", "wörds", "parquet", "/out", 7),))
    claims.save_known_queries(known)
    assert claims.load_known_queries() == known
    store.put({"queries.json": b"\xff{"}, "checkpoints/j1/_holdfast")
    assert claims.load_known_queries() is None
    assert "queries.json" in warnings[0]


def test_checksum_file_that_does_not_match_is_a_doubt(directory: Path) -> None:
    files = with_state(checkpoint_files(3), 3)
    write_files(files, directory, with_checksums=True)
    assert Checkpoints(str(directory)).examine_queries()[0].findings == ()
    for path in ("metadata", "offsets/3", "commits/2", "sources/0/1", "state/0/1/3.delta"):
        changed = files[path].replace(b"8b9a", b"8b9b") if path == "metadata" else files[path] + b" "
        (directory / path).write_bytes(changed)
        (finding,) = Checkpoints(str(directory)).examine_queries()[0].findings
        assert finding.kind == UNKNOWN
        assert str(finding) == f"{path} does not match its checksum file, which Spark does not compare"
        (directory / path).write_bytes(files[path])


def test_damaged_state_file_is_named(directory: Path) -> None:
    files = with_state(checkpoint_files(3), 3)
    write_files({**files, "state/0/1/3.delta": b""}, directory)
    (finding,) = Checkpoints(str(directory)).examine_queries()[0].findings
    assert (str(finding), finding.rule) == ("state/0/1/3.delta is empty", "state-file-unreadable")


def test_directories_pipes_and_links_are_not_read_and_do_not_block(directory: Path) -> None:
    write_files(checkpoint_files(3), directory)
    for path in ("offsets/3", "commits/2", "metadata"):
        (directory / path).unlink()
    (directory / "offsets/3").mkdir()
    os.mkfifo(directory / "commits/2")
    (directory / "metadata").symlink_to(directory / "offsets/2")
    (query,) = Checkpoints(str(directory)).examine_queries()
    assert (query.planned, query.committed) == (2, 1)
    assert [str(finding) for finding in query.findings] == ["metadata is missing, but the query has batches"]


@pytest.mark.slow
def test_unreachable_store_is_unavailable(directory: Path) -> None:
    away = "s3://bucket/pre?endpoint_override=127.0.0.1:9&scheme=http&region=eu-west-1"
    with pytest.raises(Unavailable, match="s3://bucket/pre"):
        Checkpoints(away, stall_timeout_s=2).examine_queries()
    (directory / "file").write_text("x")
    with pytest.raises(Unavailable, match="cannot list"):
        Checkpoints(str(directory / "file")).examine_queries()


def test_examining_a_checkpoint_does_not_load_pyarrow(store: Store) -> None:
    store.put(checkpoint_files(3), "checkpoints/j1/query-1")
    code = (
        "import sys; from holdfast.storage import Checkpoints; "
        "assert Checkpoints(sys.argv[1]).examine_queries()[0].planned == 3; assert 'pyarrow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, store.checkpoint], check=True, timeout=120)


def test_checkpoints_at_any_depth_are_judged(store: Store) -> None:
    store.put(with_state(checkpoint_files(3), 3), "backup/monday/q1")
    store.put({**checkpoint_files(3), "commits/2": b""}, "backup/q2")
    reports = judge_location(store.at("backup"))
    assert [(report.verdict, report.location) for report in reports] == [
        ("whole", store.at("backup/monday/q1")),
        ("damaged", store.at("backup/q2")),
    ]
    assert judge_location(store.at("nothing")) == []


def test_kafka_metadata_is_written_read_and_removed(store: Store) -> None:
    claims = Claims(store.checkpoint)
    assert claims.read_metadata(KAFKA_LAST_KNOWN_FILE) is None
    partitions = tuple(LastKnownPartition(number, 10**12, 10**12 + 7, 41) for number in range(1000))
    for topics in ((), (LastKnownTopic("orders", "id", partitions),)):
        kept = JobLastKnown((LastKnownSource("file:/q", 0, LastKnown(topics)),))
        claims.write_metadata(KAFKA_LAST_KNOWN_FILE, kept.encode())
        assert decode_last_known(claims.read_metadata(KAFKA_LAST_KNOWN_FILE)) == kept
    claims.remove_metadata(KAFKA_LAST_KNOWN_FILE)
    claims.remove_metadata(KAFKA_LAST_KNOWN_FILE)
    assert claims.read_metadata(KAFKA_LAST_KNOWN_FILE) is None
    with pytest.raises(Refused, match="at most"):
        claims.write_metadata(KAFKA_LAST_KNOWN_FILE, b"x" * (9 << 20))


def test_position_of_a_query_is_read_without_its_state(store: Store) -> None:
    files = {**with_state(checkpoint_files(30), 30), "sources/0/0": b'\0v1\n{"t":{"0":5}}'}
    store.put(files, "checkpoints/j1")
    position = Checkpoints(store.checkpoint).read_position()
    assert position is not None
    assert (position.query.planned, position.query.committed, position.query.operators) == (30, 29, ())
    assert position.text("offsets/30") == files["offsets/30"].decode()
    assert position.text("offsets/2") is None, "only the newest offsets are read"
    assert Checkpoints(store.at("checkpoints/none")).read_position() is None


def test_position_contains_the_starting_offsets_of_each_source(store: Store) -> None:
    store.put({**checkpoint_files(0), "sources/0/0": b'\0v1\n{"t":{"0":5}}'}, "checkpoints/j1")
    position = Checkpoints(store.checkpoint).read_position()
    assert position is not None
    assert (position.starting_offsets("0"), position.starting_offsets("1")) == ('{"t":{"0":5}}', None)


def test_rewriting_offsets_removes_their_old_checksum_file(store: Store) -> None:
    store.put({**checkpoint_files(3), "offsets/.3.crc": b"crc\0"}, "checkpoints/j1")
    Checkpoints(store.checkpoint).rewrite_files({"offsets/3": "v1\n{}\nnew", "sources/0/0": "\0v1\nold"})
    assert store.get("checkpoints/j1/offsets/3") == b"v1\n{}\nnew"
    assert store.get("checkpoints/j1/offsets/.3.crc") is None
    assert store.get("checkpoints/j1/sources/0/0") == b"\0v1\nold"


@pytest.mark.parametrize(
    "path", ["commits/3", "metadata", "../x", "offsets/03", "offsets/x", "sources/0/1", "state/0/1/1.delta"]
)
def test_rewriting_any_other_file_is_refused(directory: Path, path: str) -> None:
    write_files(checkpoint_files(3), directory)
    with pytest.raises(Refused, match="refusing to rewrite"):
        Checkpoints(str(directory)).rewrite_files({path: "x"})
