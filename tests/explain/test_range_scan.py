"""Ranges, blocks, compression and noise: the same lines, records and events however a file is cut, and nothing is lost."""

import gzip
import pickle
import random
from collections import Counter
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.explain import range_scan as scanning
from holdfast.explain.analyze import answer as explained
from holdfast.explain.inputs import Input, inputs
from holdfast.explain.library import library
from holdfast.explain.scan import event_budget, ranges, templates
from holdfast.explain.timeline.merge import gathered
from tests.harness.explain_in_process import read

KNOWN = library()
RECORD = "2016-01-19 13:13:{:02d},{:03d} - WARN  [SyncThread:1:FileTxnLog@334] - {}\n"
SAYS = [
    "fsync-ing the write ahead log in SyncThread:1 took 30334ms which will adversely effect operation latency.",
    "Exception when following the leader\njava.io.EOFException\n" + "        at a.b.C.d(C.java:1)\n" * 9,
    "LOOKING",
    "Nothing of interest",
    "Expiring session 0x2000001d2330001, timeout of 6000ms exceeded",
]


def log(seed: int, records: int = 400) -> bytes:
    chance = random.Random(seed)
    return "".join(RECORD.format(n // 10 % 60, n % 1000, chance.choice(SAYS)) for n in range(records)).encode()


def summed(path: Path, size: int, step: int) -> tuple[object, ...]:
    """Of a file that is cut into ranges of `step` bytes."""
    parts = [ranges.Range(0, str(path), "", begin, min(begin + step, size)) for begin in range(0, size, step)]
    all = gathered([Input(str(path), "x", size)], [scanning.scan([range], KNOWN, compiled=True) for range in parts])
    events = [(event.kind, event.offset, event.line, event.ms, event.again, event.again_ms) for event in all.events]
    return all.counts, events, all.dropped, sorted((look.look, look.count) for look in all.looks), all.other_records


@pytest.mark.parametrize("seed", range(3))
def test_however_a_file_is_cut_the_findings_are_the_same(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = log(seed)
    file = tmp_path / "a.log"
    file.write_bytes(data)
    whole = summed(file, len(data), len(data))
    for step in (len(data) // 2, 10_007, 997, 101):
        assert summed(file, len(data), step) == whole, step
    monkeypatch.setattr(scanning, "BLOCK_BYTES", 700)
    monkeypatch.setattr(scanning, "LONG_BYTES", 2800)
    assert summed(file, len(data), len(data)) == whole


def test_lines_are_where_they_are_said_to_be(tmp_path: Path) -> None:
    data = log(7)
    (tmp_path / "a.log").write_bytes(data)
    lines = data.decode().splitlines()
    found = read(tmp_path / "a.log")
    assert found.events
    for event in found.events:
        assert data[event.offset :].startswith(event.text.encode())
        assert lines[event.line - 1].strip() == event.text


def test_compressed_files_say_the_same(tmp_path: Path) -> None:
    data = log(3)
    (tmp_path / "a.log").write_bytes(data)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(data))
    (tmp_path / "c").write_bytes(pyarrow.compress(data, "zstd", asbytes=True))
    counts = read(tmp_path / "a.log").of_files + read(tmp_path / "b.log.gz").of_files + read(tmp_path / "c").of_files
    assert counts[0] == counts[1] == counts[2]
    assert counts[0].bytes == len(data)


@pytest.mark.parametrize(
    "wrapper",
    ["2016-01-19T13:13:59.{:03d}456789Z stdout F ", "Jan 19 13:13:59 node{:03d} zookeeper[812]: "],
    ids=["kubernetes", "journald"],
)
def test_lines_that_something_has_put_a_word_before_say_the_same(tmp_path: Path, wrapper: str) -> None:
    data = log(5)
    (tmp_path / "a.log").write_bytes(data)
    lines = [wrapper.format(n % 7) + line for n, line in enumerate(data.decode().splitlines(keepends=True))]
    (tmp_path / "b.log").write_text("".join(lines))
    plain, wrapped = read(tmp_path / "a.log"), read(tmp_path / "b.log")
    assert (plain.counts.lines, plain.counts.records) == (wrapped.counts.lines, wrapped.counts.records)
    said = [[(event.kind, event.line, event.ms, event.duration_ms) for event in found.events] for found in (plain, wrapped)]
    assert said[0] == said[1]


def test_a_damaged_archive_is_read_as_far_as_it_goes_and_named(tmp_path: Path) -> None:
    whole = gzip.compress(log(3, 4000))
    (tmp_path / "b.log.gz").write_bytes(whole[: len(whole) // 2])
    found = read(tmp_path / "b.log.gz")
    assert "b.log.gz: not read to its end" in found.troubles[0]


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
def test_odd_files_are_read_and_their_lines_counted(tmp_path: Path, name: str) -> None:
    data = ODD[name]
    (tmp_path / "x.log").write_bytes(data)
    counts = read(tmp_path / "x.log").counts
    assert counts.bytes == len(data)
    assert counts.lines == data.count(b"\n") + (not data.endswith(b"\n") and len(data) > 0)
    assert counts.unparsed_lines <= counts.lines


def test_lines_and_records_of_tens_of_megabytes_are_no_trouble(tmp_path: Path) -> None:
    """And what comes after them is found."""
    line = b"2016-01-19 13:13:09,418 - WARN  [main:A@1] - " + b"x" * 30_000_000 + b"\n"
    trace = b"2016-01-19 13:13:10,418 - WARN  [main:A@1] - y\n" + b"\tat a.b.C.d(C.java:1)\n" * 2_000_000
    last = b"2016-01-19 13:13:11,418 - INFO  [QuorumPeer[myid=1]:A@1] - LOOKING\n"
    (tmp_path / "x.log").write_bytes(line + trace + last)
    found = read(tmp_path / "x.log", compiled=True)
    assert (found.counts.lines, found.counts.records, found.counts.unparsed_lines) == (2_000_003, 3, 0)
    assert [event.kind for event in found.events] == ["zk-looking"]
    assert found.events[0].line == 2_000_003


def test_what_comes_back_is_bounded_and_what_does_not_is_counted(tmp_path: Path) -> None:
    line = "2016-01-19 13:{:02d}:09,418 - INFO  [QuorumPeer[myid=1]:A@1] - LOOKING\n"
    kinds = "".join(f"2016-01-19 13:00:00,000 - INFO  [main:A@1] - word{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10 % 10]}"
                    f"{'uvwxyz'[n // 100 % 6]} here\n" for n in range(600))  # fmt: skip
    (tmp_path / "x.log").write_text("".join(line.format(minute) for minute in (1, 2) for _ in range(200)) + kinds)
    found = read(tmp_path / "x.log")
    assert len(found.events) == 2 * event_budget.EVENTS_PER_MINUTE
    assert found.counts.events == 400
    assert sorted(event.again for event in found.events)[-3:] == [0] + [200 - event_budget.EVENTS_PER_MINUTE] * 2
    assert len(found.looks) == templates.LOOKS_MAX
    assert sum(look.count for look in found.looks) + found.other_records == found.counts.records == 1000


def test_a_line_of_which_there_are_200_000_in_a_minute_is_kept_50_times_and_told_as_often_as_it_was_said(
    tmp_path: Path,
) -> None:
    lost = (
        "2016-01-19 13:13:{:02d},{:03d} - INFO  [main-SendThread:ClientCnxn@1] - Unable to read additional data from server "
        "sessionid 0x{}, likely server has closed socket\n"
    )
    lines = [lost.format(n // 4000, n // 4 % 1000, 7 if n % 1000 else n % 7 + 1) for n in range(200_000)]
    (tmp_path / "x.log").write_text("".join(lines))
    answer = explained(read(tmp_path / "x.log", compiled=True), KNOWN)
    (task,) = ranges.tasks(inputs([str(tmp_path / "x.log")]))
    sent = pickle.dumps(scanning.scan(task, KNOWN, compiled=True))
    assert len(sent) < 100_000, "what goes to the driver, of 30 MB"
    assert len(answer.gathered.events) == event_budget.EVENTS_PER_MINUTE
    assert answer.gathered.counts.events == 200_000
    told = {one.of("session"): one for one in answer.happenings}
    assert told["0x7"].count == sum("sessionid 0x7," in line for line in lines)
    assert told["0x7"].last_ms - told["0x7"].begin_ms == 49_999, "to the last of them, and not to the last that is kept"
    assert sum(one.count for one in answer.happenings) + answer.gathered.dropped.total() == 200_000
    assert answer.notes == [
        "199,950 events are only counted: of each kind, the first 50 of a minute of a file are kept, and some 400,000 in all"
    ]


def test_repetitions_of_more_kinds_than_are_counted_one_by_one_are_counted_together(tmp_path: Path) -> None:
    expired = RECORD.format(1, 1, "Expiring session 0x{:x}, timeout of 6000ms exceeded")
    (tmp_path / "x.log").write_text("".join(expired.format(n % 3000) for n in range(9000)))
    found = read(tmp_path / "x.log")
    assert len(found.events) == event_budget.EVENTS_PER_MINUTE
    assert [event.again for event in found.events] == [2] * event_budget.EVENTS_PER_MINUTE
    assert found.dropped.total() == 9000 - 3 * event_budget.EVENTS_PER_MINUTE
    assert found.counts.events == 9000


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=300), st.lists(st.tuples(st.integers(0, 4000), st.binary(max_size=12)), max_size=12), st.integers(0, 99)
)
def test_noise_never_breaks_it_and_the_counts_add_up(
    tmp_path_factory: pytest.TempPathFactory, head: bytes, noise: list[tuple[int, bytes]], seed: int
) -> None:
    data = bytearray(head + log(seed, 30))
    for at, bytes in noise:
        data[at : at + len(bytes) // 2] = bytes
    file = tmp_path_factory.getbasetemp() / "noise.log"
    file.write_bytes(data)
    found = read(file)
    counts = found.counts
    assert counts.bytes == len(data)
    assert counts.lines == data.count(b"\n") + (len(data) > 0 and not data.endswith(b"\n"))
    assert sum(look.count for look in found.looks) + found.other_records == counts.records
    assert counts.events == sum(1 + event.again for event in found.events) + found.dropped.total()
    assert counts.records + counts.unparsed_lines <= counts.lines
    assert Counter(event.file for event in found.events).keys() <= {0}


def test_a_file_that_begins_otherwise_than_the_one_that_was_named_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(log(1))
    (one,) = inputs([str(tmp_path / "a.log")])
    ((range,),) = ranges.tasks([one])
    (same,) = scanning.scan([range._replace(beginning=one.beginning)], KNOWN, compiled=False).ranges
    assert same.opened and same.records
    (tmp_path / "a.log").write_bytes(b"another machine's\n" + log(1))
    (other,) = scanning.scan([range._replace(beginning=one.beginning)], KNOWN, compiled=False).ranges
    assert not other.opened and not other.records
    assert other.trouble == "cannot be read: there is another file of that name"


def test_small_files_are_packed_and_large_ones_split() -> None:
    files = [Input(f"/{n}", f"{n}", size) for n, size in enumerate([10, ranges.RANGE_BYTES * 2 + 5, 0, 20])]
    work = ranges.tasks([*files, Input("/z.gz", "z", ranges.RANGE_BYTES * 3, "gzip")])
    parts = [range for task in work for range in task]
    for number, file in enumerate(files):
        mine = [r for r in parts if r.file == number]
        assert sum(r.end - r.begin for r in mine) == file.size
    assert any(len(task) > 1 for task in work)
    assert [(r.begin, r.end) for r in parts if r.compression] == [(0, ranges.RANGE_BYTES * 3)]


@given(st.lists(st.integers(1, 5), max_size=60), st.integers(1, 8))
def test_tasks_are_dealt_out_each_part_once_and_in_order_the_large_ones_first(sizes: list[int], workers: int) -> None:
    numbers = iter(range(1000))
    tasks = [tuple(ranges.Range(next(numbers), "x", "", 0, 1) for _ in range(size)) for size in sizes]
    dealt = ranges.in_turns(tasks, workers)
    assert [part for task in dealt for part in task] == [part for task in tasks for part in task]
    assert len(dealt) >= min(len(tasks), workers), "nobody has nothing to do"
    alike = ranges.in_turns([(part,) for task in tasks for part in task], workers)
    lengths = [len(task) for task in alike]
    assert lengths == sorted(lengths, reverse=True)
    assert max(lengths, default=0) <= ranges.TOGETHER_MAX
