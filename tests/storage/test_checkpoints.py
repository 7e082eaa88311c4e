"""Checkpoints are read, judged and mended the same way in a directory and in S3, and no Spark is started for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.checkpoint import Known, KnownQuery
from holdfast.errors import Refused, Unavailable
from holdfast.kafka import Memory
from holdfast.kafka.check.last_known import Kept, RememberedPartition, RememberedTopic, Source, kept_in
from holdfast.storage import KAFKA, Checkpoints, Claims, sink_at
from tests.harness.checkpoint_trees import Files, checkpoint, lay_out, sink, with_state
from tests.harness.s3 import Bucket


class Store:
    """A job's checkpoint, and its sink beside it."""

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
            lay_out(files, Path(self._base) / below)
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


def test_every_query_below_the_root_is_listed_with_its_batches_and_state(store: Store) -> None:
    store.put(with_state(checkpoint(3), 3), "checkpoints/j1/query-1")
    store.put(checkpoint(7, committed=7), "checkpoints/j1/clicks")
    store.put({"claim-1": b"{}"}, "checkpoints/j1/_holdfast")
    clicks, first = Checkpoints(store.checkpoint).queries()
    assert (clicks.place, clicks.planned, clicks.committed, clicks.findings) == ("clicks", 7, 7, ())
    assert (first.place, first.planned, first.committed, first.findings) == ("query-1", 3, 2, ())
    assert first.operators[0].partitions == 2
    assert first.modified_wall_s is not None and first.modified_wall_s > 1e9


def test_a_query_may_be_in_the_root_itself(store: Store) -> None:
    store.put(checkpoint(3), "checkpoints/j1")
    assert [(query.place, query.planned) for query in Checkpoints(store.checkpoint).queries()] == [("", 3)]


def test_a_place_where_nothing_is_has_no_queries(store: Store) -> None:
    assert Checkpoints(store.checkpoint).queries() == []
    assert sink_at(store.at("out")).newest is None


def test_a_torn_file_of_offsets_is_found_and_set_aside_and_never_deleted(store: Store) -> None:
    for place, below in (("query-1", "query-1/"), ("", "")):
        job = f"checkpoints/{'a' if place else 'b'}"
        store.put({**checkpoint(3), "offsets/3": b"v1\n{"}, f"{job}/{below}".rstrip("/"))
        checkpoints = Checkpoints(store.at(job))
        (query,) = checkpoints.queries()
        assert [finding.torn_batch for finding in query.findings] == [3]
        aside = checkpoints.set_aside(query, 3, attempt=8)
        assert aside == f"_holdfast/aside/{below}offsets-3-8"
        assert store.get(f"{job}/{aside}") == b"v1\n{"
        assert store.get(f"{job}/{below}offsets/3") is None
        (mended,) = checkpoints.queries()
        assert (mended.planned, mended.committed, mended.findings) == (2, 2, ())
        assert checkpoints.set_aside(query, 3, attempt=9), "what is not there any more is left alone"


def test_the_log_of_a_sink_is_read_where_it_is(store: Store) -> None:
    store.put({**sink(4), "4": b""}, "out/_spark_metadata")
    found = sink_at(store.at("out"))
    assert found.newest == 4
    assert [str(finding) for finding in found.findings] == ["_spark_metadata/4 is empty"]


def test_what_is_known_of_queries_is_kept_beside_the_claims(store: Store) -> None:
    notes: list[str] = []
    claims = Claims(store.checkpoint, note=notes.append)
    assert claims.queries() is None
    known = Known((KnownQuery("/c/query-1", "wörds", "parquet", "/out", 7),))
    claims.leave_queries(known)
    assert claims.queries() == known
    store.put({"queries.json": b"\xff{"}, "checkpoints/j1/_holdfast")
    assert claims.queries() is None
    assert "queries.json" in notes[0]


def test_checksums_of_a_local_disk_find_a_changed_byte_in_any_file(directory: Path) -> None:
    files = with_state(checkpoint(3), 3)
    lay_out(files, directory, with_checksums=True)
    assert Checkpoints(str(directory)).queries()[0].findings == ()
    for path in ("metadata", "offsets/3", "commits/2", "sources/0/1", "state/0/1/3.delta"):
        (directory / path).write_bytes(files[path][:-1] + bytes([files[path][-1] ^ 1]))
        found = [finding for finding in Checkpoints(str(directory)).queries()[0].findings if finding.harms]
        assert [str(finding) for finding in found] == [f"{path} is not what was written: its checksums differ"]
        (directory / path).write_bytes(files[path])


def test_what_is_no_file_is_not_read_and_nothing_waits_for_it(directory: Path) -> None:
    lay_out(checkpoint(3), directory)
    for path in ("offsets/3", "commits/2", "metadata"):
        (directory / path).unlink()
    (directory / "offsets/3").mkdir()
    os.mkfifo(directory / "commits/2")
    (directory / "metadata").symlink_to(directory / "offsets/2")
    (query,) = Checkpoints(str(directory)).queries()
    assert (query.planned, query.committed) == (2, 1)
    assert [str(finding) for finding in query.findings] == ["metadata is not there, and the query has batches"]


def test_a_store_that_is_away_is_a_sentence(directory: Path) -> None:
    away = "s3://bucket/pre?endpoint_override=127.0.0.1:9&scheme=http&region=eu-west-1"
    with pytest.raises(Unavailable, match="s3://bucket/pre"):
        Checkpoints(away, silence_s=2).queries()
    (directory / "file").write_text("x")
    with pytest.raises(Unavailable, match="cannot list"):
        Checkpoints(str(directory / "file")).queries()


def test_whoever_verifies_a_checkpoint_stays_without_pyarrow(store: Store) -> None:
    store.put(checkpoint(3), "checkpoints/j1/query-1")
    code = (
        "import sys; from holdfast.storage import Checkpoints; "
        "assert Checkpoints(sys.argv[1]).queries()[0].planned == 3; assert 'pyarrow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, store.checkpoint], check=True, timeout=120)


def test_what_is_remembered_of_topics_is_kept_beside_the_claims(store: Store) -> None:
    claims = Claims(store.checkpoint)
    assert claims.note(KAFKA) is None
    partitions = tuple(RememberedPartition(number, 10**12, 10**12 + 7, 41) for number in range(1000))
    for topics in ((), (RememberedTopic("orders", "id", partitions),)):
        kept = Kept((Source("file:/q", 0, Memory(topics)),))
        claims.leave_note(KAFKA, kept.encoded())
        assert kept_in(claims.note(KAFKA)) == (kept, "")
    claims.drop_note(KAFKA)
    claims.drop_note(KAFKA)
    assert claims.note(KAFKA) is None
    with pytest.raises(Refused, match="at most"):
        claims.leave_note(KAFKA, b"x" * (9 << 20))


def test_how_far_a_query_is_is_read_without_its_state(store: Store) -> None:
    files = {**with_state(checkpoint(30), 30), "sources/0/0": b'\0v1\n{"t":{"0":5}}'}
    store.put(files, "checkpoints/j1")
    standing = Checkpoints(store.checkpoint).standing()
    assert standing is not None
    assert (standing.query.planned, standing.query.committed, standing.query.operators) == (30, 29, ())
    assert standing.text("offsets/30") == files["offsets/30"].decode()
    assert standing.text("offsets/2") is None, "only the newest are read"
    assert Checkpoints(store.at("checkpoints/none")).standing() is None


def test_where_a_source_began_is_read_from_its_own_note(store: Store) -> None:
    store.put({**checkpoint(0), "sources/0/0": b'\0v1\n{"t":{"0":5}}'}, "checkpoints/j1")
    standing = Checkpoints(store.checkpoint).standing()
    assert standing is not None
    assert (standing.first(0), standing.first(1)) == ('{"t":{"0":5}}', None)


def test_offsets_are_rewritten_whole_and_lose_the_checksum_of_what_they_were(store: Store) -> None:
    store.put({**checkpoint(3), "offsets/.3.crc": b"crc\0"}, "checkpoints/j1")
    Checkpoints(store.checkpoint).rewrite({"offsets/3": "v1\n{}\nnew", "sources/0/0": "\0v1\nold"})
    assert store.get("checkpoints/j1/offsets/3") == b"v1\n{}\nnew"
    assert store.get("checkpoints/j1/offsets/.3.crc") is None
    assert store.get("checkpoints/j1/sources/0/0") == b"\0v1\nold"


@pytest.mark.parametrize(
    "path", ["commits/3", "metadata", "../x", "offsets/03", "offsets/x", "sources/0/1", "state/0/1/1.delta"]
)
def test_nothing_else_of_a_checkpoint_is_ever_rewritten(directory: Path, path: str) -> None:
    lay_out(checkpoint(3), directory)
    with pytest.raises(Refused, match="is not rewritten"):
        Checkpoints(str(directory)).rewrite({path: "x"})
