"""Logs with prefixes, colours, other encodings and odd contents: the same events are found."""

import gzip
import json
import os
import re
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.explain import range_scan
from holdfast.explain.inputs import find_inputs
from holdfast.explain.library import load_library
from holdfast.explain.library.event_pattern import EventPattern
from holdfast.explain.library.timestamp import format_timestamp, parse_timestamp
from holdfast.explain.scan import header_dfa
from holdfast.explain.scan.ranges import ByteRange
from holdfast.explain.timeline.merge import MergedScan
from tests.explain.test_range_scan import log, scan_in_steps
from tests.harness.explain_in_process import explain_logs, scan_files

LOOKING = b"2016-01-19 13:13:09,418 - INFO  [QuorumPeer[myid=1]:A@1] - LOOKING\n"


def in_docker(data: bytes) -> bytes:
    lines = data.decode().splitlines(keepends=True)
    written = [{"log": line, "stream": "stdout", "time": f"2016-01-19T13:13:59.{n:09d}Z"} for n, line in enumerate(lines)]
    return "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in written).encode()


def coloured(data: bytes) -> bytes:
    return re.sub(rb"(?m)^(\S+ \S+) - WARN", lambda match: b"\x1b[1;32m" + match[1] + b"\x1b[m - \x1b[33mWARN\x1b[0m", data)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [in_docker, coloured, lambda data: data.replace(b"\n", b"\r\n"), lambda data: b"\xef\xbb\xbf" + data],
    ids=["docker", "colours", "carriage returns", "byte order mark"],
)
def test_wrappers_colours_and_line_ends_do_not_change_the_events(tmp_path: Path, changed: Callable[[bytes], bytes]) -> None:
    data = log(5)
    (tmp_path / "a.log").write_bytes(data)
    (tmp_path / "b.log").write_bytes(changed(data))
    original, modified = scan_files(tmp_path / "a.log"), scan_files(tmp_path / "b.log")
    assert event_summary(modified) == event_summary(original)
    assert not any("\x1b" in event.text or "\ufeff" in event.text for event in modified.events)


PREFIXES = [
    "2026-11-16T12:00:00.123456789Z stdout F ",
    "2026-11-16T12:00:00.123456789+01:00 stderr F ",
    "2026-11-16T12:00:00.123456789Z ",
    "[pod/zk-0/zookeeper] ",
    "[pod/zk-0/zookeeper] 2026-11-16T12:00:00.123456789Z ",
    "zk-1  | ",
    "\x1b[36mzk-1  | \x1b[0m",
    "Nov 16 12:00:00 node7 zookeeper[812]: ",
    "Nov  6 12:00:00.123456 node7 zookeeper: ",
    "2026-11-16T12:00:00+0100 node7 zookeeper[812]: ",
    "2026-11-16T12:00:00.123456+01:00 node7 zookeeper[812]: ",
    "2026-11-16T12:00:00.123456-08:00 node7 zookeeper: ",
    "<14>Nov 16 12:00:00 node7 zookeeper[812]: ",
    "<14>1 2026-11-16T12:00:00.123456+01:00 node7 zookeeper 812 - - ",
    "<14>1 2026-11-16T12:00:00Z node7 zookeeper - - - ",
    "zk1/zookeeper.log:",
    "zk1/zookeeper.log:17:",
    "17:",
    "> ",
    ">> ",
    "    ",
    "- `",
]


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_prefix_of_every_line_does_not_change_the_events(tmp_path: Path, compiled: bool) -> None:
    """Collectors, pagers and mails put it before the lines of a stack trace, too. It must not hide the time of the record."""
    trace = LOOKING.replace(b"LOOKING", b"Exception when following the leader: a: b")
    data = (
        LOOKING
        + (
            trace.replace(b"a: b", b"a: b - c | d.log: [e] x.out:7: f")
            + b"java.net.SocketTimeoutException: Read timed out\n\tat a.B.c(D.java:1)\n"
        )
        * 5
        + LOOKING
    )
    (tmp_path / "plain.log").write_bytes(data)
    plain = scan_files(tmp_path / "plain.log", compiled=compiled)
    for number, prefix in enumerate(PREFIXES):
        lines = data.decode().splitlines(keepends=True)
        (tmp_path / f"{number}.log").write_text("".join(prefix + line for line in lines))
        found = scan_files(tmp_path / f"{number}.log", compiled=compiled)
        assert event_summary(found) == event_summary(plain), prefix
        assert found.errors.counts == plain.errors.counts, prefix
        shown = {re.sub(r"\x1b\[[\d;]*m", "", prefix + line).strip() for line in lines}
        assert shown.issuperset(event.text for event in found.events), prefix


def test_lines_that_only_look_wrapped_keep_their_own_times(tmp_path: Path) -> None:
    """A program may write the time as a collector does, and a word with a colon after it."""
    for time in ("2026-11-16T12:00:00.123456789Z", "2026-11-16T12:00:00.123456+01:00"):
        (tmp_path / "a.log").write_text(f"{time} INFO a.B: State change: SUSPENDED\n" * 5)
        found = scan_files(tmp_path / "a.log")
        assert (found.counts.records, found.counts.unparsed_lines, len(found.events)) == (5, 0, 5)
        assert all(event.ms is not None and event.zoned for event in found.events)


def test_quoted_record_ends_with_the_quotation(tmp_path: Path) -> None:
    """Text below a quotation or a code block is not evidence."""
    text = (
        "Anna wrote:\n\n> {}> in the old cluster\n>\n> Expiring session 0x1, timeout of 6000ms exceeded\n\n"
        "- Expiring session 0x2, timeout of 6000ms exceeded\n\n```\n{}```\nExpiring session 0x3, timeout of 6000ms exceeded\n"
    )
    (tmp_path / "a.txt").write_text(text.format(LOOKING.decode(), LOOKING.decode()))
    found = scan_files(tmp_path / "a.txt")
    assert [(event.kind, event.line) for event in found.events] == [("zk-looking", 3), ("zk-looking", 11)]


def test_statement_that_a_mail_wrapped_is_recognized(tmp_path: Path) -> None:
    record = LOOKING.replace(b"LOOKING\n", b"fsync-ing the write ahead log in\n> SyncThread:1 took 5000ms\n")
    (tmp_path / "a.txt").write_bytes(b"Anna wrote:\n\n> " + record + b"\nWhy?\n")
    assert [(event.kind, event.duration_ms) for event in scan_files(tmp_path / "a.txt").events] == [("zk-fsync-slow", 5000)]


def event_summary(found: MergedScan) -> tuple[object, ...]:
    counts = found.counts
    events = [(event.kind, event.line, event.ms, event.duration_ms) for event in found.events]
    return counts.lines, counts.records, counts.unparsed_lines, events


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_reported_in_a_note(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.log").write_bytes(log(5).decode().encode(encoding))
    assert "a.log: UTF-16 is not supported" in explain_logs(tmp_path / "a.log").notes[0]


def test_zero_bytes_are_not_mistaken_for_utf_16(tmp_path: Path) -> None:
    """A log that was truncated under its writer starts with zero bytes."""
    (tmp_path / "a.log").write_bytes(log(5) + b"\0" * 200 + log(6))
    assert not explain_logs(tmp_path / "a.log").notes[1:]


def test_missing_year_is_reported_in_a_note(tmp_path: Path) -> None:
    line = "Nov 16 12:00:01 node7 zookeeper[812]: Expiring session 0x2000001d2330001, timeout of 6000ms exceeded\n"
    (tmp_path / "a.log").write_text(line * 3)
    found = explain_logs(tmp_path / "a.log")
    assert found.diagnoses
    assert found.notes == [f"{tmp_path / 'a.log'}: its lines do not contain the year, so 1972 is used"]


def test_record_with_invalid_time_is_matched_however_the_file_is_split(tmp_path: Path) -> None:
    data = LOOKING * 5 + LOOKING.replace(b"2016-01-19", b"2016-99-99") * 5
    (tmp_path / "a.log").write_bytes(data)
    whole = scan_in_steps(tmp_path / "a.log", len(data), len(data))
    assert len(whole[1]) == 10
    assert scan_in_steps(tmp_path / "a.log", len(data), 100) == whole


def test_record_ends_at_the_next_record_even_in_another_range(tmp_path: Path) -> None:
    """Otherwise the text of the next record would be matched with this one."""
    data = b"2016-01-19 13:13:09,418 INFO  a.B - Found 3\n2016-01-19 13:13:10,418 INFO  a.B -  checkpoints in here\n"
    data += b"2016-01-19 13:13:09,418 WARN  a.B - Exception when following the leader\n"
    data += b"2016-01-19 13:13:09,418 INFO  a.B - EOFException\n"
    (tmp_path / "a.log").write_bytes(data)
    for end in (data.find(b"2016", 1), len(data) - 30, len(data)):
        (found,) = range_scan.scan_ranges(
            [ByteRange(0, str(tmp_path / "a.log"), "", 0, end)], load_library(), compiled=False
        ).ranges
        assert all("cause" not in event.fields for event in found.record_events.events)
        assert "checkpoints-found" not in [event.kind for event in found.record_events.events]


def test_event_in_a_continuation_line_has_the_number_of_that_line(tmp_path: Path) -> None:
    data = LOOKING.replace(b"LOOKING", b"x") + b"more\nmore\nExpiring session 0x2, timeout of 6000ms exceeded\n" + LOOKING
    (tmp_path / "a.log").write_bytes(data)
    for step in (len(data), 70, 10):
        assert [event[:3:2] for event in scan_in_steps(tmp_path / "a.log", len(data), step)[1]] == [
            ("zk-session-expired", 4),
            ("zk-looking", 5),
        ]


def test_quoted_log_lines_give_the_same_result_however_the_file_is_split(tmp_path: Path) -> None:
    """Lines before a line decide whether it belongs to a record."""
    data = b"We saw this:\n\n" + LOOKING + b"\nand then nothing.\nWhat is it?\nWho knows?\n\n" + LOOKING + b"\nThanks.\n"
    (tmp_path / "a.txt").write_bytes(data)
    whole = scan_in_steps(tmp_path / "a.txt", len(data), len(data))
    assert whole[0].unparsed_lines == 5
    assert scan_in_steps(tmp_path / "a.txt", len(data), 20) == whole


def test_literal_repeated_in_a_line_is_matched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matches = 0
    match_fields = EventPattern.match_fields

    def count_match(self: EventPattern, text: str) -> dict[str, str] | None:
        nonlocal matches
        matches += 1
        return match_fields(self, text)

    monkeypatch.setattr(EventPattern, "match_fields", count_match)
    line = LOOKING.replace(b"LOOKING", b"Expiring session " * 3000)
    (tmp_path / "a.log").write_bytes(line * 200 + LOOKING)
    found = scan_files(tmp_path / "a.log", compiled=True)
    assert matches <= 2 * 201
    assert [event.kind for event in found.events] == ["zk-looking"]


def test_large_text_with_records_is_read_as_a_log_in_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs may print tables between their records."""
    data = (LOOKING + b"\n+---+---+\n|  a|  b|\n\n") * 50
    (tmp_path / "a.log").write_bytes(data)
    assert scan_files(tmp_path / "a.log").counts.unparsed_lines == 100
    monkeypatch.setattr(range_scan, "PROSE_BYTES_MAX", 1000)
    whole = scan_in_steps(tmp_path / "a.log", len(data), len(data))
    assert (whole[0].records, whole[0].unparsed_lines) == (50, 0)
    assert scan_in_steps(tmp_path / "a.log", len(data), 300) == whole


@pytest.mark.parametrize(
    "text",
    ["2026-03-04 12:60:00,000", "2026-03-04 12:00:61,000", "2026-03-04T12:00:00.000+99:99", "9999-12-31T23:59:59.999-08:00"],
)
def test_impossible_times_are_not_parsed(text: str) -> None:
    assert parse_timestamp(text) is None


def test_first_and_last_year_are_formatted_and_clamped() -> None:
    for text in ("0001-01-01T00:00:00.000", "9999-12-31T23:59:59.999"):
        found = parse_timestamp(text)
        assert found is not None
        assert format_timestamp(found.ms) == text
        assert format_timestamp(found.ms - 10**9 if text[0] == "0" else found.ms + 10**9) == text, (
            "clamped to the range of dates"
        )


@pytest.mark.parametrize(
    "line",
    [
        '{{"epoch": 3, "event": "leading", "why": "{}", "time": "2026-03-04T12:00:00Z"}}',
        '{{"log":"2026-03-04 12:00:00,000 - INFO  [main:A@1] - LOOKING {}\\n","stream":"stdout",'
        '"time":"2026-03-04T12:00:00Z"}}',
    ],
    ids=["json", "docker"],
)
def test_time_at_the_end_of_a_long_json_line_is_read(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.log").write_text(f"{line.format('long ' * 3000)}\n" * 3)
    assert [format_timestamp(event.ms or 0) for event in scan_files(tmp_path / "a.log").events] == [
        "2026-03-04T12:00:00.000"
    ] * 3


def test_lone_surrogates_in_json_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text('{"epoch": 3, "event": "leading", "node": "n\\ud800", "time": "2026-03-04T12:00:00Z"}\n')
    found = explain_logs(tmp_path / "a.log")
    assert [one["name"] for one in found.as_json()["components"]] == ["node n?"]


def test_colours_before_a_shape_are_skipped_unless_a_shape_uses_them() -> None:
    table = header_dfa.compile_shapes(["\x1b[9", "99:99"])

    def fits(text: bytes) -> int:
        state, best = header_dfa.START_STATE, -1
        for byte in text:
            state = int(table.next[state, byte])
            best = int(table.accepts[state]) if table.accepts[state] >= 0 else best
        return best

    assert fits(b"\x1b[3") == 0
    assert fits(b"\xef\xbb\xbf12:34") == 1
    assert fits(b"\xef\xbb12:34") == -1


@pytest.mark.parametrize("size", [40, 100_000], ids=["shorter than a sample", "longer than a block"])
def test_compressed_file_that_is_cut_off_is_read_up_to_the_cut(tmp_path: Path, size: int) -> None:
    """Its complete part holds the records that were written before the machine died."""
    data = b"".join(LOOKING.replace(b"13:13:09,418", b"13:13:09,%03d" % (n % 1000)) for n in range(size))
    compressed = gzip.compress(data)[: 100 if size == 40 else -5000]
    (tmp_path / "a.log.gz").write_bytes(compressed)
    complete = zlib.decompressobj(31).decompress(compressed)
    found = scan_files(tmp_path / "a.log.gz")
    assert 0 < found.counts.lines == complete.count(b"\n") + (not complete.endswith(b"\n"))
    assert [problem.removeprefix(str(tmp_path)) for problem in found.problems] == [
        "/a.log.gz: not read to its end: Truncated compressed stream"
    ]


def test_compressed_file_without_a_readable_byte_is_named_in_a_note(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(LOOKING)[:10])
    found = scan_files(tmp_path / "a.log.gz")
    assert (found.counts.lines, len(found.problems)) == (0, 1)


def test_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    """Shells name a pipe for `<(command)`. Its size is 0 and it can be read only once."""
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[LOOKING * 5])
    writer.start()
    (file,) = find_inputs([str(tmp_path / "pipe")])
    writer.join()
    assert (file.name, file.size, file.is_temporary) == (str(tmp_path / "pipe"), 5 * len(LOOKING), True)
    Path(file.path).unlink()


def test_pipe_in_a_directory_is_skipped(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.log").write_bytes(LOOKING)
    assert [file.name for file in find_inputs([str(tmp_path), str(tmp_path / "*")])] == [str(tmp_path / "a.log")]


def test_device_and_dangling_link_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    for path, reason in (("/dev/zero", "it is a device"), (str(tmp_path / "link"), "No such file")):
        with pytest.raises(Refused, match=f"{path} cannot be read: {reason}"):
            find_inputs([path])


def test_unreadable_file_in_a_directory_is_named_in_a_note(tmp_path: Path) -> None:
    """The others are still explained: /var/log usually has a file that only root can read."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "a.log").write_bytes(LOOKING)
    (tmp_path / "b.log").symlink_to("/proc/self/mem")  # a regular file whose beginning cannot be read, not even by root
    answer = explain_logs(tmp_path)
    assert answer.scan.counts.records == 1
    assert answer.notes == [f"{tmp_path / 'b.log'}: cannot be read: Input/output error"]
    assert not answer.complete
    with pytest.raises(Refused, match=r"b\.log cannot be read: Input/output error"):
        find_inputs([str(tmp_path / "b.log")])
