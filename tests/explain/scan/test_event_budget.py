"""Event limits: the result of a scan does not grow with the logs, and further events are counted."""

import pickle
from pathlib import Path

import pytest

from holdfast.explain.inputs import InputFile, find_inputs
from holdfast.explain.library import load_library
from holdfast.explain.range_scan import TaskScan, scan_ranges
from holdfast.explain.scan import event_budget, ranges
from holdfast.explain.spark.scan_job import compress, decompress
from holdfast.explain.timeline.merge import MergedScan, merge_scans

KNOWN = load_library()
TERABYTE = 10**12
KINDS = ("zk-session-expired", "zk-fsync-slow", "zk-looking")


def _line(minute: int, ms: int, messages: str) -> str:
    at = f"{13 + minute // 60:02d}:{minute % 60:02d}:09,{ms % 1000:03d}"
    return f"2016-01-19 {at} - WARN  [SyncThread:1:FileTxnLog@334] - {messages}\n"


def busy_log(minutes: int = 100) -> str:
    """Return a log with many expired sessions, some slow writes and one election. All lines differ."""
    lines: list[str] = []
    for minute in range(minutes):
        name = "".join("abcdefghij"[int(digit)] for digit in str(minute))
        lines += [_line(minute, n, f"Expiring session 0x{minute * 100 + n:x}, timeout of 6000ms exceeded") for n in range(60)]
        lines += [_line(minute, n, f"fsync-ing the write ahead log in SyncThread:1 took {3000 + n}ms") for n in range(5)]
        lines += [_line(minute, 0, f"{name} is nothing of interest")]
        if minute == minutes - 1:
            lines.append(_line(minute, 1, "LOOKING"))
    return "".join(lines)


def _read(path: Path, limit: int) -> tuple[TaskScan, MergedScan]:
    files = find_inputs([str(path)])
    parts = [part._replace(event_limit=limit) for task in ranges.plan_tasks(files) for part in task]
    task = scan_ranges(parts, KNOWN, compiled=False)
    return task, merge_scans(files, [task])


@pytest.mark.slow
@pytest.mark.parametrize("limit", [3, 8, 100, 3000])
def test_range_returns_at_most_its_limit_and_counts_the_rest(tmp_path: Path, limit: int) -> None:
    (tmp_path / "x.log").write_text(busy_log())
    task, found = _read(tmp_path / "x.log", limit)
    ((one,), templates) = task.ranges, task.templates
    assert len(one.record_events.events) <= limit
    assert len(one.record_events.repeated) <= limit
    assert len(one.record_events.dropped) <= limit + len(KINDS)
    assert len(templates.counts) <= limit
    assert found.counts.events == 100 * 65 + 1
    assert sum(1 + event.repetitions.total for event in found.events) + found.dropped.total() == found.counts.events
    assert sum(one.count for one in found.templates) + found.uncounted_records == found.counts.records == 100 * 66 + 1


@pytest.mark.slow
def test_small_limit_keeps_rare_kinds_and_many_minutes_of_each_kind(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text(busy_log())
    _, found = _read(tmp_path / "x.log", 41)
    minutes = {kind: [event.minute for event in found.events if event.kind == kind] for kind in KINDS}
    assert {kind: len(events_of_kind) for kind, events_of_kind in minutes.items()} == dict(zip(KINDS, (20, 20, 1), strict=True))
    assert all(len(set(events_of_kind)) == len(events_of_kind) for events_of_kind in minutes.values())


@pytest.mark.slow
def test_small_limit_keeps_the_busiest_minutes(tmp_path: Path) -> None:
    slow = "fsync-ing the write ahead log in SyncThread:1 took 3000ms"
    (tmp_path / "x.log").write_text(busy_log() + "".join(_line(100 + n // 9, n, slow) for n in range(90)))
    _, found = _read(tmp_path / "x.log", 21)
    assert sorted(event.minute - found.events[0].minute for event in found.events if event.kind == "zk-fsync-slow") == list(
        range(100, 110)
    )


def test_small_log_beside_large_ones_gets_a_fair_limit() -> None:
    """The log of a coordinator has 2 MB, those of its workers 10 GB."""
    sizes = [10_000_000] * 500 + [5_000_000_000, 2_000_000]
    parts = [
        part for task in ranges.plan_tasks([InputFile(str(n), str(n), size) for n, size in enumerate(sizes)]) for part in task
    ]
    (small,) = (part for part in parts if part.file == 501)
    assert small.event_limit > 500


def test_kept_events_count_their_repetitions_with_a_small_limit(tmp_path: Path) -> None:
    messages = [f"Expiring session 0x{session:x}, timeout of 6000ms exceeded" for session in range(60)] * 5
    (tmp_path / "x.log").write_text("".join(_line(0, n, line) for n, line in enumerate(messages)))
    _, found = _read(tmp_path / "x.log", 10)
    assert [event.repetitions.total for event in found.events] == [4] * 10
    assert found.dropped.total() == 5 * 50


@pytest.mark.slow
def test_each_kind_is_kept_once_even_with_the_smallest_limit(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text(busy_log())
    _, found = _read(tmp_path / "x.log", 1)
    assert sorted(event.kind for event in found.events) == sorted(KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("files", [1, 7, 1000, 20_000])
def test_total_limit_does_not_grow_with_the_input(files: int) -> None:
    def parts(size: int) -> list[ranges.ByteRange]:
        return [
            part
            for task in ranges.plan_tasks([InputFile(str(n), str(n), size // files) for n in range(files)])
            for part in task
        ]

    for size in (10**9, TERABYTE, 100 * TERABYTE):
        cut = parts(size)
        assert len(cut) <= ranges.RANGES_MAX + files
        assert sum(part.event_limit for part in cut) <= 2 * event_budget.EVENTS_MAX + event_budget.RANGE_EVENTS_MIN * len(cut)
        assert sum(part.end - part.begin for part in cut) == size // files * files


@pytest.mark.slow
def test_results_of_a_terabyte_fit_into_the_memory_of_the_driver(tmp_path: Path) -> None:
    """Measured with a range full of events and its limit in an input of a terabyte."""
    parts = [part for task in ranges.plan_tasks([InputFile("x", "x", TERABYTE)]) for part in task]
    (tmp_path / "x.log").write_text(busy_log(400))
    task, _ = _read(tmp_path / "x.log", parts[0].event_limit)
    sent = compress(pickle.dumps(task))
    assert pickle.loads(decompress(sent)) == task
    assert len(sent) * len(parts) < 100_000_000
