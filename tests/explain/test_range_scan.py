"""Scan of ranges: a file gives the same lines, records and events however it is split, and nothing is lost."""

import gzip
import pickle
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.explain import range_scan
from holdfast.explain.analyze import analyze
from holdfast.explain.inputs import InputFile, find_inputs
from holdfast.explain.library import load_library
from holdfast.explain.scan import event_budget, ranges, templates
from holdfast.explain.timeline.merge import merge_scans
from tests.harness.explain_in_process import scan_files

KNOWN = load_library()
RECORD = "2016-01-19 13:13:{:02d},{:03d} - WARN  [SyncThread:1:FileTxnLog@334] - {}\n"
MESSAGES = [
    "fsync-ing the write ahead log in SyncThread:1 took 30334ms which will adversely effect operation latency.",
    "Exception when following the leader\njava.io.EOFException\n" + "        at a.b.C.d(C.java:1)\n" * 9,
    "LOOKING",
    "Nothing of interest",
    "Expiring session 0x2000001d2330001, timeout of 6000ms exceeded",
]


def log(seed: int, records: int = 400) -> bytes:
    chance = random.Random(seed)
    return "".join(RECORD.format(n // 10 % 60, n % 1000, chance.choice(MESSAGES)) for n in range(records)).encode()


def scan_in_steps(path: Path, size: int, step: int) -> tuple[Any, ...]:
    """Scan a file in ranges of `step` bytes."""
    parts = [ranges.ByteRange(0, str(path), "", begin, min(begin + step, size)) for begin in range(0, size, step)]
    merged = merge_scans(
        [InputFile(str(path), "x", size)], [range_scan.scan_ranges([range], KNOWN, compiled=True) for range in parts]
    )
    events = [
        (event.kind, event.offset, event.line, event.ms, event.repetitions.total, event.repetitions.last_ms)
        for event in merged.events
    ]
    return (
        merged.counts,
        events,
        merged.dropped,
        sorted((one.template, one.count) for one in merged.templates),
        merged.uncounted_records,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_result_does_not_depend_on_how_a_file_is_split(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = log(seed)
    file = tmp_path / "a.log"
    file.write_bytes(data)
    whole = scan_in_steps(file, len(data), len(data))
    for step in (len(data) // 2, 10_007, 997, 101):
        assert scan_in_steps(file, len(data), step) == whole, step
    monkeypatch.setattr(range_scan, "BLOCK_BYTES", 700)
    monkeypatch.setattr(range_scan, "RECORD_MEMORY_BYTES", 2800)
    assert scan_in_steps(file, len(data), len(data)) == whole


def test_events_have_correct_offsets_and_line_numbers(tmp_path: Path) -> None:
    data = log(7)
    (tmp_path / "a.log").write_bytes(data)
    lines = data.decode().splitlines()
    found = scan_files(tmp_path / "a.log")
    assert found.events
    for event in found.events:
        assert data[event.offset :].startswith(event.text.encode())
        assert lines[event.line - 1].strip() == event.text


def test_compressed_files_give_the_same_counts(tmp_path: Path) -> None:
    data = log(3)
    (tmp_path / "a.log").write_bytes(data)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(data))
    (tmp_path / "c").write_bytes(pyarrow.compress(data, "zstd", asbytes=True))
    counts = (
        scan_files(tmp_path / "a.log").counts_by_file
        + scan_files(tmp_path / "b.log.gz").counts_by_file
        + scan_files(tmp_path / "c").counts_by_file
    )
    assert counts[0] == counts[1] == counts[2]
    assert counts[0].bytes == len(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrapper",
    ["2016-01-19T13:13:59.{:03d}456789Z stdout F ", "Jan 19 13:13:59 node{:03d} zookeeper[812]: "],
    ids=["kubernetes", "journald"],
)
def test_prefixes_of_log_collectors_do_not_change_the_events(tmp_path: Path, wrapper: str) -> None:
    data = log(5)
    (tmp_path / "a.log").write_bytes(data)
    lines = [wrapper.format(n % 7) + line for n, line in enumerate(data.decode().splitlines(keepends=True))]
    (tmp_path / "b.log").write_text("".join(lines))
    plain, wrapped = scan_files(tmp_path / "a.log"), scan_files(tmp_path / "b.log")
    assert (plain.counts.lines, plain.counts.records) == (wrapped.counts.lines, wrapped.counts.records)
    events = [[(event.kind, event.line, event.ms, event.duration_ms) for event in found.events] for found in (plain, wrapped)]
    assert events[0] == events[1]


def test_damaged_archive_is_read_up_to_the_damage_and_reported(tmp_path: Path) -> None:
    whole = gzip.compress(log(3, 4000))
    (tmp_path / "b.log.gz").write_bytes(whole[: len(whole) // 2])
    found = scan_files(tmp_path / "b.log.gz")
    assert "b.log.gz: not read to its end" in found.problems[0]


ODD = {
    "empty": b"",
    "newline": b"\n",
    "no end": b"2016-01-19 13:13:09,418 - WARN  [main:A@1] - LOOKING",
    "zeros": b"\0" * 5000 + b"\n" + b"\0\n" * 10,
    "not utf-8": b"2016-01-19 13:13:09,418 - WARN  [main:F@1] - \xff\xfe fsync-ing the write ahead log in \xf0 took 5000ms\n",
    "carriage returns": b"2016-01-19 13:13:09,418 - WARN  [main:A@1] - x\r\n\r\ntext\r\n",
    "only frames": b"\tat a.b(C.java:1)\n" * 50,
    "a time that is none": b"2016-99-99 13:13:09,418 - WARN  [QuorumPeer[myid=1]:A@1] - LOOKING\n",
}


@pytest.mark.parametrize("name", ODD)
def test_lines_of_unusual_files_are_counted(tmp_path: Path, name: str) -> None:
    data = ODD[name]
    (tmp_path / "x.log").write_bytes(data)
    counts = scan_files(tmp_path / "x.log").counts
    assert counts.bytes == len(data)
    assert counts.lines == data.count(b"\n") + (not data.endswith(b"\n") and len(data) > 0)
    assert counts.unparsed_lines <= counts.lines


@pytest.mark.slow
def test_lines_and_records_of_tens_of_megabytes_are_read(tmp_path: Path) -> None:
    """Events after them are found, too."""
    line = b"2016-01-19 13:13:09,418 - WARN  [main:A@1] - " + b"x" * 30_000_000 + b"\n"
    trace = b"2016-01-19 13:13:10,418 - WARN  [main:A@1] - y\n" + b"\tat a.b.C.d(C.java:1)\n" * 2_000_000
    last = b"2016-01-19 13:13:11,418 - INFO  [QuorumPeer[myid=1]:A@1] - LOOKING\n"
    (tmp_path / "x.log").write_bytes(line + trace + last)
    found = scan_files(tmp_path / "x.log", compiled=True)
    assert (found.counts.lines, found.counts.records, found.counts.unparsed_lines) == (2_000_003, 3, 0)
    assert [event.kind for event in found.events] == ["zk-looking"]
    assert found.events[0].line == 2_000_003


def test_result_is_bounded_and_further_events_are_counted(tmp_path: Path) -> None:
    line = "2016-01-19 13:{:02d}:09,418 - INFO  [QuorumPeer[myid=1]:A@1] - LOOKING\n"
    kinds = "".join(f"2016-01-19 13:00:00,000 - INFO  [main:A@1] - word{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10 % 10]}"
                    f"{'uvwxyz'[n // 100 % 6]} here\n" for n in range(600))  # fmt: skip  # one item per line is harder to read
    (tmp_path / "x.log").write_text("".join(line.format(minute) for minute in (1, 2) for _ in range(200)) + kinds)
    found = scan_files(tmp_path / "x.log")
    assert len(found.events) == 2 * event_budget.EVENTS_PER_MINUTE
    assert found.counts.events == 400
    assert sorted(event.repetitions.total for event in found.events)[-3:] == [0] + [200 - event_budget.EVENTS_PER_MINUTE] * 2
    assert len(found.templates) == templates.TEMPLATES_PER_RANGE_MAX
    assert sum(one.count for one in found.templates) + found.uncounted_records == found.counts.records == 1000


@pytest.mark.slow
def test_of_200_000_equal_lines_in_a_minute_50_are_kept_and_all_are_counted(
    tmp_path: Path,
) -> None:
    lost = (
        "2016-01-19 13:13:{:02d},{:03d} - INFO  [main-SendThread:ClientCnxn@1] - Unable to read additional data from server "
        "sessionid 0x{}, likely server has closed socket\n"
    )
    lines = [lost.format(n // 4000, n // 4 % 1000, 7 if n % 1000 else n % 7 + 1) for n in range(200_000)]
    (tmp_path / "x.log").write_text("".join(lines))
    answer = analyze(scan_files(tmp_path / "x.log", compiled=True), KNOWN)
    (task,) = ranges.plan_tasks(find_inputs([str(tmp_path / "x.log")]))
    sent = pickle.dumps(range_scan.scan_ranges(task, KNOWN, compiled=True))
    assert len(sent) < 100_000, "a task returns little of 30 MB"
    assert len(answer.scan.events) == event_budget.EVENTS_PER_MINUTE
    assert answer.scan.counts.events == 200_000
    by_session = {one.value("session"): one for one in answer.occurrences}
    assert by_session["0x7"].count == sum("sessionid 0x7," in line for line in lines)
    assert by_session["0x7"].last_ms - by_session["0x7"].begin_ms == 49_999, (
        "up to the last repetition, not the last kept event"
    )
    assert sum(one.count for one in answer.occurrences) + answer.scan.dropped.total() == 200_000
    assert answer.notes == [
        "199,950 events are only counted: the first 50 of a kind per minute and file are kept, and about 400,000 in total"
    ]


@pytest.mark.slow
def test_repetitions_beyond_the_key_limit_are_counted_by_minute(tmp_path: Path) -> None:
    expired = RECORD.format(1, 1, "Expiring session 0x{:x}, timeout of 6000ms exceeded")
    (tmp_path / "x.log").write_text("".join(expired.format(n % 3000) for n in range(9000)))
    found = scan_files(tmp_path / "x.log")
    assert len(found.events) == event_budget.EVENTS_PER_MINUTE
    assert [event.repetitions.total for event in found.events] == [2] * event_budget.EVENTS_PER_MINUTE
    assert found.dropped.total() == 9000 - 3 * event_budget.EVENTS_PER_MINUTE
    assert found.counts.events == 9000


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=300), st.lists(st.tuples(st.integers(0, 4000), st.binary(max_size=12)), max_size=12), st.integers(0, 99)
)
def test_counts_add_up_for_corrupted_logs(
    tmp_path_factory: pytest.TempPathFactory, head: bytes, noise: list[tuple[int, bytes]], seed: int
) -> None:
    data = bytearray(head + log(seed, 30))
    for at, bytes in noise:
        data[at : at + len(bytes) // 2] = bytes
    file = tmp_path_factory.getbasetemp() / "noise.log"
    file.write_bytes(data)
    found = scan_files(file)
    counts = found.counts
    assert counts.bytes == len(data)
    assert counts.lines == data.count(b"\n") + (len(data) > 0 and not data.endswith(b"\n"))
    assert sum(one.count for one in found.templates) + found.uncounted_records == counts.records
    assert counts.events == sum(1 + event.repetitions.total for event in found.events) + found.dropped.total()
    assert counts.records + counts.unparsed_lines <= counts.lines
    assert Counter(event.file for event in found.events).keys() <= {0}


def test_file_with_another_prefix_than_expected_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(log(1))
    (one,) = find_inputs([str(tmp_path / "a.log")])
    ((range,),) = ranges.plan_tasks([one])
    (same,) = range_scan.scan_ranges([range._replace(expected_prefix=one.prefix)], KNOWN, compiled=False).ranges
    assert same.was_opened and same.records
    (tmp_path / "a.log").write_bytes(b"another machine's\n" + log(1))
    (other,) = range_scan.scan_ranges([range._replace(expected_prefix=one.prefix)], KNOWN, compiled=False).ranges
    assert not other.was_opened and not other.records
    assert other.problem == "cannot be read: this machine has a different file at this path"


def test_small_files_are_combined_and_large_ones_split() -> None:
    files = [InputFile(f"/{n}", f"{n}", size) for n, size in enumerate([10, ranges.RANGE_BYTES * 2 + 5, 0, 20])]
    work = ranges.plan_tasks([*files, InputFile("/z.gz", "z", ranges.RANGE_BYTES * 3, "gzip")])
    parts = [range for task in work for range in task]
    for number, file in enumerate(files):
        mine = [r for r in parts if r.file == number]
        assert sum(r.end - r.begin for r in mine) == file.size
    assert any(len(task) > 1 for task in work)
    assert [(r.begin, r.end) for r in parts if r.compression] == [(0, ranges.RANGE_BYTES * 3)]


@given(st.lists(st.integers(1, 5), max_size=60), st.integers(1, 8))
def test_batches_contain_each_range_once_and_get_smaller(sizes: list[int], workers: int) -> None:
    numbers = iter(range(1000))
    tasks = [tuple(ranges.ByteRange(next(numbers), "x", "", 0, 1) for _ in range(size)) for size in sizes]
    dealt = ranges.batch_tasks(tasks, workers)
    assert [part for task in dealt for part in task] == [part for task in tasks for part in task]
    assert len(dealt) >= min(len(tasks), workers), "every worker has a batch"
    alike = ranges.batch_tasks([(part,) for task in tasks for part in task], workers)
    lengths = [len(task) for task in alike]
    assert lengths == sorted(lengths, reverse=True)
    assert max(lengths, default=0) <= ranges.BATCH_MAX
