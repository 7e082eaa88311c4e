"""What comes back from Spark does not grow with the logs: each range has its share of room, and counts what does not fit."""

import pickle
from pathlib import Path

import pytest

from holdfast.explain.inputs import Input, inputs
from holdfast.explain.library import library
from holdfast.explain.range_scan import Haul, scan
from holdfast.explain.scan import ranges
from holdfast.explain.spark.scan_job import packed, unpacked
from holdfast.explain.timeline.merge import Gathered, gathered

KNOWN = library()
TERABYTE = 10**12
KINDS = ("zk-session-expired", "zk-fsync-slow", "zk-looking")


def _line(minute: int, ms: int, says: str) -> str:
    at = f"{13 + minute // 60:02d}:{minute % 60:02d}:09,{ms % 1000:03d}"
    return f"2016-01-19 {at} - WARN  [SyncThread:1:FileTxnLog@334] - {says}\n"


def busy_log(minutes: int = 100) -> str:
    """Many sessions expire, some writes are slow, and once there is an election. No two lines are quite alike."""
    lines: list[str] = []
    for minute in range(minutes):
        name = "".join("abcdefghij"[int(digit)] for digit in str(minute))
        lines += [_line(minute, n, f"Expiring session 0x{minute * 100 + n:x}, timeout of 6000ms exceeded") for n in range(60)]
        lines += [_line(minute, n, f"fsync-ing the write ahead log in SyncThread:1 took {3000 + n}ms") for n in range(5)]
        lines += [_line(minute, 0, f"{name} is nothing of interest")]
        if minute == minutes - 1:
            lines.append(_line(minute, 1, "LOOKING"))
    return "".join(lines)


def _read(path: Path, room: int) -> tuple[Haul, Gathered]:
    files = inputs([str(path)])
    parts = [part._replace(room=room) for task in ranges.tasks(files) for part in task]
    haul = scan(parts, KNOWN, compiled=False)
    return haul, gathered(files, [haul])


@pytest.mark.parametrize("room", [3, 8, 100, 3000])
def test_a_range_sends_back_as_much_as_it_has_room_for_and_the_rest_as_numbers(tmp_path: Path, room: int) -> None:
    (tmp_path / "x.log").write_text(busy_log())
    haul, found = _read(tmp_path / "x.log", room)
    ((one,), looks) = haul.ranges, haul.looks
    assert len(one.own.events) <= room
    assert len(one.own.over) <= room
    assert len(one.own.dropped) <= room + len(KINDS)
    assert len(looks.often) <= room
    assert found.counts.events == 100 * 65 + 1
    assert sum(1 + event.again for event in found.events) + found.dropped.total() == found.counts.events
    assert sum(look.count for look in found.looks) + found.other_records == found.counts.records == 100 * 66 + 1


def test_where_there_is_little_room_a_rare_kind_is_not_lost_and_every_kind_is_told_from_many_minutes(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text(busy_log())
    _, found = _read(tmp_path / "x.log", 41)
    minutes = {kind: [event.minute for event in found.events if event.kind == kind] for kind in KINDS}
    assert {kind: len(told) for kind, told in minutes.items()} == dict(zip(KINDS, (20, 20, 1), strict=True))
    assert all(len(set(told)) == len(told) for told in minutes.values())


def test_where_there_is_little_room_the_busiest_minutes_are_told(tmp_path: Path) -> None:
    slow = "fsync-ing the write ahead log in SyncThread:1 took 3000ms"
    (tmp_path / "x.log").write_text(busy_log() + "".join(_line(100 + n // 9, n, slow) for n in range(90)))
    _, found = _read(tmp_path / "x.log", 21)
    assert sorted(event.minute - found.events[0].minute for event in found.events if event.kind == "zk-fsync-slow") == list(
        range(100, 110)
    )


def test_a_small_log_beside_large_ones_has_room() -> None:
    """A coordinator's log of 2 MB, among 10 GB of what the workers wrote."""
    sizes = [10_000_000] * 500 + [5_000_000_000, 2_000_000]
    parts = [part for task in ranges.tasks([Input(str(n), str(n), size) for n, size in enumerate(sizes)]) for part in task]
    (small,) = (part for part in parts if part.file == 501)
    assert small.room > 500


def test_what_is_told_is_told_as_often_as_it_was_said_however_little_room_there_is(tmp_path: Path) -> None:
    says = [f"Expiring session 0x{session:x}, timeout of 6000ms exceeded" for session in range(60)] * 5
    (tmp_path / "x.log").write_text("".join(_line(0, n, line) for n, line in enumerate(says)))
    _, found = _read(tmp_path / "x.log", 10)
    assert [event.again for event in found.events] == [4] * 10
    assert found.dropped.total() == 5 * 50


def test_even_without_room_each_kind_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text(busy_log())
    _, found = _read(tmp_path / "x.log", 1)
    assert sorted(event.kind for event in found.events) == sorted(KINDS)


@pytest.mark.parametrize("files", [1, 7, 1000, 20_000])
def test_a_terabyte_has_no_more_room_than_a_gigabyte(files: int) -> None:
    def parts(size: int) -> list[ranges.Range]:
        return [part for task in ranges.tasks([Input(str(n), str(n), size // files) for n in range(files)]) for part in task]

    for size in (10**9, TERABYTE, 100 * TERABYTE):
        cut = parts(size)
        assert len(cut) <= ranges.RANGES_MAX + files
        assert sum(part.room for part in cut) <= 2 * ranges.ROOM + ranges.ROOM_MIN * len(cut)
        assert sum(part.end - part.begin for part in cut) == size // files * files


def test_what_a_terabyte_sends_back_fits_into_the_memory_of_spark(tmp_path: Path) -> None:
    """Of a range that is as full of events as any, with the room that it has among so many."""
    parts = [part for task in ranges.tasks([Input("x", "x", TERABYTE)]) for part in task]
    (tmp_path / "x.log").write_text(busy_log(400))
    haul, _ = _read(tmp_path / "x.log", parts[0].room)
    sent = packed(pickle.dumps(haul))
    assert pickle.loads(unpacked(sent)) == haul
    assert len(sent) * len(parts) < 100_000_000
