"""Calls that need pyarrow run in a subprocess. The caller neither loads pyarrow nor hangs, and the subprocess exits with it."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.errors import Refused, Unavailable
from holdfast.storage import AlreadyClaimed, BlobDamaged, BlobMissing, CheckpointClaim, Claims, ForeignCheckpoint, open_storage
from tests.harness.processes import child_pids, has_socket, run_python, start_python
from tests.harness.s3 import Bucket, S3Server
from tests.harness.slow_link import SlowLink
from tests.harness.waiting import wait_until

MakeFile = Callable[[bytes], Path]
SRC = Path(__file__).parents[3] / "src"


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """S3 server that the test may pause and kill."""
    with S3Server() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.mark.slow
def test_subprocess_returns_results_and_errors_of_every_storage_call(bucket: Bucket, file: MakeFile, tmp_path: Path) -> None:
    storage = open_storage(bucket.location)
    source = file(b"print(1)")
    digest = storage.put(source)
    assert storage.has(digest)
    assert [(blob.digest, blob.size) for blob in storage.list_blobs()] == [(digest, 8)]
    storage.fetch(digest, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"print(1)"
    with pytest.raises(BlobMissing):
        storage.fetch("0" * 64, tmp_path / "missing")
    bucket.put(f"blobs/{digest}", b"damaged")
    with pytest.raises(BlobDamaged):
        storage.fetch(digest, tmp_path / "damaged")
    with pytest.raises(Refused, match="is not the name of a blob"):
        storage.has("../x")
    with pytest.raises(Refused, match="is a directory: pack it"):
        storage.put(tmp_path)
    assert storage.collect_garbage(lambda: [], now_wall=time.time() + 90_000) == [digest]
    storage.ensure_stored(source, digest)
    storage.remove(digest)
    assert not storage.has(digest)


@pytest.mark.slow
def test_subprocess_returns_claims_and_their_warnings(bucket: Bucket) -> None:
    warnings: list[str] = []
    checkpoint = bucket.location.replace("?", "/checkpoints/j?")
    claims = Claims(checkpoint, warn=warnings.append)
    claims.claim(CheckpointClaim("c", "j", 1, "n", "x"))
    with pytest.raises(AlreadyClaimed):
        claims.claim(CheckpointClaim("c", "j", 1, "n", "y"))
    with pytest.raises(ForeignCheckpoint):
        claims.claim(CheckpointClaim("c", "k", 2, "n", "y"))
    claims.write_outcome(1, b'{"reason": "\xc3\xa4"}')
    assert claims.read_latest_outcome() == (1, {"reason": "ä"})
    assert claims.read_outcomes_since(CheckpointClaim("c", "j", 2, "n", "y"), 1) == (1, {1: {"reason": "ä"}})
    bucket.put("checkpoints/j/_holdfast/claim-2", b"garbage")
    assert claims.read_owner() == CheckpointClaim("c", "j", 1, "n", "x")
    assert claims.list_attempts() == [1, 2]
    assert len(warnings) == 1
    assert bucket.list_names("checkpoints/j/_holdfast") == ["claim-1", "claim-2", "outcome-1"]


MEASURE_PEAK = """
import re, sys
from pathlib import Path
from holdfast.storage import open_storage
storage = open_storage(sys.argv[1])
storage.fetch(storage.put(Path(sys.argv[2])), Path(sys.argv[3]))
assert "pyarrow" not in sys.modules
print(int(re.search("VmHWM:\\\\s*([0-9]+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


@pytest.mark.slow
def test_caller_of_remote_storage_never_loads_pyarrow(
    bucket: Bucket, file: MakeFile, tmp_path: Path, report: Callable[[str], None]
) -> None:
    peak_mb = int(run_python(MEASURE_PEAK, bucket.location, file(os.urandom(1000) * 20_000), tmp_path / "out"))
    report(f"a process that stores 20 MB in S3 and fetches them: {peak_mb} MB at its peak, without pyarrow")
    assert peak_mb < 30


WITHOUT_PYARROW = """
import sys
sys.path.insert(0, sys.argv[1])
from holdfast.errors import Refused
from holdfast.storage import Claims, check_location, open_storage
for call in (check_location, open_storage, Claims):
    try:
        call("s3://bucket/path?region=eu-central-1")
    except Refused as error:
        print(error)
open_storage("/tmp")
"""


def test_missing_pyarrow_is_reported_and_directories_still_work() -> None:
    command = [sys.executable, "-I", "-S", "-c", WITHOUT_PYARROW, str(SRC)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    message = "s3://bucket/path needs pyarrow, which is not installed: install holdfast[remote]"
    assert done.stdout.splitlines() == [message] * 3


@pytest.mark.slow
def test_unknown_query_parameter_is_refused_with_the_message_of_pyarrow() -> None:
    with pytest.raises(Refused, match=r"s3://bucket/x cannot be used as a location: .*'colour'"):
        open_storage("s3://bucket/x?colour=blue").has("0" * 64)


@pytest.mark.slow
def test_missing_bucket_is_unavailable(bucket: Bucket, file: MakeFile) -> None:
    elsewhere = bucket.location.replace(bucket.name, "nosuchbucket")
    with pytest.raises(Unavailable, match=r"cannot write to s3://nosuchbucket/pre/fix/blobs: .*bucket does not exist"):
        open_storage(elsewhere).put(file(b"x"))


@pytest.mark.slow
def test_stopped_server_is_unavailable(own_server: S3Server) -> None:
    storage = open_storage(own_server.create_bucket("own-bucket").location)
    own_server.process.kill()
    own_server.process.wait()
    with pytest.raises(Unavailable, match=r"cannot reach s3://own-bucket/pre/fix: .*NETWORK_CONNECTION"):
        storage.has("0" * 64)


@pytest.mark.slow
def test_call_to_unresponsive_server_times_out_and_a_later_call_succeeds(own_server: S3Server, file: MakeFile) -> None:
    """Check the stall timeout: pyarrow itself would wait for minutes."""
    location = own_server.create_bucket("own-bucket").location
    digest = open_storage(location).put(file(b"x"))
    before = set(child_pids(os.getpid()))
    own_server.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(Unavailable, match="s3://own-bucket/pre/fix has not answered for 2 s"):
            open_storage(location, stall_timeout_s=2.0).has(digest)
    finally:
        own_server.process.send_signal(signal.SIGCONT)
    assert set(child_pids(os.getpid())) <= before, "the subprocess was killed"
    assert open_storage(location).has(digest)


@pytest.mark.slow
def test_killed_subprocess_is_unavailable(own_server: S3Server) -> None:
    storage = open_storage(own_server.create_bucket("own-bucket").location)
    before = set(child_pids(os.getpid()))
    own_server.process.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor() as pool:
        call = pool.submit(storage.has, "0" * 64)
        (child,) = wait_until(lambda: set(child_pids(os.getpid())) - before, 30, "the subprocess is started")
        os.kill(child, signal.SIGKILL)
        with pytest.raises(
            Unavailable, match=r"subprocess for s3://own-bucket/pre/fix exited with status -9 without a reply \(no output\)"
        ):
            call.result(30)
        own_server.process.send_signal(signal.SIGCONT)


CALL_HAS = """
import sys
from holdfast.storage import open_storage
print("ready", flush=True)
open_storage(sys.argv[1]).has("0" * 64)
"""


@pytest.mark.slow
def test_subprocess_exits_when_its_caller_is_killed(own_server: S3Server) -> None:
    location = own_server.create_bucket("own-bucket").location
    own_server.process.send_signal(signal.SIGSTOP)
    try:
        caller = start_python(CALL_HAS, location)
        (child,) = wait_until(lambda: child_pids(caller.pid), 30, "the subprocess is started")
        wait_until(lambda: has_socket(child), 30, "the subprocess is connected to the server")
        caller.kill()
        caller.communicate()
        wait_until(lambda: not Path(f"/proc/{child}").exists(), 10, "the subprocess exits")
    finally:
        own_server.process.send_signal(signal.SIGCONT)


@pytest.mark.slow
def test_killed_upload_leaves_no_object(own_server: S3Server, file: MakeFile, tmp_path: Path) -> None:
    bucket = own_server.create_bucket("own-bucket")
    storage = open_storage(bucket.location)
    source = file(os.urandom(1_000_000) * 40)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    before = set(child_pids(os.getpid()))
    with ThreadPoolExecutor() as pool:
        upload = pool.submit(storage.put, source)
        wait_until(bucket.count_unfinished_uploads, 30, "the upload has started")
        (child,) = set(child_pids(os.getpid())) - before
        os.kill(child, signal.SIGKILL)
        with pytest.raises(Unavailable, match="exited with status -9"):
            upload.result(30)
    assert bucket.get(f"blobs/{digest}") is None
    assert storage.put(source) == digest
    storage.fetch(digest, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == source.read_bytes()


@pytest.mark.slow
def test_slow_upload_does_not_reach_the_stall_timeout(bucket: Bucket, s3_server: S3Server, file: MakeFile) -> None:
    with SlowLink(s3_server.port, bytes_per_s=2e6) as link:
        location = bucket.location.replace(f":{s3_server.port}", f":{link.port}")
        started = time.monotonic()
        digest = open_storage(location, stall_timeout_s=15.0).put(file(os.urandom(1_000_000) * 50))
        assert time.monotonic() - started > 20
    assert bucket.list_names("blobs") == [digest]


ABORT_UPLOAD = """
import os, sys
from holdfast.storage.location import parse_location
from holdfast.storage.filesystem.remote_folder import open_remote_folder
try:
    with open_remote_folder(parse_location(sys.argv[1]), "blobs", True) as folder, folder.open_writer("torn") as write:
        for _ in range(int(sys.argv[2])):
            write(memoryview(bytes(1_000_000)))
        raise KeyError("the source changed")
except KeyError:
    del folder, write
    import gc
    gc.collect()
    os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [1, 25])
def test_upload_aborted_by_an_exception_leaves_no_object(bucket: Bucket, megabytes: int) -> None:
    """Check that the stream is not garbage-collected: pyarrow would then complete the upload."""
    run_python(ABORT_UPLOAD, bucket.location, megabytes)
    assert bucket.list_names("blobs") == []


@pytest.mark.slow
def test_concurrent_calls_from_several_threads_succeed(bucket: Bucket, file: MakeFile, tmp_path: Path) -> None:
    storage = open_storage(bucket.location)
    contents = [b"%d" % number * 1000 for number in range(6)]

    def put_and_fetch(content: bytes) -> bytes:
        out = tmp_path / f"{threading.get_ident()}-{content[:1].decode()}"
        storage.fetch(storage.put(file(content)), out)
        return out.read_bytes()

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(put_and_fetch, contents)) == contents
