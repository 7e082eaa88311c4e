"""Timestamps and durations as text. Every function accepts a time that no calendar can represent."""

from datetime import UTC, datetime, timedelta

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


def local_datetime(wall: float | None) -> datetime | None:
    """Convert a Unix time to local time. Return None for None and for times outside the calendar."""
    try:
        return datetime.fromtimestamp(wall, tz=UTC).astimezone() if wall is not None else None
    except (ValueError, OverflowError, OSError):
        return None


def iso(wall: float | None) -> str | None:
    """Format a Unix time as ISO 8601 in UTC, with milliseconds."""
    at = local_datetime(wall)
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z") if at is not None else None


def stamp(wall: float | None, now: float) -> str:
    """Format the local time of day, with the date if it is not the day of `now`."""
    at, today = local_datetime(wall), local_datetime(now)
    if at is None or today is None:
        return "?"
    return f"{at:%H:%M:%S}" if at.date() == today.date() else f"{at:%Y-%m-%d %H:%M:%S}"


def age(wall: float | None, now: float) -> str:
    """Format the time since `wall` in one unit. A time in the future counts as now, because clocks differ."""
    if local_datetime(wall) is None or wall is None:
        return "?"
    seconds = timedelta(seconds=max(now - wall, 0)).total_seconds()
    for limit, unit_s, unit in ((100, 1, "s"), (100 * MINUTE_S, MINUTE_S, "min"), (2 * DAY_S, HOUR_S, "h")):
        if seconds < limit:
            return f"{int(seconds // unit_s)} {unit}"
    return f"{int(seconds // DAY_S)} d"
