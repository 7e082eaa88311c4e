"""Cron expressions: what is accepted, and when they are due, daylight saving time included."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import Refused
from holdfast.model.schedule.cron import ZonedCron, parse_cron

UTC_ZONE = ZoneInfo("UTC")
BERLIN = ZoneInfo("Europe/Berlin")


def due(text: str, begin: str, count: int, zone: str = "UTC") -> list[str]:
    """Return the next times after a local time, as local time with offset."""
    rules = ZoneInfo(zone)
    at, found = datetime.fromisoformat(begin).replace(tzinfo=rules).timestamp(), []
    for _ in range(count):
        following = ZonedCron(parse_cron(text), rules).next_due_time(at)
        assert following is not None
        at = following
        found.append(datetime.fromtimestamp(at, rules).strftime("%Y-%m-%d %H:%M%z"))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*/20 * * * *", ["2026-11-18 12:20+0000", "2026-11-18 12:40+0000", "2026-11-18 13:00+0000"]),
        ("5,7-9 12 * * *", ["2026-11-18 12:05+0000", "2026-11-18 12:07+0000", "2026-11-18 12:08+0000"]),
        ("0 0 * * *", ["2026-11-19 00:00+0000", "2026-11-20 00:00+0000", "2026-11-21 00:00+0000"]),
        ("@daily", ["2026-11-19 00:00+0000", "2026-11-20 00:00+0000", "2026-11-21 00:00+0000"]),
        ("0 6 * * MON-wed", ["2026-11-23 06:00+0000", "2026-11-24 06:00+0000", "2026-11-25 06:00+0000"]),
        ("0 6 * * 7", ["2026-11-22 06:00+0000", "2026-11-29 06:00+0000", "2026-12-06 06:00+0000"]),
        ("0 6 * * fri-sun", ["2026-11-20 06:00+0000", "2026-11-21 06:00+0000", "2026-11-22 06:00+0000"]),
        ("0 0 1 jan,jul *", ["2027-01-01 00:00+0000", "2027-07-01 00:00+0000", "2028-01-01 00:00+0000"]),
        ("0 0 29 2 *", ["2028-02-29 00:00+0000", "2032-02-29 00:00+0000", "2036-02-29 00:00+0000"]),
        ("10-30/10 12 18 11 *", ["2026-11-18 12:10+0000", "2026-11-18 12:20+0000", "2026-11-18 12:30+0000"]),
    ],
)
def test_fields_ranges_steps_lists_and_names(text: str, expected: list[str]) -> None:
    assert due(text, "2026-11-18 12:00", 3) == expected


def test_one_restricted_day_field_is_enough_if_both_are_restricted() -> None:
    found = due("0 0 13 * fri", "2026-11-01 00:00", 4)
    assert found == ["2026-11-06 00:00+0000", "2026-11-13 00:00+0000", "2026-11-20 00:00+0000", "2026-11-27 00:00+0000"]
    assert due("0 0 13 * *", "2026-11-01 00:00", 1) == ["2026-11-13 00:00+0000"]


def test_time_that_the_clocks_skip_is_due_at_the_same_distance_from_midnight() -> None:
    assert due("30 2 * * *", "2026-03-28 12:00", 2, "Europe/Berlin") == ["2026-03-29 03:30+0200", "2026-03-30 02:30+0200"]


def test_time_that_occurs_twice_is_due_the_first_time() -> None:
    assert due("30 2 * * *", "2026-10-24 12:00", 2, "Europe/Berlin") == ["2026-10-25 02:30+0200", "2026-10-26 02:30+0100"]


def test_expression_for_every_hour_is_due_both_times() -> None:
    assert due("*/30 * * * *", "2026-10-25 01:45", 4, "Europe/Berlin") == [
        "2026-10-25 02:00+0200",
        "2026-10-25 02:30+0200",
        "2026-10-25 02:00+0100",
        "2026-10-25 02:30+0100",
    ]


def test_expression_for_every_hour_is_due_once_an_hour_while_the_clocks_go_forward() -> None:
    assert due("0 * * * *", "2026-03-29 00:30", 3, "Europe/Berlin") == [
        "2026-03-29 01:00+0100",
        "2026-03-29 03:00+0200",
        "2026-03-29 04:00+0200",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("* * * * * *", "five fields"),
        ("60 * * * *", "minute: '60' is not a number from 0 to 59"),
        ("* 24 * * *", "hour: '24'"),
        ("* * 0 * *", "day of the month: '0'"),
        ("* * * 13 *", "month: '13' is not a number from 1 to 12 or jan"),
        ("* * * * 8", "day of the week: '8'"),
        ("* * * * funday", "'funday'"),
        ("5-1 * * * *", "the range '5-1' ends before it begins"),
        ("5/10 * * * *", "has a step without a range: write '5-59/10'"),
        ("*/0 * * * *", "'0' is not a number from 1 to 59"),
        ("*/ * * * *", "''"),
        ("1,,2 * * * *", "''"),
        ("-5 * * * *", "''"),
        ("٣ * * * *", "'٣'"),
        ("0 0 30 2 *", "is never due"),
    ],
)
def test_invalid_expression_is_refused_with_the_field_and_the_value(text: str, problem: str) -> None:
    with pytest.raises(Refused, match=r".") as error:
        parse_cron(text)
    assert problem in str(error.value)


numbers = st.integers(0, 59).map(str)
minutes = st.one_of(st.just("*"), st.integers(1, 59).map(lambda step: f"*/{step}"), numbers, st.just("3,17-40/6"))
hours = st.one_of(st.just("*"), st.just("*/5"), st.integers(0, 23).map(str), st.just("0-3"))
days = st.one_of(st.just("*"), st.integers(1, 31).map(str), st.just("*/7"))
weekdays = st.one_of(st.just("*"), st.integers(0, 7).map(str), st.just("mon-fri"))
expressions = st.tuples(minutes, hours, days, st.just("*"), weekdays).map(" ".join)
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata"])
moments = st.integers(int(datetime(2010, 1, 1, tzinfo=UTC).timestamp()), int(datetime(2035, 1, 1, tzinfo=UTC).timestamp()))


@settings(deadline=None)
@given(expressions, zones, moments)
def test_next_and_last_due_time_are_strictly_ordered_and_agree(text: str, zone: str, at: int) -> None:
    cron = ZonedCron(parse_cron(text), ZoneInfo(zone))
    following = cron.next_due_time(at)
    assert following is not None and following > at
    assert cron.last_due_time(following) == following
    before = cron.last_due_time(following - 0.001)
    assert before is not None and before <= at < following
    assert cron.next_due_time(before) == following
    assert cron.count_due_times(before, following) == 1


@settings(deadline=None, max_examples=30)
@given(expressions, moments)
def test_due_times_of_two_days_are_exactly_the_matching_minutes_in_utc(text: str, at: int) -> None:
    cron = parse_cron(text)
    begin = datetime.fromtimestamp(at - at % 60, UTC)
    expected = [
        moment.timestamp()
        for moment in (begin + timedelta(minutes=number) for number in range(1, 2 * 24 * 60))
        if moment.minute in cron.minutes and moment.hour in cron.hours and cron.matches_date(moment.date())
    ]
    utc = ZonedCron(cron, UTC_ZONE)
    found, at_due = [], utc.next_due_time(begin.timestamp())
    while at_due is not None and at_due < begin.timestamp() + 2 * 86400:
        found.append(at_due)
        at_due = utc.next_due_time(at_due)
    assert found == expected
