"""What a node remembers across restarts, in a file that is never half written."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.atomic_file import write_atomically
from holdfast.errors import Refused
from holdfast.model.cluster_watermark import Sighting
from holdfast.node.last_seen import FileMemory


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memory.json"


def seen(beat: int, *, epoch: int = 3, cluster: str = "1-a") -> Sighting:
    return Sighting(cluster, epoch, beat)


def test_a_node_that_has_seen_nothing_remembers_nothing(file: Path) -> None:
    assert FileMemory(file).recall() is None
    assert not file.exists()


def test_the_first_sighting_is_written_down_at_once(file: Path) -> None:
    FileMemory(file).remember(seen(1))
    assert FileMemory(file).recall() == seen(1)


def test_beats_are_written_down_sparsely_and_all_of_them_remembered(file: Path) -> None:
    memory = FileMemory(file)
    memory.remember(seen(10))
    for beat in range(11, 15):
        memory.remember(seen(beat))
        assert memory.recall() == seen(beat)
        assert FileMemory(file).recall() == seen(10), "not every beat is worth a write"
    memory.remember(seen(15))
    assert FileMemory(file).recall() == seen(15)
    memory.remember(seen(19))
    assert FileMemory(file).recall() == seen(15), "counted from the last one that was written"


@pytest.mark.parametrize("now", [seen(11, epoch=4), seen(11, cluster="2-b")], ids=["a new epoch", "an accepted cluster"])
def test_another_epoch_or_cluster_is_written_down_at_once(file: Path, now: Sighting) -> None:
    memory = FileMemory(file)
    memory.remember(seen(10))
    memory.remember(now)
    assert FileMemory(file).recall() == now


def test_after_a_restart_it_goes_on_from_what_was_written(file: Path) -> None:
    FileMemory(file).remember(seen(10))
    again = FileMemory(file)
    again.remember(seen(12))
    assert FileMemory(file).recall() == seen(10)
    again.remember(seen(15))
    assert FileMemory(file).recall() == seen(15)


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
def test_a_damaged_memory_is_refused_and_not_forgotten(file: Path, data: bytes) -> None:
    """Without it, a ZooKeeper that lost everything would be taken for a new one."""
    file.write_bytes(data)
    with pytest.raises(Refused, match="is damaged; if this cluster's ZooKeeper is right, start once with --accept-zookeeper"):
        FileMemory(file)
    assert file.read_bytes() == data


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"cluster_id":"a","epoch":1e999,"beat":1}'], ids=["deep", "infinite"])
def test_an_oddly_damaged_memory_is_refused_too(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    with pytest.raises(Refused):
        FileMemory(file)


def test_a_memory_that_cannot_be_read_is_refused_in_a_sentence(file: Path) -> None:
    file.mkdir()
    with pytest.raises(Refused):
        FileMemory(file)


def test_writing_replaces_the_file_and_never_touches_the_old_content(file: Path) -> None:
    """Whoever has the old file open, or finds it after a power cut, has all of it."""
    write_atomically(file, b"old " * 1000)
    with file.open("rb") as before:
        write_atomically(file, b"new")
        assert before.read() == b"old " * 1000
    assert file.read_bytes() == b"new"


def test_writing_leaves_nothing_else_behind_and_keeps_others_out(file: Path) -> None:
    write_atomically(file, b"x")
    assert list(file.parent.iterdir()) == [file]
    assert file.stat().st_mode & 0o777 == 0o600


FULL_DISK = """
import resource, sys
from pathlib import Path
from holdfast.atomic_file import write_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))  # as a full disk: ten bytes go in, and no more
try:
    write_atomically(Path(sys.argv[1]), b"n" * 20)
except OSError:
    sys.exit(3)
"""


def test_a_disk_that_is_full_leaves_the_old_content_and_is_said(file: Path) -> None:
    file.write_text("old")
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(file)], check=False)
    assert file.read_text() == "old"
    assert done.returncode == 3


def test_what_is_written_can_be_read_by_a_person(file: Path) -> None:
    FileMemory(file).remember(seen(10))
    assert json.loads(file.read_text()) == {"cluster_id": "1-a", "epoch": 3, "beat": 10}
