"""How far a job is behind its Kafka topics, for people."""

import json
from collections.abc import Iterable, Iterator

PARTITIONS_SHOWN = 5


def facts(lags: Iterable[str], *, alive: bool) -> list[tuple[str, str]]:
    """What a job that is not alive was behind says nothing about what it is behind now."""
    then = "" if alive else ", when it last ran"
    return [("lag", sentence + then) for text in lags for sentence in _topics(text)]


def _topics(text: str) -> Iterator[str]:
    """What a runner reported; it may be anything."""
    try:
        topics = json.loads(text)
        for topic, partitions in topics.items():
            behind = {int(number): int(records) for number, records in partitions.items()}
            yield f"{topic}: {sum(behind.values()):,} records behind{_worst(behind)}"
    except (ValueError, AttributeError, TypeError, RecursionError):
        return


def _worst(behind: dict[int, int]) -> str:
    late = sorted((number for number in behind if behind[number]), key=lambda number: (-behind[number], number))
    if not late:
        return f" in {len(behind)} partitions"
    shown = ", ".join(f"{number}: {behind[number]:,}" for number in late[:PARTITIONS_SHOWN])
    more = f", {len(late) - PARTITIONS_SHOWN} more" if len(late) > PARTITIONS_SHOWN else ""
    return f" (partition {shown}{more})"
