"""Last-seen file of a node, and the atomic writes behind it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.atomic_file import write_atomically
from holdfast.errors import Refused
from holdfast.model.cluster_watermark import ClusterWatermark
from holdfast.node.last_seen import LastSeenFile


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memory.json"


def watermark(beat: int, *, epoch: int = 3, cluster: str = "1-a") -> ClusterWatermark:
    return ClusterWatermark(cluster, epoch, beat)


def test_new_node_has_no_watermark(file: Path) -> None:
    assert LastSeenFile(file).latest() is None
    assert not file.exists()


def test_first_watermark_is_written_at_once(file: Path) -> None:
    LastSeenFile(file).record(watermark(1))
    assert LastSeenFile(file).latest() == watermark(1)


def test_only_every_fifth_beat_is_written(file: Path) -> None:
    last_seen = LastSeenFile(file)
    last_seen.record(watermark(10))
    for beat in range(11, 15):
        last_seen.record(watermark(beat))
        assert last_seen.latest() == watermark(beat)
        assert LastSeenFile(file).latest() == watermark(10), "the file is older than the latest beat"
    last_seen.record(watermark(15))
    assert LastSeenFile(file).latest() == watermark(15)
    last_seen.record(watermark(19))
    assert LastSeenFile(file).latest() == watermark(15), "the interval starts at the last written beat"


@pytest.mark.parametrize(
    "now", [watermark(11, epoch=4), watermark(11, cluster="2-b")], ids=["a new epoch", "an accepted cluster"]
)
def test_new_epoch_or_cluster_is_written_at_once(file: Path, now: ClusterWatermark) -> None:
    last_seen = LastSeenFile(file)
    last_seen.record(watermark(10))
    last_seen.record(now)
    assert LastSeenFile(file).latest() == now


def test_write_interval_continues_after_a_restart(file: Path) -> None:
    LastSeenFile(file).record(watermark(10))
    reopened = LastSeenFile(file)
    reopened.record(watermark(12))
    assert LastSeenFile(file).latest() == watermark(10)
    reopened.record(watermark(15))
    assert LastSeenFile(file).latest() == watermark(15)


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
    LastSeenFile(file).record(watermark(10))
    assert json.loads(file.read_text()) == {"cluster_id": "1-a", "epoch": 3, "beat": 10}
