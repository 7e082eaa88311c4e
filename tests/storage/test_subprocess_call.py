"""What needs pyarrow runs in a process of its own, which does not load, hang or outlive whoever asked."""

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
from holdfast.storage import BlobDamaged, BlobMissing, Claim, Claimed, Claims, ForeignCheckpoint, open_storage
from tests.harness.processes import children, has_socket, run, start
from tests.harness.s3 import Bucket, S3Server
from tests.harness.slow_link import SlowLink
from tests.harness.waiting import eventually

MakeFile = Callable[[bytes], Path]
SRC = Path(__file__).parents[2] / "src"


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """One that may be paused and killed."""
    with S3Server() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


def test_every_call_and_every_error_goes_through_the_other_process(bucket: Bucket, file: MakeFile, tmp_path: Path) -> None:
    storage = open_storage(bucket.location)
    source = file(b"print(1)")
    digest = storage.put(source)
    assert storage.has(digest)
    assert [(blob.digest, blob.size) for blob in storage.blobs()] == [(digest, 8)]
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
    assert storage.sweep(lambda: [], now_wall=time.time() + 90_000) == [digest]
    storage.ensure(source, digest)
    storage.remove(digest)
    assert not storage.has(digest)


def test_claims_and_their_notes_come_through_too(bucket: Bucket) -> None:
    notes: list[str] = []
    checkpoint = bucket.location.replace("?", "/checkpoints/j?")
    claims = Claims(checkpoint, note=notes.append)
    claims.claim(Claim("c", "j", 1, "n", "x"))
    with pytest.raises(Claimed):
        claims.claim(Claim("c", "j", 1, "n", "y"))
    with pytest.raises(ForeignCheckpoint):
        claims.claim(Claim("c", "k", 2, "n", "y"))
    claims.leave_outcome(1, b'{"reason": "\xc3\xa4"}')
    assert claims.latest() == (1, {"reason": "ä"})
    bucket.put("checkpoints/j/_holdfast/claim-2", b"garbage")
    assert claims.owner() == Claim("c", "j", 1, "n", "x")
    assert claims.attempts() == [1, 2]
    assert len(notes) == 1
    assert bucket.names("checkpoints/j/_holdfast") == ["claim-1", "claim-2", "outcome-1"]


SLIM = """
import re, sys
from pathlib import Path
from holdfast.storage import open_storage
storage = open_storage(sys.argv[1])
storage.fetch(storage.put(Path(sys.argv[2])), Path(sys.argv[3]))
assert "pyarrow" not in sys.modules
print(int(re.search("VmHWM:\\\\s*([0-9]+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


def test_whoever_asks_never_loads_pyarrow(
    bucket: Bucket, file: MakeFile, tmp_path: Path, report: Callable[[str], None]
) -> None:
    peak_mb = int(run(SLIM, bucket.location, file(os.urandom(1000) * 20_000), tmp_path / "out"))
    report(f"a process that stores 20 MB in S3 and fetches them: {peak_mb} MB at its peak, without pyarrow")
    assert peak_mb < 30


WITHOUT_PYARROW = """
import sys
sys.path.insert(0, sys.argv[1])
from holdfast.errors import Refused
from holdfast.storage import Claims, open_storage, validate
for call in (validate, open_storage, Claims):
    try:
        call("s3://bucket/path?region=eu-central-1")
    except Refused as error:
        print(error)
open_storage("/tmp")
"""


def test_where_pyarrow_is_missing_that_is_said_and_directories_still_work() -> None:
    command = [sys.executable, "-I", "-S", "-c", WITHOUT_PYARROW, str(SRC)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    sentence = "s3://bucket/path needs pyarrow, which is not installed: install holdfast[remote]"
    assert done.stdout.splitlines() == [sentence] * 3


def test_a_location_that_only_pyarrow_can_judge_is_refused_in_its_words() -> None:
    with pytest.raises(Refused, match=r"s3://bucket/x cannot be used as a location: .*'colour'"):
        open_storage("s3://bucket/x?colour=blue").has("0" * 64)


def test_a_bucket_that_does_not_exist_is_said(bucket: Bucket, file: MakeFile) -> None:
    elsewhere = bucket.location.replace(bucket.name, "nosuchbucket")
    with pytest.raises(Unavailable, match=r"cannot write to s3://nosuchbucket/pre/fix/blobs: .*bucket does not exist"):
        open_storage(elsewhere).put(file(b"x"))


def test_a_server_that_is_down_is_unavailable(own_server: S3Server) -> None:
    storage = open_storage(own_server.bucket("own-bucket").location)
    own_server.process.kill()
    own_server.process.wait()
    with pytest.raises(Unavailable, match=r"cannot reach s3://own-bucket/pre/fix: .*NETWORK_CONNECTION"):
        storage.has("0" * 64)


def test_a_server_that_does_not_answer_is_left_alone_after_a_while_and_works_again_afterwards(
    own_server: S3Server, file: MakeFile
) -> None:
    """pyarrow alone would wait for minutes."""
    location = own_server.bucket("own-bucket").location
    digest = open_storage(location).put(file(b"x"))
    before = set(children(os.getpid()))
    own_server.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(Unavailable, match="s3://own-bucket/pre/fix has not answered for 2 s"):
            open_storage(location, silence_s=2.0).has(digest)
    finally:
        own_server.process.send_signal(signal.SIGCONT)
    assert set(children(os.getpid())) <= before, "the process was ended"
    assert open_storage(location).has(digest)


def test_a_process_that_dies_is_unavailable(own_server: S3Server) -> None:
    storage = open_storage(own_server.bucket("own-bucket").location)
    before = set(children(os.getpid()))
    own_server.process.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(storage.has, "0" * 64)
        (child,) = eventually(lambda: set(children(os.getpid())) - before, 30, "a process is started")
        os.kill(child, signal.SIGKILL)
        with pytest.raises(
            Unavailable, match=r"the process that talks to s3://own-bucket/pre/fix ended with -9 \(it said nothing\)"
        ):
            asked.result(30)
        own_server.process.send_signal(signal.SIGCONT)


ASK = """
import sys
from holdfast.storage import open_storage
print("ready", flush=True)
open_storage(sys.argv[1]).has("0" * 64)
"""


def test_the_process_ends_with_whoever_asked(own_server: S3Server) -> None:
    location = own_server.bucket("own-bucket").location
    own_server.process.send_signal(signal.SIGSTOP)
    try:
        asking = start(ASK, location)
        (child,) = eventually(lambda: children(asking.pid), 30, "a process is started")
        eventually(lambda: has_socket(child), 30, "it is in the middle of a call")
        asking.kill()
        asking.communicate()
        eventually(lambda: not Path(f"/proc/{child}").exists(), 10, "it ends as well")
    finally:
        own_server.process.send_signal(signal.SIGCONT)


def test_an_upload_that_is_killed_leaves_no_object(own_server: S3Server, file: MakeFile, tmp_path: Path) -> None:
    bucket = own_server.bucket("own-bucket")
    storage = open_storage(bucket.location)
    source = file(os.urandom(1_000_000) * 40)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    before = set(children(os.getpid()))
    with ThreadPoolExecutor() as pool:
        putting = pool.submit(storage.put, source)
        eventually(bucket.uploads_under_way, 30, "the upload has begun")
        (child,) = set(children(os.getpid())) - before
        os.kill(child, signal.SIGKILL)
        with pytest.raises(Unavailable, match="ended with -9"):
            putting.result(30)
    assert bucket.get(f"blobs/{digest}") is None
    assert storage.put(source) == digest
    storage.fetch(digest, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == source.read_bytes()


@pytest.mark.slow
def test_a_slow_upload_is_not_taken_for_a_stuck_one(bucket: Bucket, s3_server: S3Server, file: MakeFile) -> None:
    with SlowLink(s3_server.port, bytes_per_s=2e6) as link:
        location = bucket.location.replace(f":{s3_server.port}", f":{link.port}")
        began = time.monotonic()
        digest = open_storage(location, silence_s=15.0).put(file(os.urandom(1_000_000) * 50))
        assert time.monotonic() - began > 20
    assert bucket.names("blobs") == [digest]


ABANDON = """
import os, sys
from holdfast.storage.location import parse
from holdfast.storage.filesystem.remote_folder import open_remote
try:
    with open_remote(parse(sys.argv[1]), "blobs", True) as folder, folder.writing("torn") as write:
        for _ in range(int(sys.argv[2])):
            write(memoryview(bytes(1_000_000)))
        raise KeyError("the source changed")
except KeyError:
    del folder, write
    import gc
    gc.collect()
    os._exit(0)
"""


@pytest.mark.parametrize("megabytes", [1, 25])
def test_an_upload_that_is_given_up_leaves_no_object(bucket: Bucket, megabytes: int) -> None:
    """pyarrow would complete it when the stream is dropped."""
    run(ABANDON, bucket.location, megabytes)
    assert bucket.names("blobs") == []


def test_calls_from_many_threads_do_not_disturb_each_other(bucket: Bucket, file: MakeFile, tmp_path: Path) -> None:
    storage = open_storage(bucket.location)
    contents = [b"%d" % number * 1000 for number in range(6)]

    def through(content: bytes) -> bytes:
        out = tmp_path / f"{threading.get_ident()}-{content[:1].decode()}"
        storage.fetch(storage.put(file(content)), out)
        return out.read_bytes()

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(through, contents)) == contents


def fetch(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-P", "-m", "holdfast.storage.fetch", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_fetches_one_blob_and_says_by_its_exit_code_what_went_wrong(
    bucket: Bucket, file: MakeFile, tmp_path: Path
) -> None:
    digest = open_storage(bucket.location).put(file(b"code"))
    done = fetch(bucket.location, digest, tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out").read_bytes() == b"code"
    assert fetch(bucket.location, "0" * 64, tmp_path / "x").returncode == 66
    assert fetch("s3:nonsense", digest, tmp_path / "x").returncode == 1
    assert fetch(tmp_path / "unmounted", digest, tmp_path / "x").returncode == 75
    assert fetch("one argument").returncode == 2
    bucket.put(f"blobs/{digest}", b"C0DE")
    damaged = fetch(bucket.location, digest, tmp_path / "x")
    assert damaged.returncode == 65
    assert damaged.stderr.count("\n") == 1
