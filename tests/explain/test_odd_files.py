"""Logs that something has been done to: their lines say what they said."""

import json
import re
from pathlib import Path

import pytest

from holdfast.explain import range_scan
from holdfast.explain.library import library
from holdfast.explain.library.event_pattern import Pattern
from holdfast.explain.library.timestamp import moment, stamp
from holdfast.explain.scan import header_dfa
from holdfast.explain.scan.ranges import Range
from holdfast.explain.timeline.merge import Gathered
from tests.explain.test_range_scan import log, summed
from tests.harness.explain_in_process import asked, read

LOOKING = b"2016-01-19 13:13:09,418 - INFO  [QuorumPeer[myid=1]:A@1] - LOOKING\n"


def in_docker(data: bytes) -> bytes:
    lines = data.decode().splitlines(keepends=True)
    written = [{"log": line, "stream": "stdout", "time": f"2016-01-19T13:13:59.{n:09d}Z"} for n, line in enumerate(lines)]
    return "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in written).encode()


def coloured(data: bytes) -> bytes:
    return re.sub(rb"(?m)^(\S+ \S+) - WARN", lambda match: b"\x1b[1;32m" + match[1] + b"\x1b[m - \x1b[33mWARN\x1b[0m", data)


@pytest.mark.parametrize(
    "changed",
    [in_docker, coloured, lambda data: data.replace(b"\n", b"\r\n"), lambda data: b"\xef\xbb\xbf" + data],
    ids=["docker", "colours", "carriage returns", "byte order mark"],
)
def test_what_was_put_around_lines_is_taken_off(tmp_path: Path, changed: object) -> None:
    data = log(5)
    (tmp_path / "a.log").write_bytes(data)
    (tmp_path / "b.log").write_bytes(changed(data))  # type: ignore[operator]
    as_it_was, as_it_is = read(tmp_path / "a.log"), read(tmp_path / "b.log")
    assert said(as_it_is) == said(as_it_was)
    assert not any("\x1b" in event.text or "\ufeff" in event.text for event in as_it_is.events)


def said(found: Gathered) -> tuple[object, ...]:
    counts = found.counts
    events = [(event.kind, event.line, event.ms, event.duration_ms) for event in found.events]
    return counts.lines, counts.records, counts.unparsed_lines, events


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_log_in_two_bytes_a_letter_is_said_to_be_one(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.log").write_bytes(log(5).decode().encode(encoding))
    assert "a.log: this is UTF-16" in asked(tmp_path / "a.log").notes[0]


def test_zeros_in_a_log_are_not_taken_for_utf_16(tmp_path: Path) -> None:
    """A log that was rotated under its writer begins with as many as it had bytes."""
    (tmp_path / "a.log").write_bytes(log(5) + b"\0" * 200 + log(6))
    assert not asked(tmp_path / "a.log").notes[1:]


def test_lines_of_journald_that_say_no_year_themselves_are_told_to_lack_it(tmp_path: Path) -> None:
    line = "Nov 16 12:00:01 node7 zookeeper[812]: Expiring session 0x2000001d2330001, timeout of 6000ms exceeded\n"
    (tmp_path / "a.log").write_text(line * 3)
    found = asked(tmp_path / "a.log")
    assert found.diagnoses
    assert found.notes == [f"{tmp_path / 'a.log'}: its lines do not say the year, and are told as of 1972"]


def test_a_record_whose_time_is_none_says_what_it_says_wherever_a_file_is_cut(tmp_path: Path) -> None:
    data = LOOKING * 5 + LOOKING.replace(b"2016-01-19", b"2016-99-99") * 5
    (tmp_path / "a.log").write_bytes(data)
    whole = summed(tmp_path / "a.log", len(data), len(data))
    assert len(whole[1]) == 10  # type: ignore[arg-type]
    assert summed(tmp_path / "a.log", len(data), 100) == whole


def test_a_record_ends_where_the_next_one_begins_though_that_is_in_another_range(tmp_path: Path) -> None:
    """Else what the next one says would be what this one says."""
    data = b"2016-01-19 13:13:09,418 INFO  a.B - Found 3\n2016-01-19 13:13:10,418 INFO  a.B -  checkpoints in here\n"
    data += b"2016-01-19 13:13:09,418 WARN  a.B - Exception when following the leader\n"
    data += b"2016-01-19 13:13:09,418 INFO  a.B - EOFException\n"
    (tmp_path / "a.log").write_bytes(data)
    for end in (data.find(b"2016", 1), len(data) - 30, len(data)):
        (found,) = range_scan.scan([Range(0, str(tmp_path / "a.log"), "", 0, end)], library(), compiled=False).ranges
        assert all("cause" not in event.fields for event in found.own.events)
        assert "checkpoints-found" not in [event.kind for event in found.own.events]


def test_what_belongs_to_a_record_of_the_range_before_has_its_own_line(tmp_path: Path) -> None:
    data = LOOKING.replace(b"LOOKING", b"x") + b"more\nmore\nExpiring session 0x2, timeout of 6000ms exceeded\n" + LOOKING
    (tmp_path / "a.log").write_bytes(data)
    for step in (len(data), 70, 10):
        assert [event[:3:2] for event in summed(tmp_path / "a.log", len(data), step)[1]] == [  # type: ignore[attr-defined]
            ("zk-session-expired", 4),
            ("zk-looking", 5),
        ]


def test_a_report_is_read_as_one_however_it_is_cut(tmp_path: Path) -> None:
    """What belongs to no record in it depends on what stands before."""
    data = b"We saw this:\n\n" + LOOKING + b"\nand then nothing.\nWhat is it?\nWho knows?\n\n" + LOOKING + b"\nThanks.\n"
    (tmp_path / "a.txt").write_bytes(data)
    whole = summed(tmp_path / "a.txt", len(data), len(data))
    assert whole[0].unparsed_lines == 5  # type: ignore[attr-defined]
    assert summed(tmp_path / "a.txt", len(data), 20) == whole


def test_a_literal_that_a_line_has_a_thousand_times_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    fields = Pattern.fields

    def counted(self: Pattern, text: str) -> dict[str, str] | None:
        nonlocal looks
        looks += 1
        return fields(self, text)

    monkeypatch.setattr(Pattern, "fields", counted)
    line = LOOKING.replace(b"LOOKING", b"Expiring session " * 3000)
    (tmp_path / "a.log").write_bytes(line * 200 + LOOKING)
    found = read(tmp_path / "a.log", compiled=True)
    assert looks <= 2 * 201
    assert [event.kind for event in found.events] == ["zk-looking"]


def test_what_is_too_long_for_a_report_is_a_log_and_can_be_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs print tables between their records."""
    data = (LOOKING + b"\n+---+---+\n|  a|  b|\n\n") * 50
    (tmp_path / "a.log").write_bytes(data)
    assert read(tmp_path / "a.log").counts.unparsed_lines == 100
    monkeypatch.setattr(range_scan, "PROSE_BYTES_MAX", 1000)
    whole = summed(tmp_path / "a.log", len(data), len(data))
    assert (whole[0].records, whole[0].unparsed_lines) == (50, 0)  # type: ignore[attr-defined]
    assert summed(tmp_path / "a.log", len(data), 300) == whole


@pytest.mark.parametrize(
    "text",
    ["2026-03-04 12:60:00,000", "2026-03-04 12:00:61,000", "2026-03-04T12:00:00.000+99:99", "9999-12-31T23:59:59.999-08:00"],
)
def test_times_that_no_clock_shows_are_none(text: str) -> None:
    assert moment(text) is None


def test_the_first_and_the_last_year_can_be_told() -> None:
    for text in ("0001-01-01T00:00:00.000", "9999-12-31T23:59:59.999"):
        found = moment(text)
        assert found is not None
        assert stamp(found.ms) == text
        assert stamp(found.ms - 10**9 if text[0] == "0" else found.ms + 10**9) == text, "the end of what can be told"


@pytest.mark.parametrize(
    "line",
    [
        '{{"epoch": 3, "event": "leading", "why": "{}", "time": "2026-03-04T12:00:00Z"}}',
        '{{"log":"2026-03-04 12:00:00,000 - INFO  [main:A@1] - LOOKING {}\\n","stream":"stdout",'
        '"time":"2026-03-04T12:00:00Z"}}',
    ],
    ids=["json", "docker"],
)
def test_what_stands_at_the_end_of_a_long_line_of_json_is_known(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.log").write_text(f"{line.format('long ' * 3000)}\n" * 3)
    assert [stamp(event.ms or 0) for event in read(tmp_path / "a.log").events] == ["2026-03-04T12:00:00.000"] * 3


def test_half_a_pair_of_surrogates_in_json_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text('{"epoch": 3, "event": "leading", "node": "n\\ud800", "time": "2026-03-04T12:00:00Z"}\n')
    found = asked(tmp_path / "a.log")
    assert [one["name"] for one in found.json()["components"]] == ["node n?"]


def test_colours_before_a_shape_are_no_part_of_it_unless_they_are() -> None:
    table = header_dfa.compiled(["\x1b[9", "99:99"])

    def fits(text: bytes) -> int:
        state, best = header_dfa.FIRST, -1
        for byte in text:
            state = int(table.next[state, byte])
            best = int(table.fits[state]) if table.fits[state] >= 0 else best
        return best

    assert fits(b"\x1b[3") == 0
    assert fits(b"\xef\xbb\xbf12:34") == 1
    assert fits(b"\xef\xbb12:34") == -1
