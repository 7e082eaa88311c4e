"""Schedule of a job: the times at which its runs are due. Pure: the time is an argument.

A *due time* is in seconds since the epoch. It depends on nothing but the schedule, so every leader computes the same ones.
"""

import enum
import functools
import math
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.errors import Refused
from holdfast.model.duration import parse_duration

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from holdfast.model.schedule.cron import ZonedCron

EVERY_S_MIN, EVERY_S_MAX = 1.0, 366 * 86400.0
PARK_AFTER_MAX = 1000
SCHEDULE_SCHEMA = 2
"""Schema of the records of a scheduled job. A node that reads older schemas only must not run it as an ordinary job."""


class CatchUp(enum.StrEnum):
    """Policy for due times that passed while no run could start."""

    NONE = "none"
    """Skip them and wait for the next one."""
    ONE = "one"
    """Start one run at once, for the last of them."""
    ALL = "all"
    """Start one run for each of them, one after the other."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Either an interval or a cron expression."""

    every_s: float = 0.0
    """Seconds between two due times; 0 with a cron expression."""
    cron: str = ""
    timezone: str = "UTC"
    """Time zone of the cron expression."""
    catch_up: CatchUp = CatchUp.ONE
    park_after: int = 0
    """Failed runs in a row after which the job is parked; 0 means never."""

    @property
    def due_times_text(self) -> str:
        """Text that identifies the due times. Two schedules with the same text have the same ones."""
        if self.cron:
            return f"{self.cron} ({self.timezone})"
        return f"every {_format_duration(self.every_s)}"

    def __str__(self) -> str:
        limit = f", parked after {self.park_after} failed runs in a row" if self.park_after else ""
        return f"{self.due_times_text}, catch-up: {self.catch_up}{limit}"

    @property
    def _checked_interval_s(self) -> float:
        """Valid interval in seconds. Raise Refused for an invalid one, which may have been written by hand."""
        if not EVERY_S_MIN <= self.every_s <= EVERY_S_MAX:
            raise Refused(f"{self.every_s:g} s cannot be the interval of a schedule")
        return self.every_s

    def next_due_time(self, after: float, anchor: float) -> float:
        """Return the first due time after a time. `anchor` is one due time of an interval. Raise Refused if there is none."""
        if not self.cron:
            number = math.floor((after - anchor) / self._checked_interval_s)
            while (due := anchor + number * self.every_s) <= after:
                number += 1
            return due
        found = _parse_cron(self.cron, self.timezone).next_due_time(after)
        if found is None:
            raise Refused(f"'{self.cron}' is not due within eight years")
        return found

    def last_due_time(self, until: float, anchor: float) -> float:
        """Return the last due time up to a time. Raise Refused if there is none."""
        if not self.cron:
            number = math.ceil((until - anchor) / self._checked_interval_s)
            while (due := anchor + number * self.every_s) > until:
                number -= 1
            return due
        found = _parse_cron(self.cron, self.timezone).last_due_time(until)
        if found is None:
            raise Refused(f"'{self.cron}' was not due within the last eight years")
        return found

    def count_due_times(self, after: float, until: float) -> int:
        """Return the number of due times after a time and up to a later due time."""
        if not self.cron:
            return max(0, math.ceil((until - after) / self.every_s - 1e-6))
        return _parse_cron(self.cron, self.timezone).count_due_times(after, until)

    def format_due_time(self, due: float) -> str:
        """Return the time in the schedule's time zone, with its offset from UTC."""
        try:
            zone = load_zone(self.timezone)
        except Refused:
            zone = load_zone("UTC")
        timespec = "seconds" if due == int(due) or self.cron else "milliseconds"
        text = datetime.fromtimestamp(due, zone).isoformat(sep=" ", timespec=timespec)
        return f"{text.removesuffix('+00:00')} UTC" if text.endswith("+00:00") else text


def make_schedule(
    *,
    every: str | float | None = None,
    cron_text: str | None = None,
    timezone: str | None = None,
    catch_up: str | None = None,
    park_after: int | None = None,
) -> Schedule | None:
    """Return the checked schedule of these options, or None without any option. Raise Refused with the first problem."""
    return change_schedule(None, every=every, cron_text=cron_text, timezone=timezone, catch_up=catch_up, park_after=park_after)


def change_schedule(
    current: Schedule | None,
    *,
    every: str | float | None = None,
    cron_text: str | None = None,
    timezone: str | None = None,
    catch_up: str | None = None,
    park_after: int | None = None,
) -> Schedule | None:
    """Return the current schedule with the given options changed. Raise Refused with the first problem."""
    if every is None and cron_text is None and current is None:
        if timezone is None and catch_up is None and park_after is None:
            return None
        raise Refused(
            "the time zone, the catch-up policy and the limit of failed runs belong to a schedule: add --every or --cron"
        )
    if every is not None and cron_text is not None:
        raise Refused("a job has one schedule: use --every or --cron, not both")
    old = current or Schedule()
    every_s, cron_kept = (old.every_s, old.cron) if every is None and cron_text is None else (0.0, "")
    if every is not None:
        every_s = _check_interval(every)
    schedule = Schedule(
        every_s=every_s,
        cron=" ".join(cron_text.split()) if cron_text is not None else cron_kept,
        timezone=(timezone or old.timezone) if cron_text is not None or cron_kept else (timezone or "UTC"),
        catch_up=_check_policy(catch_up) if catch_up is not None else old.catch_up,
        park_after=_check_limit(park_after) if park_after is not None else old.park_after,
    )
    return _check_times(schedule)


def _check_times(schedule: Schedule) -> Schedule:
    if not schedule.cron and schedule.every_s == 0:
        raise Refused("the cron expression is empty")
    if not schedule.cron and schedule.timezone != "UTC":
        raise Refused("an interval has no time zone: use --timezone together with --cron")
    load_zone(schedule.timezone)
    if schedule.cron:
        _parse_cron(schedule.cron, schedule.timezone)
    return schedule


def _parse_cron(text: str, timezone: str) -> "ZonedCron":
    """Parse the text and load the time zone. Raise Refused with the first problem."""
    from holdfast.model.schedule.cron import ZonedCron, parse_cron  # expensive import, not needed to read schedules

    return ZonedCron(parse_cron(text), load_zone(timezone))


def _check_interval(every: str | float) -> float:
    every_s = parse_duration(every) if isinstance(every, str) else float(every)
    if not EVERY_S_MIN <= every_s <= EVERY_S_MAX:
        raise Refused(f"'{every}' cannot be the interval of a schedule: use 1s to 366d")
    return every_s


def _check_policy(text: str) -> CatchUp:
    try:
        return CatchUp(text)
    except ValueError:
        raise Refused(f"'{text}' is not a catch-up policy: use {', '.join(CatchUp)}") from None


def _check_limit(count: int) -> int:
    if not 0 <= count <= PARK_AFTER_MAX:
        raise Refused(f"the limit of failed runs in a row is 0 (none) to {PARK_AFTER_MAX}, not {count}")
    return count


@functools.lru_cache(maxsize=256)
def load_zone(name: str) -> "ZoneInfo":
    """Return the rules of a time zone. Raise Refused if this machine does not know it."""
    from zoneinfo import ZoneInfo  # expensive import, not needed to read schedules

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise Refused(
            f"this machine knows no time zone '{name}': use a name such as Europe/Berlin, or install tzdata"
        ) from None


def _format_duration(duration_s: float) -> str:
    for unit, unit_s in (("d", 86400), ("h", 3600), ("m", 60)):
        if duration_s >= unit_s and duration_s % unit_s == 0:
            return f"{duration_s / unit_s:.0f}{unit}"
    return f"{duration_s:g}s"
