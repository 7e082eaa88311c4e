"""Last-seen file of a node, and the atomic writes behind it."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast.atomic_file import write_atomically
from holdfast.errors import Refused
from holdfast.model.cluster_watermark import ClusterWatermark
from holdfast.node.last_seen import LastSeenFile
from tests.harness.waiting import wait_until


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memory.json"


def watermark(beat: int, *, epoch: int = 3, cluster: str = "1-a") -> ClusterWatermark:
    return ClusterWatermark(cluster, epoch, beat)


def test_new_node_has_no_watermark(file: Path) -> None:
    assert LastSeenFile(file).latest() is None
    assert not file.exists()


def record(file: Path, *watermarks: ClusterWatermark) -> None:
    """Record the watermarks in a new agent, and wait until the last one is written."""
    last_seen = LastSeenFile(file)
    for each in watermarks:
        last_seen.record(each)
    last_seen.close()


@pytest.mark.parametrize(
    "now",
    [watermark(11), watermark(1, epoch=4), watermark(1, cluster="2-b")],
    ids=["the next beat", "a new epoch", "an accepted cluster"],
)
def test_every_watermark_is_written(file: Path, now: ClusterWatermark) -> None:
    record(file, watermark(10))
    assert LastSeenFile(file).latest() == watermark(10)
    record(file, now)
    assert LastSeenFile(file).latest() == now


def test_write_does_not_wait_for_close(file: Path) -> None:
    """An agent that is killed a moment later must remember the beat."""
    last_seen = LastSeenFile(file)
    for beat in (10, 11):
        last_seen.record(watermark(beat))
        wait_until(lambda beat=beat: LastSeenFile(file).latest() == watermark(beat), 10, "the beat is written")  # type: ignore[misc]  # mypy cannot infer a lambda with a default
    last_seen.close()


def test_stalled_disk_delays_no_caller_and_then_gets_the_newest_watermark(file: Path) -> None:
    stalled, resumed = threading.Event(), threading.Event()
    written: list[int] = []

    class StalledFile(LastSeenFile):
        def _write(self, watermark: ClusterWatermark) -> None:
            stalled.set()
            assert resumed.wait(10)
            written.append(watermark.beat)
            super()._write(watermark)

    last_seen = StalledFile(file)
    last_seen.record(watermark(1))
    assert stalled.wait(10)
    for beat in range(2, 100):
        last_seen.record(watermark(beat))
        assert last_seen.latest() == watermark(beat)
    assert not file.exists()
    resumed.set()
    last_seen.close()
    assert written == [1, 99], "only the newest watermark is written after the stall"
    assert LastSeenFile(file).latest() == watermark(99)


def test_failed_write_is_reported_until_a_later_one_succeeds(tmp_path: Path) -> None:
    directory = tmp_path / "missing"
    last_seen = LastSeenFile(directory / "memory.json")
    last_seen.record(watermark(1))
    wait_until(lambda: "memory.json: No such file" in last_seen.write_problem, 10, "the problem is reported")
    assert last_seen.latest() == watermark(1)
    directory.mkdir()
    last_seen.record(watermark(2))
    wait_until(lambda: not last_seen.write_problem, 10, "the problem is over")
    last_seen.close()
    assert LastSeenFile(directory / "memory.json").latest() == watermark(2)


DAMAGED = [
    b"",
    b"{",
    b"[]",
    b"7",
    b"{}",
    b"\xff\xfe",
    b'{"cluster_id":"a","epoch":1}',
    b'{"cluster_id":"a","epoch":"x","beat":1}',
]


@pytest.mark.parametrize("data", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_file_is_refused_and_kept(file: Path, data: bytes) -> None:
    """Ignoring it would accept a ZooKeeper that lost all its data as a new cluster."""
    file.write_bytes(data)
    with pytest.raises(
        Refused, match="is damaged; if this is the right ZooKeeper, start the node once with --accept-zookeeper"
    ):
        LastSeenFile(file)
    assert file.read_bytes() == data


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"cluster_id":"a","epoch":1e999,"beat":1}'], ids=["deep", "infinite"])
def test_deeply_nested_or_infinite_json_is_refused(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    with pytest.raises(Refused):
        LastSeenFile(file)


def test_unreadable_file_is_refused(file: Path) -> None:
    file.mkdir()
    with pytest.raises(Refused):
        LastSeenFile(file)


def test_write_replaces_the_file_and_keeps_the_old_content_intact(file: Path) -> None:
    """A process that has the old file open still reads the complete old content."""
    write_atomically(file, b"old " * 1000)
    with file.open("rb") as before:
        write_atomically(file, b"new")
        assert before.read() == b"old " * 1000
    assert file.read_bytes() == b"new"


def test_write_leaves_no_temporary_file_and_a_private_mode(file: Path) -> None:
    write_atomically(file, b"x")
    assert list(file.parent.iterdir()) == [file]
    assert file.stat().st_mode & 0o777 == 0o600


FULL_DISK = """
import resource, sys
from pathlib import Path
from holdfast.atomic_file import write_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))  # like a full disk: only ten bytes can be written
try:
    write_atomically(Path(sys.argv[1]), b"n" * 20)
except OSError:
    sys.exit(3)
"""


def test_full_disk_raises_and_keeps_the_old_content(file: Path) -> None:
    file.write_text("old")
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(file)], check=False)
    assert file.read_text() == "old"
    assert done.returncode == 3


def test_file_is_plain_json(file: Path) -> None:
    record(file, watermark(10))
    assert json.loads(file.read_text()) == {"cluster_id": "1-a", "epoch": 3, "beat": 10}
