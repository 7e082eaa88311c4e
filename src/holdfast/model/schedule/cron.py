"""Cron expressions with five fields, evaluated in a named time zone.

The rules for daylight saving time:
- A local time that does not exist, because the clocks go forward, is due at the same distance from midnight: 02:30 becomes
  03:30.
- A local time that exists twice, because the clocks go back, is due the first time. If the hour field is `*` or `*/N`, it is
  due both times, so that `*/10 * * * *` is due every ten minutes throughout.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from zoneinfo import ZoneInfo

from holdfast.errors import Refused

_DAY = timedelta(days=1)
_DAYS_SEARCHED = 8 * 366 + 2
"""29 February is at most eight years away."""
_MONTHS = {
    name: number
    for number, name in enumerate(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1)
}
_WEEKDAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_NUMBER = re.compile(r"[0-9]{1,2}", re.ASCII)
_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: Mapping[str, int]


_NO_NAMES: Mapping[str, int] = {}
_FIELDS = (
    _Field("minute", 0, 59, _NO_NAMES),
    _Field("hour", 0, 23, _NO_NAMES),
    _Field("day of the month", 1, 31, _NO_NAMES),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _WEEKDAYS),
)


@dataclass(frozen=True, slots=True)
class CronExpression:
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday, 6 is Saturday."""
    any_day: bool
    """True if the day of the month is not restricted."""
    any_weekday: bool
    every_hour: bool
    """True if the hour field is `*` or `*/N`."""

    def matches_date(self, day: date) -> bool:
        """Return True if a run can be due on this day. If both day fields are restricted, one of them is enough."""
        if day.month not in self.months:
            return False
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return by_month and by_week
        return by_month or by_week


@functools.lru_cache(maxsize=1024)
def parse_cron(text: str) -> CronExpression:
    """Parse five fields, or a name such as `@daily`. Raise Refused with the field that is wrong."""
    fields = _MACROS.get(text.strip().lower(), text).split()
    if len(fields) != len(_FIELDS) or len(text) > _LENGTH_MAX:
        raise Refused(
            f"'{text[:_LENGTH_MAX]}' is not a cron expression: it needs the five fields minute, hour, day of the month, month "
            f"and day of the week, or one of {', '.join(_MACROS)}"
        )
    minutes, hours, days, months, weekdays = (
        _parse_field(part, field, text) for part, field in zip(fields, _FIELDS, strict=True)
    )
    cron = CronExpression(
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        days,
        months,
        frozenset(number % 7 for number in weekdays),
        any_day=fields[2].startswith("*"),
        any_weekday=fields[4].startswith("*"),
        every_hour=fields[1].startswith("*"),
    )
    if not any(cron.matches_date(date(2000, 1, 1) + number * _DAY) for number in range(_DAYS_SEARCHED)):
        raise Refused(f"the cron expression '{text}' is never due: no month in it has such a day")
    return cron


def _parse_field(text: str, field: _Field, cron: str) -> frozenset[int]:
    return frozenset(number for part in text.split(",") for number in _parse_range(part, field, cron))


def _parse_range(text: str, field: _Field, cron: str) -> range:
    """Parse `*`, `N`, `N-M`, each with an optional step, as in `*/5` or `10-30/5`."""
    interval, slash, step_text = text.partition("/")
    step = _parse_number(step_text, field, cron, 1, field.high) if slash else 1
    if interval == "*":
        return range(field.low, min(field.high, 6 if field.names is _WEEKDAYS else field.high) + 1, step)
    first_text, dash, last_text = interval.partition("-")
    first = _parse_value(first_text, field, cron)
    if slash and not dash:
        raise _wrong(cron, field, f"'{text}' has a step without a range: write '{first_text}-{field.high}/{step_text}'")
    last = _parse_value(last_text, field, cron) if dash else first
    if last < first and field.names is _WEEKDAYS and last == 0:
        last = 7  # fri-sun
    if last < first:
        raise _wrong(cron, field, f"the range '{interval}' ends before it begins")
    return range(first, last + 1, step)


def _parse_value(text: str, field: _Field, cron: str) -> int:
    named = field.names.get(text.lower())
    return named if named is not None else _parse_number(text, field, cron, field.low, field.high)


def _parse_number(text: str, field: _Field, cron: str, low: int, high: int) -> int:
    if _NUMBER.fullmatch(text) is None or not low <= int(text) <= high:
        names = f" or {', '.join(field.names)}" if field.names else ""
        raise _wrong(cron, field, f"'{text}' is not a number from {low} to {high}{names}")
    return int(text)


def _wrong(cron: str, field: _Field, problem: str) -> Refused:
    return Refused(f"'{cron}' is not a cron expression: {field.name}: {problem}")


@dataclass(frozen=True, slots=True)
class ZonedCron:
    """Cron expression in a time zone. All times are in seconds since the epoch."""

    cron: CronExpression
    zone: ZoneInfo

    def next_due_time(self, after: float) -> float | None:
        """Return the first due time after `after`, or None if there is none within eight years."""
        first = _local_date(after, self.zone) - _DAY
        return next((due for due in _due_times_from(self.cron, self.zone, first, _DAY) if due > after), None)

    def last_due_time(self, until: float) -> float | None:
        """Return the last due time up to `until`, or None if there is none within eight years."""
        first = _local_date(until, self.zone) + _DAY
        return next((due for due in _due_times_from(self.cron, self.zone, first, -_DAY) if due <= until), None)

    def count_due_times(self, after: float, until: float) -> int:
        """Return the number of due times after `after` and up to `until`, of at most eight years."""
        count = 0
        for due in _due_times_from(self.cron, self.zone, _local_date(after, self.zone) - _DAY, _DAY):
            if due > until:
                break
            count += due > after
        return count


def _local_date(at: float, zone: ZoneInfo) -> date:
    return datetime.fromtimestamp(at, zone).date()


def _due_times_from(cron: CronExpression, zone: ZoneInfo, first: date, step: timedelta) -> Iterator[float]:
    """Yield all due times in the order of time, forwards or backwards, beginning at a local date."""
    day = first
    for _ in range(_DAYS_SEARCHED):
        if cron.matches_date(day):
            times = _due_times_of_day(cron, zone, day)
            yield from times if step > timedelta() else reversed(times)
        day += step


@functools.lru_cache(maxsize=2048)
def _due_times_of_day(cron: CronExpression, zone: ZoneInfo, day: date) -> tuple[float, ...]:
    begin = datetime.combine(day, time_of_day(), zone)
    end = datetime.combine(day + _DAY, time_of_day(), zone)
    if begin.utcoffset() == end.utcoffset() and end.timestamp() - begin.timestamp() == _DAY.total_seconds():
        midnight = begin.timestamp()
        return tuple(midnight + 3600.0 * hour + 60.0 * minute for hour in cron.hours for minute in cron.minutes)
    local = [datetime.combine(day, time_of_day(hour, minute), zone) for hour in cron.hours for minute in cron.minutes]
    repeated = [each.replace(fold=1) for each in local if cron.every_hour and _exists(each.replace(fold=1))]
    return tuple(sorted({each.timestamp() for each in (*local, *repeated)}))


def _exists(local: datetime) -> bool:
    return local.astimezone(UTC).astimezone(local.tzinfo).replace(fold=0) == local.replace(fold=0)
