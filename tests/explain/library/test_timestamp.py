"""Timestamps in the formats of logs, and invalid ones."""

import pytest

from holdfast.explain.library.timestamp import Timestamp, format_timestamp, parse_timestamp


@pytest.mark.parametrize(
    ("text", "printed_text", "zoned", "dated"),
    [
        ("2016-01-19 13:13:09,418", "2016-01-19T13:13:09.418", False, True),
        ("2016-01-19T13:13:09.418999", "2016-01-19T13:13:09.418", False, True),
        ("2016-01-19T13:13:09.418Z", "2016-01-19T13:13:09.418", True, True),
        ("2016-01-19T13:13:09.41Z", "2016-01-19T13:13:09.410", True, True),
        ("2016-12-31 23:59:60,500", "2017-01-01T00:00:00.500", False, True),
        ("2016-01-19 13:13:09,418 +0200", "2016-01-19T11:13:09.418", True, True),
        ("2016-01-19T13:13:09.418-07:30", "2016-01-19T20:43:09.418", True, True),
        ("017-07-22 02:47:44,535", "2017-07-22T02:47:44.535", False, True),
        ("17-07-22 02:47:44,535", "2017-07-22T02:47:44.535", False, True),
        ("26/11/16 12:00:01", "2026-11-16T12:00:01.000", False, True),
        ("June 30th 2018, 02:35:01.711", "2018-06-30T02:35:01.711", False, True),
        ("Nov  6 12:00:01", "1972-11-06T12:00:01.000", False, False),
        ("1479211200", "2016-11-15T12:00:00.000", True, True),
        ("1479211200.25", "2016-11-15T12:00:00.250", True, True),
        ("1479211200123", "2016-11-15T12:00:00.123", True, True),
        ("1479211200123.5", "2016-11-15T12:00:00.123", True, True),
        ("1479211200123456", "2016-11-15T12:00:00.123", True, True),
        ("1479211200123456789", "2016-11-15T12:00:00.123", True, True),
        ("15:19:57", "1970-01-01T15:19:57.000", False, False),
        ("15:19:57,250", "1970-01-01T15:19:57.250", False, False),
    ],
)
def test_a_time_is_read_for_what_it_says_and_no_more(text: str, printed_text: str, zoned: bool, dated: bool) -> None:
    found = parse_timestamp(text)
    assert found is not None
    assert (format_timestamp(found.ms), found.zoned, found.dated) == (printed_text, zoned, dated)


@pytest.mark.parametrize("text", ["", "x", "2016-13-01 00:00:00,000", "2016-02-30 00:00:00,000", "99:99:99", "Foo 12 12:00:00"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert parse_timestamp(text) is None


def test_milliseconds_before_1970_are_written_as_such() -> None:
    assert format_timestamp(Timestamp(-1).ms) == "1969-12-31T23:59:59.999"
