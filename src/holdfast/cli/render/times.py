"""Points in time and durations, for people and for scripts. Nothing here trusts a number that was read from somewhere."""

from datetime import UTC, datetime, timedelta

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


def moment(wall: float | None) -> datetime | None:
    """In local time; None if there is none, or no calendar has it."""
    try:
        return datetime.fromtimestamp(wall, tz=UTC).astimezone() if wall is not None else None
    except (ValueError, OverflowError, OSError):
        return None


def iso(wall: float | None) -> str | None:
    """ISO 8601 in UTC, with milliseconds."""
    at = moment(wall)
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z") if at is not None else None


def stamp(wall: float | None, now: float) -> str:
    """The time of day, and the date too if that was not today."""
    at, today = moment(wall), moment(now)
    if at is None or today is None:
        return "?"
    return f"{at:%H:%M:%S}" if at.date() == today.date() else f"{at:%Y-%m-%d %H:%M:%S}"


def age(wall: float | None, now: float) -> str:
    """How long ago, in one unit. The clocks of several machines differ: the future is now."""
    if moment(wall) is None or wall is None:
        return "?"
    seconds = timedelta(seconds=max(now - wall, 0)).total_seconds()
    for limit, unit_s, unit in ((100, 1, "s"), (100 * MINUTE_S, MINUTE_S, "min"), (2 * DAY_S, HOUR_S, "h")):
        if seconds < limit:
            return f"{int(seconds // unit_s)} {unit}"
    return f"{int(seconds // DAY_S)} d"
