"""Expected results of the streaming programs, computed from all rows of their input without Spark."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from tests.programs.rows import Result, Row, to_result

Rows = Mapping[str, Sequence[Row]]
"""Rows by the option of the script that names their folder."""

WATERMARK_DELAY_S = 600
SESSION_GAP_S = 300
WINDOW_S, SLIDE_S = 600, 300
CLICK_S = 600
SETTLED_S = 3600
"""An unmatched impression that is older than this is written without a click. The input has none that is close to the limit."""


def count_words(rows: Rows) -> Result:
    counts = Counter(word for row in rows["input"] for word in row["value"].split(" "))
    return to_result({"word": word, "count": count} for word, count in counts.items())


def count_words_in_windows(rows: Rows) -> Result:
    """Return the counts of all windows that have ended by the watermark."""
    counts = Counter(
        (start, word)
        for row in rows["input"]
        for last in [row["time"] // SLIDE_S * SLIDE_S]
        for start in range(last - WINDOW_S + SLIDE_S, last + 1, SLIDE_S)
        for word in row["words"].split(" ")
    )
    watermark = _watermark(rows["input"])
    return to_result(
        {"start": start, "end": start + WINDOW_S, "word": word, "count": count}
        for (start, word), count in counts.items()
        if start + WINDOW_S <= watermark
    )


def find_sessions(rows: Rows) -> Result:
    """Return the sessions that have ended by the watermark."""
    sessions: dict[str, list[list[int]]] = defaultdict(list)
    for row in sorted(rows["input"], key=lambda row: row["time"]):
        known = sessions[row["user"]]
        if not known or row["time"] >= known[-1][-1] + SESSION_GAP_S:
            known.append([])
        known[-1].append(row["time"])
    watermark = _watermark(rows["input"])
    return to_result(
        {"user": user, "start": times[0], "end": times[-1] + SESSION_GAP_S, "count": len(times)}
        for user, known in sessions.items()
        for times in known
        if times[-1] + SESSION_GAP_S <= watermark
    )


def find_complex_sessions(rows: Rows) -> Result:
    """Return the sessions that a logout ended, or whose longest gap has passed by the watermark."""
    watermark = _watermark(rows["input"])
    by_user: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows["input"], key=lambda row: row["time"]):
        by_user[row["user"]].append(row)
    found = [session for user, events in by_user.items() for session in _split_actions(user, events, watermark)]
    return to_result(found)


def _split_actions(user: str, events: Iterable[Row], watermark: int) -> Iterable[Row]:
    session: list[Row] = []
    for event in events:
        if session and event["time"] >= _expiry(session):
            yield _describe_session(user, session, "timeout")
            session = []
        session.append(event)
        if event["kind"] == "logout":
            yield _describe_session(user, session, "logout")
            session = []
    if session and _expiry(session) <= watermark:
        yield _describe_session(user, session, "timeout")


def _expiry(session: Sequence[Row]) -> int:
    return max(int(event["time"] + event["gap_s"]) for event in session)


def _describe_session(user: str, session: Sequence[Row], end: str) -> Row:
    kinds = Counter(event["kind"] for event in session)
    return {
        "user": user,
        "start": session[0]["time"],
        "end": end,
        "pages": " ".join(event["page"] for event in session),
        "kinds": " ".join(f"{kind}={count}" for kind, count in sorted(kinds.items())),
    }


def join_clicks(rows: Rows) -> Result:
    """Return each pair of an impression and a click in time, and each earlier impression without one."""
    clicks: dict[int, list[int]] = defaultdict(list)
    for click in rows["clicks"]:
        clicks[click["ad"]].append(click["time"])
    settled = max(row["time"] for row in rows["impressions"]) - SETTLED_S
    joined: list[Row] = []
    for row in rows["impressions"]:
        matches = [time for time in clicks[row["ad"]] if 0 <= time - row["time"] <= CLICK_S]
        joined += [{"ad": row["ad"], "shown": row["time"], "clicked": time} for time in matches]
        if not matches and row["time"] < settled:
            joined.append({"ad": row["ad"], "shown": row["time"]})
    return to_result(joined)


def find_unique_events(rows: Rows) -> Result:
    return to_result({row["id"]: row for row in rows["input"]}.values())


def total_numbers(rows: Rows) -> Result:
    """Return all rows, and one row with their number and sum."""
    found = [row["number"] for row in rows["input"]]
    return to_result([*rows["input"], {"rows": len(found), "sum": sum(found)}])


Expected = Callable[[Rows], Result]


def _watermark(rows: Sequence[Row]) -> int:
    return max(int(row["time"]) for row in rows) - WATERMARK_DELAY_S
