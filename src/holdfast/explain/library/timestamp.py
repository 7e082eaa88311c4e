"""Parse the timestamps of log records. A missing time zone, year or date is marked, not guessed."""

import functools
import re
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ANYWHERE = datetime(1970, 1, 1)  # noqa: DTZ001 -- without a time zone
_DAY_S = 86_400
_MS = timedelta(milliseconds=1)
_FIRST_MS = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MS
_LAST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MS
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = r"(?P<hour>\d\d):(?P<minute>[0-5]\d):(?P<second>[0-5]\d|60)(?:[.,](?P<fraction>\d{1,9}))?"
_SHAPES = tuple(
    re.compile(pattern + r"(?: ?(?P<zone>Z|[+-][01]\d:?[0-5]\d))?$")
    for pattern in (
        r"(?P<year>\d{1,4})-(?P<month>\d\d)-(?P<day>\d\d)[ T]" + _CLOCK,
        r"(?P<short_year>\d\d)/(?P<month>\d\d)/(?P<day>\d\d) " + _CLOCK,
        r"(?P<month_name>[A-Za-z]{3,9}) (?P<day>\d{1,2})(?:st|nd|rd|th)? (?P<year>\d{4}), " + _CLOCK,
        r"(?P<month_name>[A-Za-z]{3}) +(?P<day>\d{1,2}) " + _CLOCK,
        _CLOCK,
    )
)
_SINCE_1970 = re.compile(r"1\d{9}(?:\.\d+|\d{3}(?:\.\d+|\d{3}|\d{6})?)?")
"""Time since 1970 as JSON logs state it, for the years 2001 to 2033."""
COMMON_LENGTH = len("2026-11-16 12:00:00,000")
PLACEHOLDER_YEAR = 1972
"""Year of timestamps that state none. It is a leap year, and too old to be mistaken for a real one."""
PLACEHOLDER_YEAR_MS = (datetime(PLACEHOLDER_YEAR, 1, 1, tzinfo=UTC) - _EPOCH) // _MS
_CENTURY = "2020"
"""Digits that complete a year whose first digits were cut off: 017 lacks only the first."""


class Timestamp(NamedTuple):
    ms: int
    """Milliseconds since 1970 on the clock of the log; in UTC if `zoned`. Without a date, since midnight."""
    zoned: bool = False
    dated: bool = True
    """True if the text states year, month and day."""


def parse_timestamp(text: str) -> Timestamp | None:
    """Return None if the text is not a time, or names a time that does not exist."""
    if len(text) == COMMON_LENGTH and text[10] in " T" and text[19] in ".," and text[20:].isdigit():
        try:  # the most common form, on a fast path: called for every event of a large log
            return Timestamp((datetime.fromisoformat(text) - _EPOCH_ANYWHERE) // _MS)
        except ValueError:
            pass
    if _SINCE_1970.fullmatch(text):
        return Timestamp(_ms_since_1970(text), zoned=True)
    for shape in _SHAPES:
        match = shape.match(text.strip())
        if match is not None:
            return _read(match.groupdict())
    return None


def _ms_since_1970(text: str) -> int:
    """Read a number of seconds, milliseconds, microseconds or nanoseconds, by its digits before the point."""
    whole, _, fraction = text.partition(".")
    return int((whole + fraction.ljust(3, "0"))[:13])


def _read(parts: dict[str, str | None]) -> Timestamp | None:
    seconds = 3600 * int(parts["hour"] or 0) + 60 * int(parts["minute"] or 0) + int(parts["second"] or 0)
    if seconds > _DAY_S:
        return None
    year = _year(parts)
    zone_s = _zone_s(parts["zone"])
    try:
        days = _days(year or PLACEHOLDER_YEAR, _month(parts), int(parts["day"] or 0)) if parts.get("day") else 0
    except ValueError:
        return None
    ms = (days * _DAY_S + seconds - (zone_s or 0)) * 1000 + int((parts["fraction"] or "0").ljust(3, "0")[:3])
    return Timestamp(ms, zoned=zone_s is not None, dated=year is not None) if _FIRST_MS <= ms <= _LAST_MS else None


@functools.lru_cache(maxsize=64)
def _days(year: int, month: int, day: int) -> int:
    return date(year, month, day).toordinal() - _EPOCH.toordinal()


def _year(parts: dict[str, str | None]) -> int | None:
    if short := parts.get("short_year"):
        return 2000 + int(short)
    if year := parts.get("year"):
        return int(_CENTURY[: 4 - len(year)] + year)
    return None


def _month(parts: dict[str, str | None]) -> int:
    if name := parts.get("month_name"):
        return _MONTHS.index(name[:3].lower()) + 1
    return int(parts["month"] or 0)


def _zone_s(text: str | None) -> int | None:
    if text is None:
        return None
    if text == "Z":
        return 0
    sign = -1 if text[0] == "-" else 1
    return sign * (3600 * int(text[1:3]) + 60 * int(text[-2:]))


def format_timestamp(ms: int) -> str:
    """Return ISO 8601 with milliseconds. Times before year 1 or after year 9999 are clamped."""
    moment = _EPOCH + _MS * min(max(ms, _FIRST_MS), _LAST_MS)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds")
