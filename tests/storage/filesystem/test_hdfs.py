"""Storage on a real HDFS, through the Hadoop client in PySpark's jars."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.errors import Refused, Unavailable
from holdfast.storage import BlobMissing, CheckpointClaim, Checkpoints, Claims, ForeignCheckpoint, check_location, open_storage
from holdfast.storage.filesystem.remote_files import RemoteFiles
from holdfast.storage.filesystem.remote_folder import RemoteFolder, connect, open_remote_folder
from holdfast.storage.location import parse_location
from holdfast.storage.subprocesses.storage_process import IDLE_TIMEOUT_S, pool
from tests.harness.hadoop.cluster import HadoopCluster
from tests.harness.processes import child_pids, has_socket
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HadoopCluster]:
    with HadoopCluster(tmp_path_factory.mktemp("hdfs"), node_managers=0) as cluster:
        yield cluster


@pytest.fixture
def location(hdfs: HadoopCluster, request: pytest.FixtureRequest) -> str:
    return f"{hdfs.root}/{request.node.name}"


@pytest.fixture
def folder(location: str) -> Iterator[RemoteFolder]:
    with open_remote_folder(parse_location(location), "claims", make=True) as folder:
        yield folder


def test_code_is_stored_and_fetched_in_subprocesses(location: str, file: Callable[[bytes], Path], tmp_path: Path) -> None:
    check_location(location)
    storage, content = open_storage(location), bytes(range(256)) * 12_000
    digest = storage.put(file(content))
    storage.fetch(digest, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content
    assert [blob.size for blob in storage.list_blobs()] == [len(content)]
    assert storage.collect_garbage(list, now_wall=time.time()) == [], "a young blob is kept"
    assert storage.collect_garbage(list, now_wall=time.time() + 90_000) == [digest]
    with pytest.raises(BlobMissing):
        storage.fetch(digest, tmp_path / "gone")


def test_checkpoint_belongs_to_the_job_that_claimed_it(location: str) -> None:
    def claim(job: str) -> None:
        Claims(location, in_subprocess=False).claim(CheckpointClaim(cluster="c", job=job, attempt=1, node="n1", nonce=job))

    claim("j1")
    with pytest.raises(ForeignCheckpoint):
        claim("j2")


def test_next_attempt_reads_the_outcomes_of_earlier_ones(location: str) -> None:
    claims = Claims(location, in_subprocess=False)
    first, third = (CheckpointClaim(cluster="c", job="j1", attempt=number, node="n1", nonce="x") for number in (1, 3))
    assert claims.read_outcomes_since(third, 1) == (0, {})
    claims.claim(first)
    claims.write_outcome(1, {"ending": "finished"})
    assert claims.read_outcomes_since(third, 1) == (1, {1: {"ending": "finished"}})


def test_of_many_writers_one_creates_a_file(folder: RemoteFolder) -> None:
    start, created = threading.Barrier(8), []

    def create(writer: int) -> None:
        start.wait()
        if folder.create("claim", b"%d" % writer):
            created.append(writer)

    threads = [threading.Thread(target=create, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(created) == 1
    assert folder.read("claim", 10) == b"%d" % created[0]
    assert [entry.name for entry in folder.entries()] == ["claim"], "the others left nothing"


def test_file_is_replaced_atomically_and_renewed(folder: RemoteFolder) -> None:
    for content in (b"one", b"two"):
        with folder.open_writer("file") as write:
            write(memoryview(content))
        assert folder.read("file", 10) == content
    assert not folder.renew("missing")
    before = folder.stat("file")
    later = RemoteFolder(folder._files, folder._path, "", wall=lambda: 4_000_000_000.0)
    assert later.renew("file")
    renewed = folder.stat("file")
    assert before is not None and renewed is not None
    assert before.modified_wall_s < time.time() + 60 < renewed.modified_wall_s == 4_000_000_000.0
    folder.remove("file")
    folder.remove("file")
    assert folder.stat("file") is None


def test_files_below_a_checkpoint_are_listed_read_and_moved(location: str) -> None:
    files = RemoteFiles(parse_location(location))
    assert files.walk() == ([], False)
    for path in ("query/offsets/0", "query/offsets/1", "query/metadata"):
        with files.open_writer(path) as write:
            write(memoryview(path.encode()))
    found, more = files.walk()
    assert sorted((each.path, each.size) for each in found) == [
        ("query/metadata", 14),
        ("query/offsets/0", 15),
        ("query/offsets/1", 15),
    ]
    assert not more and files.list_folders() == ["query"]
    assert files.read_files(["query/metadata", "query/none"], 100) == {"query/metadata": b"query/metadata"}
    files.replace("query/metadata", b"new")
    files.move("query/offsets/1", "_holdfast/aside/1")
    files.remove_file("query/offsets/0")
    assert files.read("query/metadata") == b"new"
    assert sorted(each.path for each in files.walk()[0]) == ["_holdfast/aside/1", "query/metadata"]
    with pytest.raises(FileNotFoundError):
        files.read("query/offsets/0")
    files.remove_tree()
    files.remove_tree()
    assert files.walk() == ([], False)


def test_checkpoint_that_spark_wrote_is_examined(location: str) -> None:
    files = RemoteFiles(parse_location(location))
    offsets = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n{"logOffset":0}'
    for path, content in {
        "q/metadata": json.dumps({"id": "11111111-1111-1111-1111-111111111111"}),
        "q/offsets/0": offsets,
        "q/commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
    }.items():
        with files.open_writer(path) as write:
            write(memoryview(content.encode()))
    (query,) = Checkpoints(location).examine_queries()
    assert (query.place, query.committed) == ("q", 0)


def test_unreachable_name_node_is_unavailable_and_not_an_error_of_the_job(hdfs: HadoopCluster) -> None:
    closed = f"hdfs://127.0.0.1:{hdfs.ports.resourcemanager}/x"  # no ResourceManager runs
    with pytest.raises(Unavailable, match=r"cannot reach hdfs://127\.0\.0\.1:.*Connection refused"):
        list(open_storage(closed).list_blobs())


def test_location_without_name_node_needs_the_configuration_of_hadoop(
    monkeypatch: pytest.MonkeyPatch, hdfs: HadoopCluster
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.configuration))
    storage = open_storage("hdfs:///default-file-system")
    assert not storage.has("0" * 64)
    monkeypatch.delenv("HADOOP_CONF_DIR")
    with pytest.raises(Unavailable):
        storage.has("0" * 64)


def test_query_in_a_location_is_refused() -> None:
    with pytest.raises(Refused, match="put settings into HADOOP_CONF_DIR"):
        parse_location("hdfs://namenode:8020/x?replication=2")


def test_connection_is_shared_by_all_calls_of_a_process(location: str) -> None:
    (first, _), (second, path) = connect(parse_location(location)), connect(parse_location(location))
    assert first._jvm is second._jvm
    assert path == "/" + location.rpartition("/")[2]


def test_one_subprocess_serves_successive_calls_until_it_is_idle_or_a_call_fails(location: str, tmp_path: Path) -> None:
    storage = open_storage(location)
    (tmp_path / "blob").write_bytes(b"content")
    storage.put(tmp_path / "blob")  # a storage without any blob counts as not mounted
    pool.kill_all()
    before = set(child_pids(os.getpid()))

    def subprocesses() -> set[int]:
        return set(child_pids(os.getpid())) - before

    assert not storage.has("0" * 64)
    (first,) = subprocesses()
    assert not storage.has("1" * 64)
    assert subprocesses() == {first}
    with pytest.raises(BlobMissing):
        storage.fetch("0" * 64, tmp_path / "missing")
    assert subprocesses() == set()

    assert not storage.has("0" * 64)
    (second,) = subprocesses()
    wait_until(lambda: not has_socket(second), 4 * IDLE_TIMEOUT_S, "the idle subprocess and its JVM have ended")
    assert not storage.has("0" * 64), "a call after that has a new subprocess"
    pool.kill_all()
    assert subprocesses() == set()


def test_killed_subprocess_fails_one_call_and_not_the_next(location: str) -> None:
    pool.kill_all()
    storage, before = open_storage(location), set(child_pids(os.getpid()))
    assert not storage.has("0" * 64)
    (process,) = set(child_pids(os.getpid())) - before
    os.kill(process, signal.SIGKILL)
    with pytest.raises(Unavailable, match="exited with status -9 without a reply"):
        storage.has("0" * 64)
    assert not storage.has("0" * 64)
    pool.kill_all()
