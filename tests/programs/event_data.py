"""Generated input of the streaming programs. Each phase of a trial adds files, whose content depends on its number alone.

Event times only grow. The last file of a phase has an event two hours later, so all windows and sessions before it end. No two
times differ by exactly a timeout, so it does not matter whether a limit is inclusive.
"""

import random
from collections.abc import Mapping, Sequence

from tests.programs.rows import Row

FILES = 10
"""Files of each phase, without the last one, which ends the windows."""
FILE_S = 120
GAP_S = 300
PHASE_S = 4 * 3600
CLOSING_S = 2 * 3600 + 7
START_S = 1_699_999_800
"""A multiple of five minutes."""
WORDS = [f"{first}{second}" for first in ("ka", "lo", "mi", "nu", "po") for second in ("ra", "se", "ti", "vo")]
USERS = ["anna", "ben", "carl", "dora"]

Files = list[list[Row]]
Phase = Mapping[str, Files]
"""Files of a phase by the option of the script that names their folder."""


def word_lines(phase: int) -> Phase:
    draw = random.Random(f"words {phase}")
    return {"input": [[{"value": _words(draw)} for _ in range(4)] for _ in range(FILES)]}


def timed_words(phase: int) -> Phase:
    draw = random.Random(f"timed words {phase}")
    return _with_closing(phase, [[{"time": time, "words": _words(draw)} for time in times] for times in _times(phase, draw)])


def user_events(phase: int) -> Phase:
    """Return events of users who pause repeatedly for longer than the gap of a session."""
    draw = random.Random(f"users {phase}")
    files = []
    last = dict.fromkeys(USERS, 0)
    for number, times in enumerate(_times(phase, draw)):
        active = [user for place, user in enumerate(USERS) if (number // 3 + place) % 2 == 0]
        rows: list[Row] = []
        for time in times:
            user = draw.choice(active)
            if time - last[user] != GAP_S:
                rows.append({"time": time, "user": user})
                last[user] = time
        files.append(rows)
    return _with_closing(phase, files)


def user_actions(phase: int) -> Phase:
    """Return events that each carry the gap after which their session ends."""
    draw = random.Random(f"actions {phase}")
    kinds = ["view"] * 6 + ["buy", "login", "logout"]
    files = [
        [
            {
                "time": row["time"],
                "user": row["user"],
                "kind": draw.choice(kinds),
                "page": f"page{draw.randrange(9)}",
                "gap_s": gap,
            }
            for row in rows
            for gap in [draw.randrange(60, 400)]
        ]
        for rows in user_events(phase)["input"]
    ]
    files[-1] = [{**row, "kind": "view"} for row in files[-1]]
    return {"input": files}


def ads(phase: int) -> Phase:
    """Return impressions, and clicks on some of them: in time, twice, or too late."""
    draw = random.Random(f"ads {phase}")
    shown = [[{"ad": 1000 * phase + number * 10 + place, "time": time} for place, time in enumerate(times)]
             for number, times in enumerate(_times(phase, draw))]  # fmt: skip  # one item per line is harder to read
    delays = [[], [5, 590], [20, 300], [20, 300], [40, 240], [650, 900]]
    clicks = [
        {"ad": row["ad"], "time": row["time"] + draw.randrange(*limits)}
        for rows in shown
        for row in rows
        for choice in [draw.choice(delays)]
        for limits in [choice] * draw.choice([1, 1, 2])
        if limits
    ]
    clicks.sort(key=lambda row: row["time"])
    size = -(-len(clicks) // FILES)
    clicked = [clicks[first : first + size] for first in range(0, len(clicks), size)]
    closing = _phase_start(phase) + CLOSING_S
    return {
        "impressions": [*shown, [{"ad": 1000 * phase + 999, "time": closing}]],
        "clicks": [*clicked, [{"ad": -1, "time": closing}]],
    }


def repeated_events(phase: int) -> Phase:
    """Return events, of which each file repeats some of the file before it and of itself."""
    draw = random.Random(f"repeated {phase}")
    files: Files = []
    for number, times in enumerate(_times(phase, draw)):
        rows: list[Row] = [{"id": 1000 * phase + 10 * number + place, "time": time} for place, time in enumerate(times)]
        files.append([*rows, *draw.choices(rows, k=2), *(draw.choices(files[-1], k=3) if files else [])])
    return {"input": files}


def numbers(phase: int) -> Phase:
    return {"input": [[{"number": (phase * FILES + file) * 5 + place} for place in range(5)] for file in range(FILES)]}


def _phase_start(phase: int) -> int:
    return START_S + phase * PHASE_S


def _times(phase: int, draw: random.Random) -> Sequence[list[int]]:
    """Return the event times of each file, ascending and all different."""
    start = _phase_start(phase)
    return [sorted(draw.sample(range(start + file * FILE_S, start + (file + 1) * FILE_S), 6)) for file in range(FILES)]


def _with_closing(phase: int, files: Files) -> Phase:
    return {"input": [*files, [{**files[0][0], "time": _phase_start(phase) + CLOSING_S}]]}


def _words(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=5))
